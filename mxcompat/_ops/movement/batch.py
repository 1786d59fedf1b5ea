"""Batching rules of the ops that move data. Axes in their params shift by one, past the batch axis."""

from __future__ import annotations

from typing import Any

from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, apply, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, all_batched, rank
from ..define import TABLE
from ..indexing.scatter import FILL, SLICE_UPDATE
from . import diagonals, transposition  # noqa: F401  # for their records, in TABLE
from .joining import tiled_shapes
from .pad import widths_by_axis

__all__ = ["reshaped", "swapped_in"]


def _later(axis: int) -> int:
    """Return an axis shifted past the new first axis."""
    return axis if axis < 0 else axis + 1


def reshaped(x: Node, *shape: int) -> Node:
    """Return a node reshaped to another shape."""
    return x if x.aval.shape == shape else apply(TABLE["reshape"], (x,), (shape,))


def swapped_in(x: Node, source: int) -> Node:
    """Return a node with an axis moved to the front."""
    order = (source, *[k for k in range(x.aval.ndim) if k != source])
    return apply(TABLE["transpose"], (x,), (order,)) if source else x


def _inner(x: Node) -> Any:
    """Return the aval of a batched node without the batch axis."""
    return aval(x.aval.shape[1:], x.aval.dtype)


@BATCH.of(*[TABLE[name] for name in ("reshape", "flatten", "unflatten", "squeeze", "expand_dims", "atleast")])
def _reshape(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape = op.infer((params, _inner(inputs[0]))).shape
    return apply(TABLE["reshape"], inputs, ((size, *shape),))


@BATCH.of(TABLE["broadcast_to"])
def _broadcast_to(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (shape,) = params
    return apply(op, aligned(inputs, batched, len(shape)), ((size, *shape),))


@BATCH.of(TABLE["broadcast_arrays"])
def _broadcast_arrays(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    return apply(op, aligned(inputs, batched, rank(inputs, batched)), params)


@BATCH.of(TABLE["transpose"])
def _transpose(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (axes,) = params
    ndim = inputs[0].aval.ndim - 1
    axes = range(ndim)[::-1] if axes is None else axes
    return apply(op, inputs, ((0, *[axis % ndim + 1 for axis in axes]),))


@BATCH.of(TABLE["flip"])
def _flip(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (axes,) = params
    axes = range(inputs[0].aval.ndim - 1) if axes is None else axes
    return apply(op, inputs, (tuple(map(_later, axes)),))


@BATCH.of(TABLE["roll"])
def _roll(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    (axes,) = params
    x, *shifts = inputs
    if any(batched[1:]):
        return None
    if axes is None:
        flat = apply(op, (reshaped(x, size, _inner(x).size), *shifts), ((1,),))
        return reshaped(flat, *x.aval.shape)
    return apply(op, inputs, (tuple(map(_later, axes)),))


@BATCH.of(TABLE["as_strided"])
def _as_strided(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape, strides, offset = params
    return apply(op, inputs, ((size, *shape), (_inner(inputs[0]).size, *strides), offset))


@BATCH.of(TABLE["concatenate"], TABLE["stack"])
def _join(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    return apply(op, all_batched(inputs, batched, size), (_later(*params),))


@BATCH.of(TABLE["split"])
def _split(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    sections, axis = params
    return apply(op, inputs, (sections, _later(axis)))


@BATCH.of(TABLE["unstack"])
def _unstack(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    return apply(op, inputs, (_later(*params),))


@BATCH.of(TABLE["repeat"])
def _repeat(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    repeats, axis = params
    if axis is None:
        return apply(op, (reshaped(inputs[0], size, _inner(inputs[0]).size),), (repeats, 1))
    return apply(op, inputs, (repeats, _later(axis)))


@BATCH.of(TABLE["tile"])
def _tile(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape, counts = tiled_shapes(inputs[0].aval.shape[1:], *params)
    return apply(op, (reshaped(inputs[0], size, *shape),), ((1, *counts),))


@BATCH.of(TABLE["pad"])
def _pad(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    widths, mode = params
    x, *value = inputs
    shape = x.aval.shape[1:] if batched[0] else x.aval.shape
    margins = widths_by_axis(widths, len(shape))
    wider = ((0, 0), *margins)
    if not any(batched[1:]):
        return apply(op, inputs, (wider, mode))
    if value[0].aval.ndim > 1:
        return None
    dtype = x.aval.dtype
    shape_out = tuple([low + n + high for n, (low, high) in zip(shape, margins, strict=True)])
    filled = apply(FILL, (reshaped(value[0], size, *[1] * len(shape)),), ((size, *shape_out), dtype))
    plan = (":", *[(n, 1, low) for n, (low, _) in zip(shape, margins, strict=True)])
    return apply(SLICE_UPDATE, (filled, x), (plan, "set"))


@BATCH.of(TABLE["diagonal"], TABLE["trace"])
def _diagonal(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    offset, axis1, axis2 = params
    return apply(op, inputs, (offset, _later(axis1), _later(axis2)))


@BATCH.of(TABLE["diag"])
def _diag(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (k,) = params
    (n, _) = op.infer((params, _inner(inputs[0]))).shape
    zero = scalar(0, aval((), inputs[0].aval.dtype))
    columns = apply(TABLE["pad"], (inputs[0], zero), (((0, 0), (max(0, k), max(0, -k))), "constant"))
    full = apply(TABLE["broadcast_to"], (reshaped(columns, size, 1, n),), ((size, n, n),))
    lower = apply(TABLE["triangle"], (full,), (k, False))
    return apply(TABLE["triangle"], (lower,), (k, True))


@BATCH.of(TABLE["triangle"])
def _triangle(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    return apply(op, inputs, params)
