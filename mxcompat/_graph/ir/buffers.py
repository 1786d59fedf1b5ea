"""Memory accounting: the bytes that the values of nodes take up, now and at peak.

A buffer is counted when it becomes a node's value or when NumPy makes it as an intermediate result. A weak reference
tells when it is freed. The temporary memory of an XLA executable is known from its compilation. Counting takes half a
microsecond, too much for every small array. So only large buffers, which determine the peak, are counted until the
program first asks; then all are.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from mxcompat._jax import is_tracer

from .. import policy

__all__ = [
    "count", "count_all", "in_use", "owner", "peak", "record_transient", "reset_peak", "smallest", "track_temporary",
    "untrack",
]  # fmt: skip

smallest = policy.COUNTED_BYTES
"""Minimum size in bytes of the values that are counted."""

_held: dict[int, _Buffer] = {}
_in_use = 0
_peak = 0


class _Buffer(ref):
    """A weak reference to the owner of a buffer; `key` is the owner's id."""

    __slots__ = ("key", "nbytes")

    key: int
    nbytes: int


def count(value: Any, aval: Any) -> None:
    """Count the buffer of a node's value, if it is large enough. A buffer is counted once, even if several values are
    views of it.

    Args:
        value: a NumPy or JAX array, or a tuple of arrays.
        aval: its aval, or a tuple of avals.
    """
    if type(aval) is tuple:
        for v, a in zip(value, aval, strict=True):
            count(v, a)
    elif aval.nbytes >= smallest:
        if type(value) is np.ndarray:
            _add(owner(value), aval.nbytes)
        elif type(value) in _arrays or _is_array(value):
            _add(value, _on_devices(value, aval.nbytes))


_arrays: set[type] = set()
"""The types of JAX arrays seen so far; tracers are not among them."""


def _is_array(value: Any) -> bool:
    """Return True if a JAX value has a buffer, that is, if it is not a tracer."""
    if is_tracer(value):
        return False
    _arrays.add(type(value))
    return True


def track_temporary(result: Any) -> None:
    """Count the buffers of NumPy's intermediate results. The result of `np.broadcast_to` counts with the size of the
    memory that it refers to."""
    if type(result) in (tuple, list):
        for r in result:
            track_temporary(r)
    elif type(result) is np.ndarray:
        held_by = owner(result)
        if held_by.nbytes >= smallest:
            _add(held_by, held_by.nbytes)


def _on_devices(value: Any, nbytes: int) -> int:
    """Return the bytes that a JAX array of `nbytes` takes on all devices of this process."""
    if len(value.sharding.device_set) == 1:
        return nbytes
    return sum(part.data.nbytes for part in value.addressable_shards)


def _add(held_by: Any, nbytes: int) -> None:
    global _in_use, _peak
    key = id(held_by)
    if key in _held:
        return
    _held[key] = buffer = _Buffer(held_by, _released)
    buffer.key = key
    buffer.nbytes = nbytes
    _in_use += nbytes
    if _in_use > _peak:
        _peak = _in_use


def owner(value: Any) -> Any:
    """Return the array that owns a value's memory: the base NumPy array, or the JAX array that a NumPy array is a view
    of."""
    if type(value) is np.ndarray:
        base = value.base
        while type(base) is np.ndarray:
            value, base = base, base.base
        if type(base) is memoryview and id(base.obj) in _held:
            return base.obj
    return value


def _released(buffer: _Buffer) -> None:
    global _in_use
    if _held.pop(buffer.key, None) is not None:
        _in_use -= buffer.nbytes


def untrack(value: Any) -> None:
    """Stop counting a value whose buffer was donated, though a Python reference to it remains."""
    global _in_use
    buffer = _held.pop(id(owner(value)), None)
    if buffer is not None:
        _in_use -= buffer.nbytes


def count_all() -> bool:
    """Count values of all sizes from now on. Return True if this is new; the caller must then count the existing
    values."""
    global smallest
    new, smallest = smallest > 0, 0
    return new


def record_transient(nbytes: int) -> None:
    """Record the bytes of temporary memory that a computation takes."""
    global _peak
    _peak = max(_peak, _in_use + nbytes)


def in_use() -> int:
    """Return the bytes of all counted buffers."""
    return _in_use


def peak() -> int:
    """Return the peak of the bytes in use, since the start or the last `reset_peak`."""
    return _peak


def reset_peak() -> None:
    """Set the peak to 0; it rises again with the next buffer that is counted."""
    global _peak
    _peak = 0
