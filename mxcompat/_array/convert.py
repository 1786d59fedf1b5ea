"""Conversion of arrays to Python numbers and lists, NumPy arrays, bytes, DLPack and pickles.

Each function takes a node and evaluates it. Inside `vmap` and `compile`, arguments have no value and evaluation raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype
from mxcompat._graph.ir.node import Node
from mxcompat._graph.run.evaluate import evaluate, evaluated, evaluated_on_host, wait
from mxcompat._graph.run.events import timers
from mxcompat._graph.run.platform import is_cpu
from mxcompat._jax import is_array
from mxcompat._native import native

from .construct import node_of
from .errors import no_format

__all__ = [
    "dlpack_device", "host", "index", "item", "memory", "numpy", "pickled", "to_bytes", "to_dlpack", "tolist",
    "unpickled", "value",
]  # fmt: skip


def item(node: Node) -> Any:
    """Return the only element as a bool, int, float or complex."""
    if node.aval.size != 1:
        raise ValueError("[convert] Only length-1 arrays can be converted to Python scalars.")
    value = node.value
    if type(value) is not np.ndarray:
        known = None if timers else _number(value)  # timers must be told of the wait, so they need the other path
        if known is not None:
            return known
        value = host(node)
    number = value.item()
    return float(number) if node.aval.dtype is _d.bfloat16 else number


_number: Callable[[Any], Any] = native.number if native else lambda value: None
"""Return the number in a buffer that holds a single one, or None. This is three times as fast as NumPy for values
computed by XLA."""


def index(node: Node) -> int:
    """Return the value of a 0-d integer, for `range`, slices and indices of Python sequences."""
    if node.aval.ndim or node.aval.dtype._kind not in "iu":
        raise TypeError("Only 0-dimensional integer arrays can be converted to an index.")
    return item(node)


def host(node: Node) -> np.ndarray:
    """Return the data as a read-only NumPy array. Its memory is shared if it is in this process."""
    return evaluated_on_host(node)


def tolist(node: Node) -> Any:
    """Return nested lists of Python numbers, or a number if there are no axes."""
    data = host(node)
    return (data.astype(np.float32) if node.aval.dtype is _d.bfloat16 else data).tolist()


def numpy(node: Node, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """Return a NumPy array of the data: by default a view, which can be written to as in MLX.

    Writing to it changes the array and all arrays that share its memory. If the data cannot be shared (on an
    accelerator, or for another dtype), it is a copy.

    Raises:
        ValueError: for bfloat16, which NumPy lacks; or if `copy` is False and a copy is required.
    """
    last, _failed.last = _failed.last, None
    if last is not None and last[0] is node:
        try:
            raise last[1]
        finally:
            del last  # the traceback of the error refers to this frame
    if node.aval.dtype is _d.bfloat16:
        raise no_format(node.aval.dtype._label)
    data = evaluated_on_host(node)
    if dtype is not None and np.dtype(dtype) != data.dtype:
        # this is NumPy's error for False
        return np.array(data, dtype, copy=False) if copy is False else data.astype(dtype)
    shared = _on_host(node.value)
    if not shared and copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return data.copy() if copy or not shared else _writable(data)


def _writable(data: np.ndarray) -> np.ndarray:
    """Return a writable view of the data. For empty and 0-d data, which other nodes may share, return a copy."""
    return np.asarray(_View(data)) if data.ndim and data.size else data.copy()


class _Failed(threading.local):
    """The node for which `value` last raised, and the error. NumPy discards the error, even an interrupt, and calls
    `numpy` next."""

    last: tuple[Node, BaseException] | None = None


_failed = _Failed()


def value(node: Node) -> Any:
    """Evaluate a node and return its value."""
    _failed.last = None
    try:
        wait(*evaluate([node]))
    except BaseException as error:
        _failed.last = node, error
        raise
    return node.value


def memory(node: Node, flags: int) -> tuple[memoryview, str | None]:
    """Return the memory of an array, for Python's buffer protocol. The dtype bfloat16 has no buffer format: for it,
    return the memory as uint16, and the name of the dtype.

    Args:
        flags: the flags of the buffer protocol that the consumer requests. The value 0 requests plain bytes; then data
            on another device are copied to this process.

    Raises:
        BufferError: if the consumer requests more than plain bytes, and the data are on another device.
    """
    if not flags:
        return memoryview(host(node).reshape(-1).view(np.uint8)), None
    if not _on_host(value(node)):  # NumPy drops this error and calls `numpy` next
        raise BufferError("[array] The memory is not this process's. Take that of a copy: memoryview(np.array(x)).")
    data = host(node)
    if node.aval.dtype is _d.bfloat16:
        return memoryview(_writable(data.view(np.uint16))), _d.bfloat16._label
    return memoryview(_writable(data).view(_AS_MLX.get(data.dtype, data.dtype))), None


_AS_MLX = {np.dtype(np.int64): np.longlong, np.dtype(np.uint64): np.ulonglong}
"""Types with MLX's format codes "q" and "Q". NumPy uses "l" and "L" where a long has 64 bits."""


