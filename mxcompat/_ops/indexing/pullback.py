"""Derivatives of reads and writes by index, on the host.

An element that is read several times gets the sum of the cotangents. An element that is overwritten gets none. If "set"
writes duplicates, each gets the cotangent of its place. For a maximum or minimum, every value that equals the result
gets it. These are MLX's gradients, see `scatter.scatter`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD, READS_NOTHING, RESIDUALS, Residuals

from ..elementwise.select import select
from ..movement.pullback import linear, unspread
from .gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from .host import (
    block_starts,
    combined,
    masked_rows,
    picked_along,
    slice_index,
    value_along,
    value_shapes,
    write_index,
)  # fmt: skip
from .places import Places, positions
from .put import DYNAMIC_UPDATE, MASKED_SCATTER, SCATTER_AXIS, update_shape
from .room import PREFIX
from .rows import accumulate, wide
from .scatter import FILL, SCATTER, SLICE_UPDATE, is_whole

__all__: list[str] = []

for _op in (SLICE, PREFIX, GATHER, GATHER_AXIS, DYNAMIC_SLICE):
    PUSHFORWARD[_op] = linear(_op, 1)
    RESIDUALS[_op] = Residuals(slice(1, None), False)
for _op in (MASKED_SCATTER, SCATTER_AXIS, DYNAMIC_UPDATE):
    PUSHFORWARD[_op] = linear(_op, 2)
PUSHFORWARD[FILL] = linear(FILL)
RESIDUALS[FILL] = READS_NOTHING


def _nothing(count: int) -> tuple[None, ...]:
    """Return the cotangents of indices: None for each."""
    return (None,) * count


@PULLBACK.of(PREFIX)
def _prefix(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple[Any]:
    axis, size = params
    total = np.zeros(x.shape, g.dtype)
    total[(slice(None),) * axis + (slice(size),)] = g
    return (total,)


@PULLBACK.of(SLICE)
def _slice(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *inputs: Any) -> tuple:
    (plan,) = params
    total = np.zeros(x.shape, g.dtype)
    if plan and plan[0] == "*":
        total.reshape(-1)[slice_index(plan[1:], inputs)] = g
    else:
        total[slice_index(plan, inputs)] = g
    return (total, *_nothing(len(inputs)))


@PULLBACK.of(GATHER)
def _gather(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *inputs: Any) -> tuple:
    (plan,) = params
    total = np.zeros(x.shape, g.dtype)
    if y.size:
        flat = total
        if plan[0] == "*":
            flat, plan = total.reshape(-1), plan[1:]
        places = Places(flat.shape, plan, inputs, "gather")
        block = flat[places.basic]
        if places.gathered:
            places.update("add", block, g, clip=True)
        else:
            block[...] = g.reshape(block.shape)
    return (total, *_nothing(len(inputs)))


@PULLBACK.of(GATHER_AXIS)
def _gather_axis(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, indices: Any) -> tuple:
    shape = (x.size,) if params[0] is None else x.shape
    if not y.size:
        return np.zeros(x.shape, g.dtype), None
    axis = 0 if params[0] is None else params[0] % len(shape)
    n = shape[axis]
    index = picked_along(shape, positions(indices, n).clip(0, n - 1), axis)
    places = np.ravel_multi_index(index, shape)
    return accumulate(x.shape, places, g), None


@PULLBACK.of(DYNAMIC_SLICE)
def _dynamic_slice(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, starts: Any) -> tuple:
    axes, size = params
    if not x.ndim:
        return g, None
    total = np.zeros(x.shape, g.dtype)
    total[block_starts(starts, axes, x.shape, size)] = g
    return total, None


@PULLBACK.of(FILL)
def _fill(g: Any, y: Any, params: tuple, needs_grad: tuple, value: Any) -> tuple:
    ndim = min(value.ndim, g.ndim)
    return (unspread(g, value.shape[value.ndim - ndim :]).reshape(value.shape),)


def _cast(value: Any, like: Any) -> Any:
    """Return a value cast as for a write into `like`; half precision becomes float32 for accuracy."""
    if value.dtype.kind == "c" and like.dtype.kind != "c":
        value = value.real
    return wide(value.astype(like.dtype, copy=False))


@PULLBACK.of(SLICE_UPDATE)
def _slice_update(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any, *inputs: Any) -> tuple:
    plan, mode = params
    index = write_index(plan, inputs, x.ndim)
    shape, _, _ = value_shapes(value.shape, x.shape, plan, ())
    here = wide(g[index])
    if mode == "set":
        gx = np.array(g)
        gx[index] = 0
        gv = None
        if needs_grad[1]:
            gv = unspread(here, value_shapes(value.shape, x.shape, plan, ())[0]).reshape(value.shape)
        return (gx, gv, *_nothing(len(inputs)))
    old, new = wide(x[index]), _cast(value, x).reshape(shape)
    dx, dv = _combined_back(mode, here, old, new, last=is_whole(x.shape, plan))
    gx = g
    if needs_grad[0] and mode != "add":
        gx = np.array(g)
        gx[index] = dx
    return (gx, unspread(dv, shape).reshape(value.shape) if needs_grad[1] else None, *_nothing(len(inputs)))


def _combined_back(mode: str, g: Any, old: Any, new: Any, last: bool) -> tuple[Any, Any]:
    """Return the cotangents of the old elements and of the new values that update them."""
    if mode == "set":
        return np.zeros((), g.dtype), g
    if mode == "add":
        return g, g
    if mode == "multiply":
        return g * new, g * old
    result = combined(mode, old, new)
    takes_new = result == new
    takes_old = ~takes_new if last else result == old
    zero = np.zeros((), g.dtype)
    return select(takes_old, g, zero), select(takes_new, g, zero)


@PUSHFORWARD.of(SLICE_UPDATE)
def _slice_update_forward(tangents: Any, y: Any, params: tuple, x: Any, value: Any, *inputs: Any) -> Any:
    plan, mode = params
    if mode in ("set", "add"):
        return linear(SLICE_UPDATE, 2)(tangents, y, params, x, value, *inputs)
    shape, _, _ = value_shapes(value.shape, x.shape, plan, ())
    index = write_index(plan, inputs, x.ndim)
    old, new = wide(x[index]), _cast(value, x).reshape(shape)
    tx, tv = _tangents(tangents, x, value)
    moved = np.array(tx)
    moved[index] = _combined_forward(mode, tx[index], tv.reshape(shape), old, new, is_whole(x.shape, plan))
    return moved


def _tangents(tangents: Any, x: Any, value: Any) -> tuple[Any, Any]:
    """Return the tangents of an array and of a value, in the dtype of the array; zeros for one that is missing."""
    tx, tv = tangents[:2]
    tx = np.zeros(x.shape, wide(x).dtype) if tx is None else wide(tx)
    return tx, np.zeros(value.shape, tx.dtype) if tv is None else _cast(tv, x)


def _combined_forward(mode: str, t_old: Any, t_new: Any, old: Any, new: Any, last: bool) -> Any:
    if mode == "multiply":
        return t_old * new + old * t_new
    result = combined(mode, old, new)
    takes_new = result == new
    takes_old = ~takes_new if last else result == old
    zero = np.zeros((), t_old.dtype)
    return np.where(takes_old, t_old, zero) + np.where(takes_new, t_new, zero)


class _Written:
    """A write at index arrays, as an update of a block.

    Attributes:
        block_shape: the shape of the block.
        value: the value, broadcast. It has the shape of the block if every index array has a single element.
    """

    def __init__(self, params: tuple, x: Any, value: Any, inputs: tuple) -> None:
        plan, self.mode = params
        shapes = tuple([i.shape for i in inputs])
        self.shape, target, self.block_shape = value_shapes(value.shape, x.shape, plan, shapes)
        self.empty = 0 in target or 0 in x.shape
        if self.empty:
            return
        self.places = Places(x.shape, plan, inputs, "scatter")
        self.value = np.broadcast_to(_cast(value, x).reshape(self.shape), target)
        if not self.places.gathered:
            self.value = self.value.reshape(self.block_shape)
        self.target = target
        self.old = wide(x[self.places.basic])

    def factors(self, mode: str) -> tuple[Any, Any]:
        """Return factors for the tangents of the block and of the value.

        After the multiplication, the tangents of values at the same place are summed. This holds for products, maxima
        and minima.
        """
        places, old, value = self.places, self.old, self.value
        if mode == "multiply":
            one = np.ones((), old.dtype)
            scale = np.ones_like(old)
            places.update("multiply", scale, value)
            null = value == 0
            factors = np.where(null, one, value)
            nulls = np.zeros(old.shape, np.int32)
            places.update("add", nulls, null.astype(np.int32))
            product = np.array(old)
            places.update("multiply", product, factors)
            others = places.read(product) / factors
            return scale, np.where(places.read(nulls) == null, others, np.zeros((), old.dtype))
        result = np.array(old)
        places.update(mode, result, value)
        return (result == old), (places.read(result) == value)


def _times(factor: Any, g: Any) -> Any:
    return np.where(factor, g, np.zeros((), g.dtype)) if factor.dtype == bool else factor * g


@PULLBACK.of(SCATTER)
def _scatter(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any, *inputs: Any) -> tuple:
    write = _Written(params, x, value, inputs)
    nothing = _nothing(len(inputs))
    if write.empty or not (write.places.gathered or write.places.inside):
        return (g, None, *nothing)
    mode, places = write.mode, write.places
    gx, gv = np.array(g), None
    block = gx[places.basic]
    here = wide(block)
    if not places.gathered:
        dx, dv = _combined_back(mode, here.copy(), write.old, write.value, last=False)
        block[...] = dx
        gv = dv.reshape(write.target)
    else:
        gv = places.read(here, clip=False)
        if mode == "set":
            places.update("set", block, np.zeros((), g.dtype))
        elif mode != "add":
            f_old, f_new = write.factors(mode)
            block[...] = _times(f_old, here)
            gv = _times(f_new, gv)
    return (gx, unspread(gv, write.shape).reshape(value.shape), *nothing)


@PUSHFORWARD.of(SCATTER)
def _scatter_forward(tangents: Any, y: Any, params: tuple, x: Any, value: Any, *inputs: Any) -> Any:
    if params[1] in ("set", "add"):
        return linear(SCATTER, 2)(tangents, y, params, x, value, *inputs)
    write = _Written(params, x, value, inputs)
    tx, tv = _tangents(tangents, x, value)
    if write.empty or not (write.places.gathered or write.places.inside):
        return tx
    mode, places = write.mode, write.places
    moved = np.array(tx)
    block = moved[places.basic]
    tv = np.broadcast_to(tv.reshape(write.shape), write.target)
    if not places.gathered:
        tv = tv.reshape(write.block_shape)
        block[...] = _combined_forward(mode, block, tv, write.old, write.value, last=False)
    else:
        f_old, f_new = write.factors(mode)
        block[...] = _times(f_old, block)
        places.update("add", block, _times(f_new, tv))
    return moved


@PULLBACK.of(MASKED_SCATTER)
def _masked_scatter(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any, mask: Any) -> tuple:
    if not x.size or not value.size:
        return g, None, None
    gx = np.array(g)
    gx[mask] = 0
    if not needs_grad[1]:
        return gx, None, None
    there = wide(g[mask])
    if value.ndim > x.ndim - mask.ndim:
        rows = masked_rows(mask, len(value))
        total = np.zeros((len(value), *there.shape[1:]), there.dtype)
        if isinstance(rows, slice):
            total[rows] = there
        else:
            total[:] = there[: len(value)]
            total[-1] += there[len(value) :].sum(0)
        return gx, unspread(total, value.shape), None
    return gx, unspread(there, value.shape), None


@PULLBACK.of(SCATTER_AXIS)
def _scatter_axis(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, values: Any, indices: Any) -> tuple:
    (axis,) = params
    shape = (x.size,) if axis is None else x.shape
    axis = 0 if axis is None else axis % len(shape)
    if not x.size or not values.size:
        return g, None, None
    target = value_along(values.shape, shape, indices.shape, axis)
    n = shape[axis]
    places = np.broadcast_to(positions(indices, n), target)
    inside = (places >= 0) & (places < n)
    index = picked_along(shape, places.clip(0, n - 1), axis)
    gx = np.array(g, order="C").reshape(shape)
    there = np.where(inside, gx[index], np.zeros((), g.dtype))
    if inside.all():
        gx[index] = 0
    else:
        kept = np.nonzero(inside)
        gx[(*kept[:axis], places[kept], *kept[axis + 1 :])] = 0
    return gx.reshape(x.shape), unspread(there, values.shape[-len(shape) :]).reshape(values.shape), None


@PULLBACK.of(DYNAMIC_UPDATE)
def _dynamic_update(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, update: Any, starts: Any) -> tuple:
    if not x.ndim:
        return None, g, None
    (axes,) = params
    size = update_shape(x.shape, update.shape, [axis % x.ndim for axis in axes])
    index = block_starts(starts, axes, x.shape, size)
    gx = np.array(g)
    gx[index] = 0
    return gx, g[index], None
