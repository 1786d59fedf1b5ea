"""Rules of the ops that arrange elements: broadcasting, flips, shifts, strided views. In NumPy, most return views."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD, RESIDUALS, Residuals

from ..batching import aligned, inner, later, rank, reshaped
from ..define import TABLE
from ..indexing.rows import accumulate, wide
from .linear import linear, register_linear
from .spread import spread

__all__: list[str] = []


@HOST.of(TABLE["broadcast_to"])
def _broadcast_to(out: Aval, params: tuple, x: Any) -> Any:
    return spread(x, out.shape)


register_linear(TABLE["broadcast_to"])


@PULLBACK.of(TABLE["broadcast_to"])
def _broadcast_to_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (g if g.shape == x.shape else wide(g),)


@BATCH.of(TABLE["broadcast_to"])
def _broadcast_to_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (shape,) = params
    return apply(op, aligned(inputs, batched, len(shape)), ((size, *shape),))


@HOST.of(TABLE["broadcast_arrays"])
def _broadcast_arrays(out: tuple[Aval, ...], params: tuple, *xs: Any) -> tuple[Any, ...]:
    return tuple([spread(x, a.shape) for x, a in zip(xs, out, strict=True)])


register_linear(TABLE["broadcast_arrays"])


@PULLBACK.of(TABLE["broadcast_arrays"])
def _broadcast_arrays_back(g: tuple, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    return tuple([None if one is None else wide(one) for one in g])


@BATCH.of(TABLE["broadcast_arrays"])
def _broadcast_arrays_batched(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    return apply(op, aligned(inputs, batched, rank(inputs, batched)), params)


@HOST.of(TABLE["flip"])
def _flip(out: Any, params: tuple, x: Any) -> np.ndarray:
    (axes,) = params
    if axes is None:
        return x[(_BACKWARDS,) * x.ndim + (...,)]
    index = [_ALL] * x.ndim
    for axis in axes:
        index[axis] = _BACKWARDS
    return x[(*index, ...)]


_ALL = slice(None)
_BACKWARDS = slice(None, None, -1)


register_linear(TABLE["flip"])


@PULLBACK.of(TABLE["flip"])
def _flip_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (_flip(None, params, g),)


@BATCH.of(TABLE["flip"])
def _flip_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (axes,) = params
    axes = range(inputs[0].aval.ndim - 1) if axes is None else axes
    return apply(op, inputs, (tuple(map(later, axes)),))


@HOST.of(TABLE["roll"])
def _roll(out: Any, params: tuple, x: Any, *shifts: Any) -> np.ndarray:
    (axes,) = params
    if axes is None:
        return _rolled(x.reshape(-1), shifts[0], 0).reshape(out.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(x, shift, axis)
    return x


def _rolled(x: Any, shift: Any, axis: int) -> np.ndarray:
    size = x.shape[axis]
    cut = -int(shift) % size if size else 0
    if not cut:
        return x
    before = (_ALL,) * (axis % x.ndim)
    return np.concatenate((x[(*before, slice(cut, None))], x[(*before, slice(cut))]), axis)


PUSHFORWARD[TABLE["roll"]] = linear(TABLE["roll"], 1)
RESIDUALS[TABLE["roll"]] = Residuals(slice(1, None), False)


@PULLBACK.of(TABLE["roll"])
def _roll_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *shifts: Any) -> tuple:
    back = [-int(shift) for shift in shifts]
    return (_roll(y, params, g, *back), *[None] * len(shifts))


@BATCH.of(TABLE["roll"])
def _roll_batched(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    (axes,) = params
    x, *shifts = inputs
    if any(batched[1:]):
        return None
    if axes is None:
        flat = apply(op, (reshaped(x, size, inner(x).size), *shifts), ((1,),))
        return reshaped(flat, *x.aval.shape)
    return apply(op, inputs, (tuple(map(later, axes)),))


@HOST.of(TABLE["as_strided"])
def _as_strided(out: Any, params: tuple, x: Any) -> np.ndarray:
    shape, strides, offset = params
    if 0 in shape:
        return np.empty(shape, x.dtype)
    x = np.ascontiguousarray(x)
    size = x.itemsize
    return np.ndarray(shape, x.dtype, x, offset * size, [s * size for s in strides])  # type: ignore[arg-type]


register_linear(TABLE["as_strided"])


@PULLBACK.of(TABLE["as_strided"])
def _as_strided_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (accumulate(x.shape, _as_strided(None, params, np.arange(x.size)), g),)


@BATCH.of(TABLE["as_strided"])
def _as_strided_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape, strides, offset = params
    return apply(op, inputs, ((size, *shape), (inner(inputs[0]).size, *strides), offset))