class _View:
    """Memory of an immutable JAX array, offered to NumPy as writable. It keeps the array alive and undonated."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, data: np.ndarray) -> None:
        interface = data.__array_interface__
        interface["data"] = (interface["data"][0], False)
        if interface["strides"] is None:
            del interface["strides"]  # NumPy 2.4 would keep a reference to this None at each use
        self.__array_interface__ = interface
        self.owner = data


def _on_host(value: Any) -> bool:
    return type(value) is np.ndarray or (is_array(value) and [d.platform for d in value.devices()] == ["cpu"])


def to_bytes(node: Node) -> bytes:
    """Return the elements as bytes in row-major order."""
    return host(node).tobytes()


def to_dlpack(node: Node, stream: Any, max_version: Any, device: tuple[int, int] | None, copy: bool | None) -> Any:
    """Return a DLPack capsule. Raise BufferError for another device than the array's."""
    own_device = dlpack_device(node)
    if device is not None and tuple(device) != own_device:
        raise BufferError(f"Cannot export to DLPack device {tuple(device)}: the array is on {own_device}.")
    if _in_numpy(node):  # `numpy` shares this memory, but as in MLX, the consumer may only read it
        return numpy(node, copy=copy).__dlpack__(copy=copy)
    return evaluated(node).__dlpack__(stream=None if own_device[0] == 1 else stream, max_version=max_version, copy=copy)


def dlpack_device(node: Node) -> tuple[int, int]:
    """Return DLPack's device type and the device number."""
    if _in_numpy(node):
        return 1, 0
    kind, number = evaluated(node).__dlpack_device__()
    return int(kind), number


def _in_numpy(node: Node) -> bool:
    """Return True if the value is a NumPy array of a NumPy dtype. With an accelerator, data belong there, so the result
    is False."""
    if node.value is None:
        evaluate([node])
    return type(node.value) is np.ndarray and node.aval.dtype is not _d.bfloat16 and is_cpu()


def pickled(node: Node) -> tuple[np.ndarray, int]:
    """Return the pickled state of an array: its data (bfloat16 as uint16) and the number of its dtype."""
    data = host(node)
    dtype = node.aval.dtype
    return np.array(data.view(np.uint16) if dtype is _d.bfloat16 else data), _CODES[dtype]


def unpickled(state: tuple[np.ndarray, int]) -> Node:
    """Return the node for a pickled state."""
    data, code = state
    dtype = _BY_CODE[code]
    return node_of(data.view(dtype._numpy) if dtype is _d.bfloat16 else data, dtype)


_CODES: dict[Dtype, int] = {
    d: k
    for k, d in enumerate((
        _d.bool_, _d.uint8, _d.uint16, _d.uint32, _d.uint64, _d.int8, _d.int16, _d.int32, _d.int64,
        _d.float16, _d.float32, _d.float64, _d.bfloat16, _d.complex64,
    ))
}  # fmt: skip
"""MLX's numbers of the dtypes in pickles."""

_BY_CODE = {k: d for d, k in _CODES.items()}
