"""Rules of pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK

from ..batching import reshaped
from ..define import TABLE
from ..indexing.rows import update_rows, wide
from ..indexing.scatter import FILL, SLICE_UPDATE
from .linear import register_linear
from .pad import widths_by_axis

__all__: list[str] = []


@HOST.of(TABLE["pad"])
def _pad(out: Aval, params: tuple, x: Any, value: Any = None) -> np.ndarray:
    widths, mode = params
    if mode != "constant" and x.size:
        return np.pad(x, widths_by_axis(widths, x.ndim), mode) if x.ndim else x
    if value is None:
        result = np.zeros(out.shape, x.dtype)
    else:
        result = np.empty(out.shape, x.dtype)
        result[...] = converted_on_host(value.reshape(-1)[:1], out.dtype)
    result[_margin_slices(params, x.shape)] = x
    return result


def _margin_slices(params: tuple, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the slices of a padded result that hold the array, which has this shape."""
    margins = widths_by_axis(params[0], len(shape))
    return tuple([slice(low, low + n) for n, (low, _) in zip(shape, margins, strict=True)])


register_linear(TABLE["pad"])


@PULLBACK.of(TABLE["pad"])
def _pad_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, value: Any = None) -> tuple:
    if params[1] != "constant" and x.size:
        return (_folded(g, params, x.shape),)
    inside = _margin_slices(params, x.shape)
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


@BATCH.of(TABLE["pad"])
def _pad_batched(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
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
