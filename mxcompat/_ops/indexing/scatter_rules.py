"""Rules of writes by index.

An element that is overwritten gets no cotangent. If "set" writes duplicates, each gets the cotangent of its place. For
a maximum or minimum, every value that equals the result gets it. These are MLX's gradients, see `scatter.scatter`. The
batch axis is treated as for reads, see `gather_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.errors import no_derivative
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, INDEX_ERROR, PULLBACK, PUSHFORWARD, READS_NOTHING, RESIDUALS

from ..define import TABLE, broadcast
from ..elementwise.select import select
from ..movement.linear import linear
from ..movement.spread import spread, unspread
from .batch_axis import batched_indices, lined_up, numbered, own_shape, permuted, spot_of, whole
from .in_place import writes
from .places import ALL, Places, window
from .plan import Plan
from .rows import wide
from .scatter import FILL, SCATTER, SLICE_UPDATE, block_shape, fit, is_whole, stripped

__all__: list[str] = []


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
            index.append(ALL)
        elif entry == "i":
            start = int(next(rest))
            index.append(slice(start, start + 1))
        elif entry != "+":
            index.append(window(entry, rest))
    return (*index, *[ALL] * (ndim - len(index)))


@writes(SLICE_UPDATE)
def _slice_update(out: Aval, params: tuple, x: Any, value: Any, *inputs: Any) -> np.ndarray:
    plan, mode = params
    if value.ndim:
        value = value.reshape(value_shapes(value.shape, x.shape, plan, ())[0])
    value = converted_on_host(value, out.dtype)
    index = write_index(plan, inputs, x.ndim)
    x[index] = value if mode == "set" else combined(mode, x[index], value)
    return x


def _cast(value: Any, like: Any) -> Any:
    """Return a value cast as for a write into `like`; half precision becomes float32 for accuracy."""
    if value.dtype.kind == "c" and like.dtype.kind != "c":
        value = value.real
    return wide(value.astype(like.dtype, copy=False))


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


@PULLBACK.of(SLICE_UPDATE)
def _pull_slice_update(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any, *inputs: Any) -> tuple:
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
        return (gx, gv, *[None] * len(inputs))
    old, new = wide(x[index]), _cast(value, x).reshape(shape)
    dx, dv = _combined_back(mode, here, old, new, last=is_whole(x.shape, plan))
    gx = g
    if needs_grad[0] and mode != "add":
        gx = np.array(g)
        gx[index] = dx
    return (gx, unspread(dv, shape).reshape(value.shape) if needs_grad[1] else None, *[None] * len(inputs))


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


@BATCH.of(SLICE_UPDATE)
def _batch_slice_update(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    plan, mode = params
    x, value, *starts = inputs
    if any(batched[2:]):
        return None
    source = own_shape(x, batched[0])
    shape, _, _ = value_shapes(own_shape(value, batched[1]), source, plan, ())
    value = lined_up(value, batched[1], shape, len(source), size)
    block = [(1, 1, None) if e == "i" else e for e in plan if e != "+"]
    return apply(op, (whole(x, batched[0], size), value, *starts), ((":", *block), mode))


@writes(SCATTER)
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
        """Return the factors of the tangents of the block and of the value, for products, maxima and minima.

        The tangent of the result is the sum of the multiplied tangents, over all values at the same place.
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
def _pull_scatter(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any, *inputs: Any) -> tuple:
    write = _Written(params, x, value, inputs)
    nothing = [None] * len(inputs)
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


@BATCH.of(SCATTER)
def _batch_scatter(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    plan, mode = params
    x, value, *given = inputs
    shapes = tuple([own_shape(i, on) for i, on in zip(given, batched[2:], strict=True)])
    shape, target, _ = value_shapes(own_shape(value, batched[1]), own_shape(x, batched[0]), plan, shapes)
    indices = batched_indices(plan, given, batched[2:], size)
    if indices is None:
        return None
    ndim = len(broadcast(*shapes))
    spot, together = spot_of(plan, "")
    value = lined_up(value, batched[1], shape, len(target), size)
    value = apply(TABLE["broadcast_to"], (value,), ((size, *target),))
    axes = [*range(1 + len(target))]
    x = whole(x, batched[0], size)
    if not any(batched[2:]):
        if ndim and not together:
            value = permuted(value, [*axes[1 : 1 + ndim], 0, *axes[1 + ndim :]])
        return apply(op, (x, value, *indices), ((":", *plan), mode))
    spot += 1
    value = permuted(value, [0, *axes[spot : spot + ndim], *axes[1:spot], *axes[spot + ndim :]])
    return apply(op, (x, value, numbered(size, ndim), *indices), (("a", *plan), mode))


@INDEX_ERROR.of(SCATTER)
def _scatter_error(transform: str, *_: Any) -> Exception:
    """Return the error for the indices. MLX has no JVP for any input of a scatter."""
    if transform == "JVP":
        return RuntimeError("[scatter] JVP not yet implemented")
    return ValueError(no_derivative("scatter", "indices", transform))


@HOST.of(FILL)
def _fill(out: Aval, params: tuple, value: Any) -> Any:
    value = converted_on_host(value, out.dtype)
    return spread(value.reshape(stripped(value.shape)), out.shape)


@PULLBACK.of(FILL)
def _pull_fill(g: Any, y: Any, params: tuple, needs_grad: tuple, value: Any) -> tuple:
    ndim = min(value.ndim, g.ndim)
    return (unspread(g, value.shape[value.ndim - ndim :]).reshape(value.shape),)


PUSHFORWARD[FILL] = linear(FILL)
RESIDUALS[FILL] = READS_NOTHING


@BATCH.of(FILL)
def _batch_fill(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape, dtype = params
    value = lined_up(inputs[0], True, stripped(own_shape(inputs[0], True)), len(shape), size)
    return apply(op, (value,), ((size, *shape), dtype))
