"""Rules of writes at a mask, along an axis, and of a block at a position."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.errors import no_derivative
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, INDEX_ERROR, PULLBACK, PUSHFORWARD

from ..batching import reshaped, swapped_in
from ..define import TABLE, broadcast
from ..movement.linear import linear
from ..movement.spread import unspread
from .batch_axis import lined_up, own_shape, permuted, whole
from .in_place import writes
from .places import block_starts, picked_along, positions, raw
from .put import DYNAMIC_UPDATE, MASKED_SCATTER, SCATTER_AXIS, update_shape
from .rows import wide

__all__: list[str] = []


def masked_rows(mask: Any, rows: int) -> Any:
    """Return the index of the rows of a value that go to the places where a mask is true."""
    count = int(np.count_nonzero(mask))
    return slice(count) if count <= rows else np.minimum(np.arange(count), rows - 1)


@writes(MASKED_SCATTER)
def _masked_scatter(out: Aval, params: tuple, x: Any, value: Any, mask: Any) -> Any:
    if not x.size or not value.size:
        return x
    value = converted_on_host(value, out.dtype)
    if value.ndim > x.ndim - mask.ndim:
        value = value[masked_rows(mask, len(value))]
    x[mask] = value
    return x


@PULLBACK.of(MASKED_SCATTER)
def _pull_masked_scatter(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any, mask: Any) -> tuple:
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


def _last(x: Node) -> Node:
    """Return a batched node with the batch axis moved to the end."""
    return permuted(x, [*range(1, x.aval.ndim), 0])


@BATCH.of(MASKED_SCATTER)
def _batch_masked_scatter(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, value, mask = inputs
    if batched[2]:
        return None
    x = _last(whole(x, batched[0], size))
    value = _last(value) if batched[1] else reshaped(value, *value.aval.shape, 1)
    return swapped_in(apply(op, (x, value, mask)), x.aval.ndim - 1)


@INDEX_ERROR.of(MASKED_SCATTER)
def _mask_error(transform: str, *_: Any) -> Exception:
    """Return the error for the mask: MLX refuses JVP and VJP, with another text for the JVP."""
    if transform == "JVP":
        return ValueError("[masked_scatter] invalid arg index in JVP")
    return ValueError(no_derivative("masked_scatter", "mask", transform))


def value_along(value: tuple[int, ...], shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the shape that a value broadcasts to before it is put along an axis of an array with this shape."""
    both = broadcast(indices, value)[-len(shape) :]
    return tuple([both[k] if k == axis else n for k, n in enumerate(shape)])


@writes(SCATTER_AXIS)
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


@PULLBACK.of(SCATTER_AXIS)
def _pull_scatter_axis(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, values: Any, indices: Any) -> tuple:
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


@BATCH.of(SCATTER_AXIS)
def _batch_scatter_axis(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    (axis,) = params
    x, values, indices = inputs
    x = whole(x, batched[0], size)
    shape = x.aval.shape
    if axis is None:
        x, axis = reshaped(x, size, x.aval.size // size), 0
    ndim = x.aval.ndim - 1
    values = lined_up(values, batched[1], own_shape(values, batched[1])[-ndim:], ndim, size)
    indices = reshaped(indices, size if batched[2] else 1, *own_shape(indices, batched[2]))
    return reshaped(apply(op, (x, values, indices), (axis % ndim + 1,)), *shape)


@writes(DYNAMIC_UPDATE)
def _dynamic_update(out: Aval, params: tuple, x: Any, update: Any, starts: Any) -> Any:
    update = converted_on_host(update, out.dtype)
    if not x.ndim:
        return update.reshape(())
    (axes,) = params
    size = update_shape(x.shape, update.shape, [axis % x.ndim for axis in axes])
    x[block_starts(starts, axes, x.shape, size)] = update
    return x


@PULLBACK.of(DYNAMIC_UPDATE)
def _pull_dynamic_update(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, update: Any, starts: Any) -> tuple:
    if not x.ndim:
        return None, g, None
    (axes,) = params
    size = update_shape(x.shape, update.shape, [axis % x.ndim for axis in axes])
    index = block_starts(starts, axes, x.shape, size)
    gx = np.array(g)
    gx[index] = 0
    return gx, g[index], None


for _op in (MASKED_SCATTER, SCATTER_AXIS, DYNAMIC_UPDATE):
    PUSHFORWARD[_op] = linear(_op, 2)


@BATCH.of(DYNAMIC_UPDATE)
def _batch_dynamic_update(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, update, starts = inputs
    if batched[2]:
        return None
    source, shape = own_shape(x, batched[0]), own_shape(update, batched[1])
    axes = [axis % len(source) for axis in params[0]]
    update = lined_up(update, batched[1], shape, len(source), size)
    update = apply(TABLE["broadcast_to"], (update,), ((size, *update_shape(source, shape, axes)),))
    return apply(op, (whole(x, batched[0], size), update, starts), (tuple([axis + 1 for axis in axes]),))


@INDEX_ERROR.of(DYNAMIC_UPDATE)
def _dynamic_update_error(transform: str, *_: Any) -> Exception:
    return ValueError(f"[DynamicSliceUpdate::{transform.lower()}] Not supported for start indices")
