"""Values: the data of a node, as JAX needs it and as NumPy does.

What NumPy has made stays a NumPy array until XLA needs it, and what XLA has made a JAX array; on a CPU either is seen
as the other without a copy, where that is safe.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._compat.jax_internals import device_put, put
from mxcompat._compat.references import of_base, of_value
from mxcompat._jax import jax

from .. import policy
from ..ir import buffers
from ..ir.node import SCALAR, Node
from .events import span
from .forked import require_threads
from .layout import contiguous
from .partition import whole

__all__ = ["aligned", "aligned_bytes", "in_order", "jax_value", "numpy_value", "settled", "sole", "to_jax"]


def jax_value(node: Node) -> Any:
    """The value of a node, which is not a Python number, as a JAX array; it stays one."""
    value = node.value
    if type(value) is np.ndarray:
        require_threads()
        del value  # it would be one reference more
        taken, value = sole(node), node.value
        if taken:
            buffers.gone(value)
        # what nobody else sees may be shared with XLA, which may write over it one day
        node.value = value = _put(value if taken else aligned(value))
        buffers.count(value, node.aval)
    elif type(value) is tuple and any(type(v) is np.ndarray for v in value):
        node.value = value = tuple([to_jax(v) if type(v) is np.ndarray else v for v in value])
        buffers.count(value, node.aval)
    return value


def to_jax(value: Any) -> jax.Array:
    """A JAX array with a copy of NumPy's data."""
    require_threads()
    return _put(aligned(value))


def _put(data: np.ndarray) -> jax.Array:
    if jax.config.jax_default_device is None and device_put.holds:  # type: ignore[attr-defined]
        return put(data)
    with jax.enable_x64(True):
        return jax.device_put(data)


def aligned(data: np.ndarray) -> np.ndarray:
    """A copy, at an address where XLA takes it over as it is. JAX compiles a copy of its own for each shape."""
    copy = aligned_bytes(data.nbytes).view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


def aligned_bytes(count: int) -> np.ndarray:
    """So many bytes of new memory, at such an address."""
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count]


_ALIGNMENT = 64


def numpy_value(node: Node) -> Any:
    """The value of a node as a NumPy array, or a NumPy scalar of a Python number. Called where NumPy does not warn."""
    value = node.value
    if type(value) is np.ndarray:
        return value
    if node.op is SCALAR:
        return node.aval.dtype._numpy.type(value)
    with span("wait"):
        return tuple([whole(v) for v in value]) if type(value) is tuple else whole(value)


def settled(value: Any, promised: Any) -> Any:
    """What an op made in NumPy, as the value of a node: contiguous, and no small view that keeps a large array
    alive."""
    if isinstance(promised, tuple):
        return tuple([settled(v, a) for v, a in zip(value, promised, strict=True)])
    value = np.asarray(value)
    if value.dtype != promised.dtype._numpy or value.shape != promised.shape:
        raise RuntimeError(
            f"NumPy gave {value.dtype}{list(value.shape)} where {promised} was promised; please report this as a bug "
            "of mxcompat."
        )
    if value.base is not None and value.flags.c_contiguous and 2 * value.nbytes < _base_bytes(value):
        return value.copy()
    return contiguous(value)


def in_order(x: Any) -> Any:
    """The same array; a small one as a copy, if its elements do not lie one after the other. NumPy adds up in the order
    in which they lie, and the same sum is to have the same bits whatever was evaluated before it."""
    if type(x) is not np.ndarray or x.flags.c_contiguous or x.nbytes > policy.ORDERED_BYTES:
        return x
    return np.ascontiguousarray(x)


def _base_bytes(value: np.ndarray) -> int:
    return getattr(value.base, "nbytes", 0)


def sole(node: Node) -> bool:
    """Whether the node alone refers to its value, and to the memory of that. The caller has no variable for either."""
    if of_value(node) != 0:
        return False
    if not isinstance(node.value, np.ndarray) or node.value.base is None:
        return True
    return type(node.value.base) is np.ndarray and node.value.base.base is None and of_base(node.value) == 0
