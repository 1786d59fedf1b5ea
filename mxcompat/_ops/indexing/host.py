"""Rules that read and write by index with NumPy, on the host.

A write copies the array first, unless the buffer belongs to this write alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, OVERWRITE, Rule

from ..define import broadcast
from ..movement.host import spread
from .at import ArrayAt as _  # noqa: F401  # for the records of its module, in TABLE
from .gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from .places import Places, positions, raw, window
from .plan import Plan
from .put import DYNAMIC_UPDATE, MASKED_SCATTER, SCATTER_AXIS, update_shape
from .scatter import FILL, SCATTER, SLICE_UPDATE, block_shape, fit, stripped

__all__ = [
    "block_starts", "combined", "masked_rows", "picked_along", "slice_index", "value_along", "value_shapes",
    "write_index",
]  # fmt: skip

_ALL = slice(None)


def slice_index(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the NumPy index for a plan without index arrays."""
    rest = iter(inputs)
    index: list[Any] = []
    for entry in plan:
        if entry == ":":
            index.append(_ALL)
        elif entry == "i":
            index.append(int(next(rest)))
        elif entry == "+":
            index.append(None)
        else:
            index.append(window(entry, rest))
    return (*index, ...)


@HOST.of(SLICE)
def _slice(out: Aval, params: tuple, x: Any, *inputs: Any) -> np.ndarray:
    (plan,) = params
    if plan == ("i",):
        return x[int(inputs[0]), ...]
    if plan and plan[0] == "*":
        x, plan = x.reshape(-1), plan[1:]
    return x[slice_index(plan, inputs)]


@HOST.of(GATHER)
def _gather(out: Aval, params: tuple, x: Any, *inputs: Any) -> Any:
    (plan,) = params
    if plan[0] == "*":
        x, plan = x.reshape(-1), plan[1:]
    if not out.size:
        return np.empty(out.shape, x.dtype)
    if plan[-1] == "a" and plan.count(":") == len(plan) - 1 and x.flags.c_contiguous:
        try:
            return x.take(raw(inputs[0]), len(plan) - 1)
        except IndexError:
            pass
    places = Places(x.shape, plan, inputs, "gather")
    x = x[places.basic]
    return places.read(x) if places.gathered else x.reshape(out.shape)


def picked_along(shape: tuple[int, ...], index: Any, axis: int) -> tuple[Any, ...]:
    """Return the index that selects elements along one axis of an array with this shape and broadcasts along the
    others."""
    ndim = len(shape)
    return tuple(
        [
            index if k == axis else 0 if n == 1 else np.arange(n).reshape(-1, *[1] * (ndim - 1 - k))
            for k, n in enumerate(shape)
        ]
    )


@HOST.of(GATHER_AXIS)
def _gather_axis(out: Aval, params: tuple, x: Any, indices: Any) -> Any:
    (axis,) = params
    if axis is None:
        x, axis = x.reshape(-1), 0
    if not out.size:
        return np.empty(out.shape, x.dtype)
    axis %= x.ndim
    try:
        return x[picked_along(x.shape, raw(indices), axis)]
    except IndexError:
        n = x.shape[axis]
        return x[picked_along(x.shape, positions(indices, n).clip(0, n - 1), axis)]


def block_starts(starts: Any, axes: Sequence[int], shape: tuple[int, ...], size: Sequence[int]) -> tuple[slice, ...]:
    """Return the index of a block whose starts are in an array. A start is moved if the block would not fit."""
    index = [slice(0, s) for s in size]
    for start, axis in zip(starts.reshape(-1), axes, strict=True):
        n, s = shape[axis], size[axis]
        low = min(max(int(positions(start, n)), 0), n - s)
        index[axis] = slice(low, low + s)
    return tuple(index)


@HOST.of(DYNAMIC_SLICE)
def _dynamic_slice(out: Aval, params: tuple, x: Any, starts: Any) -> Any:
    axes, size = params
    return x[block_starts(starts, axes, x.shape, size)] if x.ndim else x


