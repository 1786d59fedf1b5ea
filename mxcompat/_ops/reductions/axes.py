"""Axes in the rules of reductions: kept, moved to the end, or shifted by the batch axis."""

from __future__ import annotations

import math
from typing import Any

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op

from ..batching import reshaped
from .reduce import size_of

__all__ = ["along_axis", "as_rows", "axes_kept", "over_axes"]


def axes_kept(g: Any, params: tuple, x: Any) -> Any:
    """Return an array that has the shape of the result, reshaped to keep the reduced axes of `x`."""
    axes, keepdims = params[:2]
    if keepdims or len(axes) == x.ndim:
        return g
    return g.reshape(tuple([1 if k in axes else n for k, n in enumerate(x.shape)]))


def as_rows(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the elements along the axes as rows, after the other axes of the array."""
    kept = [k for k in range(x.ndim) if k not in axes]
    return x.transpose(*kept, *axes).reshape(*[x.shape[k] for k in kept], size_of(x, axes))


def over_axes(op: Op, params: tuple, inputs: tuple, batched: Any, size: int) -> Node:
    """Batch an op whose first param is the axes."""
    return apply(op, inputs, (tuple([k + 1 for k in params[0]]), *params[1:]))


def along_axis(place: int, keepdims: bool = False) -> Any:
    """Return the batching rule of an op. Its params have the axis (or None) at index `place`, and keepdims after it if
    `keepdims` is set."""

    def rule(op: Op, params: tuple, inputs: tuple, batched: Any, size: int) -> Node:
        (x,) = inputs
        axis = params[place]
        if axis is not None:
            return apply(op, inputs, (*params[:place], axis + 1, *params[place + 1 :]))
        rows = reshaped(x, size, math.prod(x.aval.shape[1:]))
        out = apply(op, (rows,), (*params[:place], 1, *params[place + 1 :]))
        return reshaped(out, size, *(1,) * (x.aval.ndim - 1)) if keepdims and params[-1] else out

    return rule
