"""Relaxed atomics: reads, writes, and updates of memory by a value of each thread.

The threads come in the order of their groups and their numbers. The old value that an atomic returns is computed only
where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import bounds
from .buffers import Memory, as_index
from .errors import Problem
from .places import MemoryPlace
from .simd import neutral
from .syntax import Call
from .types import VOID, ScalarType
from .values import NoValue, Pointer, Scalar, Value

__all__ = ["ATOMICS"]

ATOMICS: dict[str, Callable[[Any, Call, bool], Value]] = {}
"""Atomic functions, by name: `function(walk, call, used)`."""


def _target(walk: Any, expression: Call) -> MemoryPlace:
    pointer = walk.value(expression.arguments[0])
    if not isinstance(pointer, Pointer):
        raise Problem("an atomic needs a pointer", expression.at)
    place = walk.pointed(pointer)
    if not isinstance(place, MemoryPlace) or not isinstance(place.memory, Memory):
        raise Problem("an atomic in memory that is not the device's or a group's", expression.at)
    if not isinstance(place.type, ScalarType):
        raise Problem(f"an atomic of type {place.type}", expression.at)
    return place


def _load(walk: Any, expression: Call, used: bool) -> Value:
    return _target(walk, expression).get(walk)


def _store(walk: Any, expression: Call, used: bool) -> Value:
    place = _target(walk, expression)
    place.set(walk, walk.as_type(walk.value(expression.arguments[1]), place.type))
    return NoValue(VOID)


def _combine(kind: str) -> Callable[[Any, Call, bool], Value]:
    def function(walk: Any, expression: Call, used: bool) -> Value:
        place = _target(walk, expression)
        operand = walk.value(expression.arguments[1])
        value = walk.as_type(operand, place.type)
        if kind == "sub":
            value = walk.n.convert(walk.n.unary("-", value), place.type)
        op = "add" if kind == "sub" else kind
        assert isinstance(place.type, ScalarType)
        if op in ("and", "or", "xor") and place.type.kind == "f":
            raise Problem(f"an atomic {op} of floats", expression.at)
        if walk.checked:
            bounds.check(walk, place.memory, place.type, place.index, "writes")
        old = _old(walk, place, value, op) if used else NoValue(VOID)
        walk.log(place.memory, place.memory.held)
        if place.memory.const:
            raise Problem(f"{place.memory.name} cannot be written to", expression.at)
        index = as_index(walk.n, place.index)
        if op == "set":
            _last(walk, place, index, value)
        else:
            walk.traffic.combine(place.memory, place.type, index, value, walk.mask, op)
        return old

    return function


def _last(walk: Any, place: MemoryPlace, index: Scalar, value: Scalar) -> None:
    walk.traffic.write(place.memory, place.type, index, walk.n.array(value), walk.mask)


def _old(walk: Any, place: MemoryPlace, value: Scalar, op: str) -> Scalar:
    """Return the old value that each thread reads: the memory's, combined with the values of the threads before it."""
    n, xp, extents = walk.n, walk.space.xp, walk.axes.extents
    kind = place.type
    assert isinstance(kind, ScalarType)
    before = walk.traffic.read(place.memory, kind, as_index(n, place.index))
    neutral_value = kind.dtype.type(neutral(kind, "sum" if op in ("add", "set") else op))
    array = walk.space.broadcast(walk.space.asarray(n.array(value)), extents)
    mask = walk.space.asarray(n.array(walk.mask))
    active = walk.space.broadcast(mask, extents).reshape(-1)
    flat = xp.where(active, array.reshape(-1), neutral_value)
    index = _flat_index(walk, place)
    base = walk.space.broadcast(walk.space.asarray(before), extents).reshape(-1)
    if index is None:
        order = None
        new = xp.arange(flat.shape[0]) == 0
    else:
        order = xp.argsort(index, stable=True)
        ordered = index[order]
        new = xp.concatenate([xp.ones(1, bool), ordered[1:] != ordered[:-1]])
        flat, active, base = flat[order], active[order], base[order]
    old = _exclusive(xp, flat, new, active, base, op)
    if order is not None:
        old = old[xp.argsort(order)]
    return n.make(kind, old.reshape(extents).astype(kind.dtype))


def _flat_index(walk: Any, place: MemoryPlace) -> Any:
    """Return the index of each thread in flat memory, or None if all threads have the same index."""
    _xp, extents = walk.space.xp, walk.axes.extents
    _, index = walk.traffic.flat(place.memory.data, as_index(walk.n, place.index), place.memory.batch)
    index = walk.space.asarray(index)
    if index.size == 1:
        return None
    return walk.space.broadcast(index, extents).reshape(-1)


def _exclusive(xp: Any, flat: Any, new: Any, active: Any, base: Any, op: str) -> Any:
    """Return, for each thread, the combined values of the threads before it that have the same index. The scan doubles
    its reach in each round."""
    join = {
        "add": lambda a, b: a + b, "min": xp.fmin, "max": xp.fmax, "and": lambda a, b: a & b,
        "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    }  # fmt: skip
    count = flat.shape[0]
    if op == "set":  # each thread reads the value of the last active thread before it
        place = xp.where(active, xp.arange(count), -1)
        start = xp.where(new, xp.arange(count), 0)
        start = _running(xp, start, xp.maximum)
        shifted = xp.concatenate([xp.full(1, -1, place.dtype), _running(xp, place, xp.maximum)[:-1]])
        return xp.where(shifted >= start, flat[xp.maximum(shifted, 0)], base)
    total = xp.concatenate([flat[:1], flat[:-1]])
    total = xp.where(new, base, total)
    flags = new
    step = 1
    while step < count:
        earlier = xp.concatenate([total[:step], total[:-step]])
        starts = xp.concatenate([xp.ones(step, bool), flags[:-step]])
        total = xp.where(flags, total, join[op](earlier, total))
        flags = flags | starts
        step *= 2
    return total


def _running(xp: Any, a: Any, join: Any) -> Any:
    step = 1
    while step < a.shape[0]:
        a = xp.concatenate([a[:step], join(a[step:], a[:-step])])
        step *= 2
    return a


for _kind, _names in {
    "add": "fetch_add Add", "sub": "fetch_sub Sub", "min": "fetch_min Min", "max": "fetch_max Max",
    "and": "fetch_and And",
    "or": "fetch_or Or", "xor": "fetch_xor Xor", "set": "exchange Exch",
}.items():  # fmt: skip
    _metal, _cuda = _names.split()
    ATOMICS[f"atomic_{_metal}_explicit"] = ATOMICS[f"atomic_{_metal}"] = ATOMICS[f"atomic{_cuda}"] = _combine(_kind)
ATOMICS["atomic_load_explicit"] = ATOMICS["atomic_load"] = _load
ATOMICS["atomic_store_explicit"] = ATOMICS["atomic_store"] = _store
