"""Derivatives of the ops that only move data.

These ops are linear: they move tangents in the same way as values. A cotangent is moved back, and summed if an element
was moved to several places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD, READS_NOTHING, RESIDUALS, Residuals
from mxcompat._graph.run.values import in_order

from ..define import TABLE
from ..indexing.rows import accumulate, update_rows, wide
from . import host
from .joining import section_bounds, tiled_shapes
from .pad import widths_by_axis

__all__ = ["linear", "unspread"]


def linear(op: Op, count: int | None = None) -> Callable[..., Any]:
    """Return the pushforward of an op that is linear in its first `count` inputs, or in all inputs for None.

    The pushforward applies the op to the tangents.
    """
    rule = HOST[op]

    def push(tangents: Any, y: Any, params: tuple, *inputs: Any) -> Any:
        moved = [np.zeros(x.shape, x.dtype) if t is None else t for t, x in zip(tangents, inputs[:count], strict=False)]
        return rule(_aval(y), params, *moved, *inputs[len(moved) :])

    return push


def _aval(y: Any) -> Aval | tuple[Aval, ...]:
    if isinstance(y, tuple):
        return tuple([_aval(one) for one in y])  # type: ignore[misc]
    return aval(y.shape, from_numpy(y.dtype))  # type: ignore[arg-type]


def unspread(g: Any, shape: tuple[int, ...]) -> Any:
    """Return the cotangent of an array with this shape, from the cotangent of its broadcast result."""
    g = in_order(wide(g))
    if g.ndim > len(shape):
        g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    axes = tuple([k for k, (n, m) in enumerate(zip(g.shape, shape[len(shape) - g.ndim :], strict=True)) if m == 1 != n])
    return (g.sum(axis=axes, keepdims=True) if axes else g).reshape(shape)


for _name in (
    "reshape", "flatten", "unflatten", "squeeze", "expand_dims", "atleast", "broadcast_to", "broadcast_arrays",
    "transpose", "flip", "as_strided", "concatenate", "stack", "split", "unstack", "repeat", "tile", "pad", "diagonal",
    "diag", "trace", "triangle",
):  # fmt: skip
    PUSHFORWARD[TABLE[_name]] = linear(TABLE[_name])
    RESIDUALS[TABLE[_name]] = READS_NOTHING
PUSHFORWARD[TABLE["roll"]] = linear(TABLE["roll"], 1)
RESIDUALS[TABLE["roll"]] = Residuals(slice(1, None), False)


@PULLBACK.of(*[TABLE[name] for name in ("reshape", "flatten", "unflatten", "squeeze", "expand_dims", "atleast")])
def _reshape(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (g.reshape(x.shape),)


@PULLBACK.of(TABLE["broadcast_to"])
def _broadcast_to(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (g if g.shape == x.shape else wide(g),)


@PULLBACK.of(TABLE["broadcast_arrays"])
def _broadcast_arrays(g: tuple, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    return tuple([None if one is None else wide(one) for one in g])


@PULLBACK.of(TABLE["transpose"])
def _transpose(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    (axes,) = params
    if axes is None:
        return (g.transpose(),)
    back = [0] * len(axes)
    for k, axis in enumerate(axes):
        back[axis] = k
    return (g.transpose(back),)


@PULLBACK.of(TABLE["flip"])
def _flip(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (host.flip(None, params, g),)


@PULLBACK.of(TABLE["roll"])
def _roll(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *shifts: Any) -> tuple:
    back = [-int(shift) for shift in shifts]
    return (host.roll(y, params, g, *back), *[None] * len(shifts))


@PULLBACK.of(TABLE["as_strided"])
def _as_strided(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (accumulate(x.shape, host.as_strided(None, params, np.arange(x.size)), g),)


@PULLBACK.of(TABLE["concatenate"])
def _concatenate(g: Any, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    axis = params[0] % g.ndim
    before = (slice(None),) * axis
    cotangents = []
    end = 0
    for x in xs:
        start, end = end, end + x.shape[axis]
        cotangents.append(g[(*before, slice(start, end))])
    return tuple(cotangents)


@PULLBACK.of(TABLE["stack"])
def _stack(g: Any, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    before = (slice(None),) * (params[0] % g.ndim)
    return tuple([g[(*before, k, ...)] for k in range(len(xs))])


@PULLBACK.of(TABLE["split"])
def _split(g: tuple, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    sections, axis = params
    before = (slice(None),) * (axis % x.ndim)
    total = np.zeros(x.shape, x.dtype)
    for one, (low, high) in zip(g, section_bounds(x.shape[axis], sections), strict=True):
        if one is not None:
            total[(*before, slice(low, high))] += one
    return (total,)


@PULLBACK.of(TABLE["unstack"])
def _unstack(g: tuple, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    before = (slice(None),) * (params[0] % x.ndim)
    total = np.zeros(x.shape, x.dtype)
    for k, one in enumerate(g):
        if one is not None:
            total[(*before, k)] = one
    return (total,)


@PULLBACK.of(TABLE["repeat"])
def _repeat(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    repeats, axis = params
    if axis is None:
        return (wide(g).reshape(x.size, repeats).sum(-1).reshape(x.shape),)
    k = axis % x.ndim + 1
    return (wide(g).reshape(*x.shape[:k], repeats, *x.shape[k:]).sum(k),)


@PULLBACK.of(TABLE["tile"])
def _tile(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    shape, counts = tiled_shapes(x.shape, *params)
    pairs = [p for n, r in zip(shape, counts, strict=True) for p in (r, n)]
    return (wide(g).reshape(pairs).sum(tuple(range(0, len(pairs), 2))).reshape(x.shape),)


@PULLBACK.of(TABLE["pad"])
def _pad(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any = None) -> tuple:
    if params[1] != "constant" and x.size:
        return (_folded(g, params, x.shape),)
    inside = host.margin_slices(params, x.shape)
    if value is None:
        return (g[inside],)
    filled = None
    if needs_grad[1]:
        margins = np.array(wide(g))
        margins[inside] = 0
        filled = np.zeros(value.size, margins.dtype)
        filled[0] = margins.sum()
        filled = filled.reshape(value.shape)
    return g[inside], filled


def _folded(g: Any, params: tuple, shape: tuple[int, ...]) -> Any:
    """Return the cotangent of an array from that of its padded result, whose margins repeat elements."""
    g = wide(g)
    for axis, (n, pair) in enumerate(zip(shape, widths_by_axis(params[0], len(shape)), strict=True)):
        if any(pair):
            places = np.pad(np.arange(n), pair, params[1])
            moved = np.moveaxis(g, axis, 0)
            total = np.zeros((n, moved[0].size), g.dtype)
            update_rows("add", total, places, moved.reshape(len(places), -1))
            g = np.moveaxis(total.reshape(n, *moved.shape[1:]), 0, axis)
    return g


def _on_diagonal(g: Any, shape: tuple[int, ...], params: tuple) -> np.ndarray:
    """Return zeros of a shape, with `g` on a diagonal."""
    offset, axis1, axis2 = params
    total = np.zeros(shape, g.dtype)
    planes = np.moveaxis(total, (axis1, axis2), (-2, -1))
    k = np.arange(min(planes.shape[-2] + min(offset, 0), planes.shape[-1] - max(offset, 0)))
    planes[..., k - min(offset, 0), k + max(offset, 0)] = g
    return total


@PULLBACK.of(TABLE["diagonal"])
def _diagonal(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (_on_diagonal(g, x.shape, params),)


@PULLBACK.of(TABLE["trace"])
def _trace(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (_on_diagonal(g[..., None], x.shape, params),)


@PULLBACK.of(TABLE["diag"])
def _diag(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (g.diagonal(*params),)


@PULLBACK.of(TABLE["triangle"])
def _triangle(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (host.triangle(None, params, g),)