@lru_cache(4096)
def value_shapes(
    value: tuple[int, ...], shape: tuple[int, ...], plan: Plan, inputs: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the two shapes that `fit` gives, and the shape of the block that slices and single positions cover."""
    reshaped, target = fit(value, shape, plan, [*inputs])
    return reshaped, target, block_shape(shape, plan)


def combined(mode: str, old: Any, new: Any) -> Any:
    """Return the old elements combined with the new values that update them."""
    if mode == "add":
        return np.logical_or(old, new) if old.dtype == bool else old + new
    if mode == "multiply":
        return np.logical_and(old, new) if old.dtype == bool else old * new
    return np.maximum(old, new) if mode == "maximum" else np.minimum(old, new)


def write_index(plan: Plan, inputs: Sequence[Any], ndim: int) -> tuple[slice, ...]:
    """Return the index of the block that a plan without index arrays covers, with an axis of size 1 for each int."""
    rest = iter(inputs)
    index = []
    for entry in plan:
        if entry == ":":
            index.append(_ALL)
        elif entry == "i":
            start = int(next(rest))
            index.append(slice(start, start + 1))
        elif entry != "+":
            index.append(window(entry, rest))
    return (*index, *[_ALL] * (ndim - len(index)))


def _writes(op: Op) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the host rule of `op`, both in place and out of place.

    The function overwrites its first input. The rule that may not overwrite passes it a copy.
    """

    def register(rule: Rule) -> Rule:
        OVERWRITE[op] = lambda out, params, place, *inputs: rule(out, params, *inputs)
        HOST[op] = lambda out, params, x, *inputs: rule(out, params, np.array(x, order="C"), *inputs)
        return rule

    return register


@_writes(SLICE_UPDATE)
def _slice_update(out: Aval, params: tuple, x: Any, value: Any, *inputs: Any) -> np.ndarray:
    plan, mode = params
    if value.ndim:
        value = value.reshape(value_shapes(value.shape, x.shape, plan, ())[0])
    value = converted_on_host(value, out.dtype)
    index = write_index(plan, inputs, x.ndim)
    x[index] = value if mode == "set" else combined(mode, x[index], value)
    return x


@_writes(SCATTER)
def _scatter(out: Aval, params: tuple, x: Any, value: Any, *inputs: Any) -> Any:
    plan, mode = params
    shape, target, block_shape = value_shapes(value.shape, x.shape, plan, tuple([i.shape for i in inputs]))
    if 0 in target or 0 in x.shape:
        return x
    value = converted_on_host(value, out.dtype).reshape(shape)
    places = Places(x.shape, plan, inputs, "scatter")
    if not (places.gathered or places.inside):
        return x
    block = x[places.basic]
    if places.gathered:
        places.update(mode, block, value)
        return x
    value = spread(value, target).reshape(block_shape)
    x[places.basic] = value if mode == "set" else combined(mode, block, value)
    return x


@HOST.of(FILL)
def _fill(out: Aval, params: tuple, value: Any) -> Any:
    value = converted_on_host(value, out.dtype)
    return spread(value.reshape(stripped(value.shape)), out.shape)


@_writes(MASKED_SCATTER)
def _masked_scatter(out: Aval, params: tuple, x: Any, value: Any, mask: Any) -> Any:
    if not x.size or not value.size:
        return x
    value = converted_on_host(value, out.dtype)
    if value.ndim > x.ndim - mask.ndim:
        value = value[masked_rows(mask, len(value))]
    x[mask] = value
    return x


def masked_rows(mask: Any, rows: int) -> Any:
    """Return the index of the rows of a value that go to the places where a mask is true."""
    count = int(np.count_nonzero(mask))
    return slice(count) if count <= rows else np.minimum(np.arange(count), rows - 1)


def value_along(value: tuple[int, ...], shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the shape that a value broadcasts to before it is put along an axis of an array with this shape."""
    both = broadcast(indices, value)[-len(shape) :]
    return tuple([both[k] if k == axis else n for k, n in enumerate(shape)])


@_writes(SCATTER_AXIS)
def _scatter_axis(out: Aval, params: tuple, x: Any, values: Any, indices: Any) -> Any:
    (axis,) = params
    shape = (x.size,) if axis is None else x.shape
    axis = 0 if axis is None else axis % len(shape)
    target = value_along(values.shape, shape, indices.shape, axis)
    if not x.size or not values.size:
        return x
    result = x.reshape(shape)
    values = np.broadcast_to(converted_on_host(values, out.dtype).reshape(values.shape[-len(shape) :]), target)
    # the indices must be contiguous: then the last of duplicates wins
    index = np.ascontiguousarray(np.broadcast_to(raw(indices), target), np.intp)
    try:
        result[picked_along(shape, index, axis)] = values
    except IndexError:
        places = np.broadcast_to(positions(indices, shape[axis]), target)
        kept = np.nonzero((places >= 0) & (places < shape[axis]))
        result[(*kept[:axis], places[kept], *kept[axis + 1 :])] = values[kept]
    return x


@_writes(DYNAMIC_UPDATE)
def _dynamic_update(out: Aval, params: tuple, x: Any, update: Any, starts: Any) -> Any:
    update = converted_on_host(update, out.dtype)
    if not x.ndim:
        return update.reshape(())
    (axes,) = params
    size = update_shape(x.shape, update.shape, [axis % x.ndim for axis in axes])
    x[block_starts(starts, axes, x.shape, size)] = update
    return x
