"""Values: convert the value of a node between NumPy and JAX.

A result of NumPy stays a NumPy array until XLA needs it, and a result of XLA stays a JAX array. On a CPU, the
conversion shares memory where that is safe.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._compat.aligned_memory import ALIGNMENT
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

__all__ = ["aligned", "aligned_bytes", "as_node_value", "in_order", "jax_value", "numpy_value", "sole", "to_jax"]


def jax_value(node: Node, donated: bool = False) -> Any:
    """Convert the value of a node, which is not a Python number, to a JAX array, store it in the node and return it.

    Args:
        donated: True if the executable overwrites the array. It then owns its memory: XLA overwrites no memory of
            NumPy's, but would copy all such arrays before the run, while their memory is still in use.
    """
    value = node.value
    if type(value) is np.ndarray:
        require_threads()
        del value  # the local name would count as one more reference
        taken, value = sole(node), node.value
        if taken:
            buffers.untrack(value)
        # XLA may share and overwrite the memory, so share it only if it has no other references
        node.value = value = _put(value if taken or donated else aligned(value), donated)
        buffers.count(value, node.aval)
    elif type(value) is tuple and any(type(v) is np.ndarray for v in value):
        node.value = value = tuple([to_jax(v) if type(v) is np.ndarray else v for v in value])
        buffers.count(value, node.aval)
    return value


def to_jax(value: Any) -> jax.Array:
    """Copy a NumPy array to a JAX array."""
    require_threads()
    return _put(aligned(value))


def _put(data: np.ndarray, copied: bool = False) -> jax.Array:
    if jax.config.jax_default_device is None and device_put.holds:  # type: ignore[attr-defined]
        return put(data, copied)
    with jax.enable_x64(True):
        return jax.device_put(aligned(data) if copied else data)


def aligned(data: np.ndarray) -> np.ndarray:
    """Return a copy at an aligned address, whose memory XLA can use without another copy. (JAX would compile a program
    for each shape to copy it.)"""
    copy = aligned_bytes(data.nbytes).view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


def aligned_bytes(count: int) -> np.ndarray:
    """Allocate `count` bytes at an aligned address."""
    memory = np.empty(count + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + count]


def numpy_value(node: Node) -> Any:
    """Return the value of a node as a NumPy array, and a Python number as a NumPy scalar. The caller must have switched
    off NumPy's warnings."""
    value = node.value
    if type(value) is np.ndarray:
        return value
    if node.op is SCALAR:
        return node.aval.dtype._numpy.type(value)
    with span("wait"):
        return tuple([whole(v) for v in value]) if type(value) is tuple else whole(value)


def as_node_value(value: Any, promised: Any) -> Any:
    """Convert an op's NumPy result to the value of a node: make it contiguous, and copy a small view that would keep a
    large array alive."""
    if isinstance(promised, tuple):
        return tuple([as_node_value(v, a) for v, a in zip(value, promised, strict=True)])
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
    """Return the array, or a C-contiguous copy if it is small. NumPy sums in memory order, and the bits of a sum must
    not depend on earlier evaluations."""
    if type(x) is not np.ndarray or x.flags.c_contiguous or x.nbytes > policy.CALL_BYTES:
        return x
    return np.ascontiguousarray(x)


def _base_bytes(value: np.ndarray) -> int:
    return getattr(value.base, "nbytes", 0)


def sole(node: Node) -> bool:
    """Return True if only the node refers to its value and to the value's memory. The caller must not hold references
    to them."""
    if of_value(node) != 0:
        return False
    if not isinstance(node.value, np.ndarray) or node.value.base is None:
        return True
    return type(node.value.base) is np.ndarray and node.value.base.base is None and of_base(node.value) == 0
