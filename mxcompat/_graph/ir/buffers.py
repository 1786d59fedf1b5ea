"""Buffers: how many bytes the values of nodes take up, now and at most.

A buffer is counted when a node gets it as its value, or NumPy has made it on the way to one, and is taken off when
Python gives it up: a weak reference tells. What an executable of XLA's takes on the way is known from its compile.
Counting costs half a microsecond, too much for each small array of a program that never asks. So until somebody does,
the large ones alone are counted, which decide what the peak is; from the first question on, all are.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from mxcompat._jax import is_tracer

from .. import policy

__all__ = ["count", "count_all", "gone", "in_use", "made", "owner", "passing", "peak", "reset_peak", "smallest"]

smallest = policy.COUNTED_BYTES
"""The size in bytes from which on values are counted."""

_held: dict[int, _Buffer] = {}
_in_use = 0
_peak = 0


class _Buffer(ref):
    """A weak reference to the owner of a buffer; `key` is the owner's id."""

    __slots__ = ("key", "nbytes")

    key: int
    nbytes: int


def count(value: Any, aval: Any) -> None:
    """Count the buffer of a node's value if it is large enough, and not counted yet: values may be views of one.

    Args:
        value: a NumPy or JAX array, or a tuple of them.
        aval: its aval, or a tuple of them.
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
"""The types of JAX's values, other than tracers, that there have been."""


def _is_array(value: Any) -> bool:
    """Whether a value of JAX's has a buffer, as all of its type have: whether it is no tracer."""
    if is_tracer(value):
        return False
    _arrays.add(type(value))
    return True


def made(result: Any) -> None:
    """Count the buffer of an intermediate result in NumPy, or those of several, as `count` does. What repeats a number
    without room of its own, as `np.broadcast_to` does, takes what the number does."""
    if type(result) in (tuple, list):
        for r in result:
            made(r)
    elif type(result) is np.ndarray:
        held_by = owner(result)
        if held_by.nbytes >= smallest:
            _add(held_by, held_by.nbytes)


def _on_devices(value: Any, nbytes: int) -> int:
    """What a JAX array of `nbytes` takes on all devices of this process together."""
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
    """Whose memory a value is a view of: NumPy's first array, or the JAX array that it shows."""
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


def gone(value: Any) -> None:
    """Take off a value whose buffer belongs to another from now on, though Python still knows it."""
    global _in_use
    buffer = _held.pop(id(owner(value)), None)
    if buffer is not None:
        _in_use -= buffer.nbytes


def count_all() -> bool:
    """Count values of all sizes from now on. Returns whether that is new: those that there are have to be counted."""
    global smallest
    new, smallest = smallest > 0, 0
    return new


def passing(nbytes: int) -> None:
    """Note that a computation takes so many bytes while it runs."""
    global _peak
    _peak = max(_peak, _in_use + nbytes)


def in_use() -> int:
    """The bytes of all counted buffers."""
    return _in_use


def peak() -> int:
    """The most bytes that were in use at once, since the start or the last `reset_peak`."""
    return _peak


def reset_peak() -> None:
    """Start anew: the peak is 0 until something is counted."""
    global _peak
    _peak = 0
