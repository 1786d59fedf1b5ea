"""Rules of `max`, `min`, `argmax` and `argmin`. Half precision is compared in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._graph.run.short_rows import reduced

from ..define import TABLE
from .axes import along_axis, axes_kept, over_axes
from .blocks import places_in_blocks, widened
from .precision import in_float32, is_half

__all__: list[str] = []

_UINT32 = np.dtype(np.uint32)


def _extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axes, keepdims = params
        if x.size == out.size:
            return x.reshape(out.shape)
        if is_half(out):
            return in_float32(ufunc, out, x, axes).astype(out.dtype._numpy)
        result = reduced(ufunc, x, axes, keepdims)
        if out.dtype._kind == "c":
            return np.where(result == result, result, np.complex64(np.nan))
        return result

    return rule


def _extreme_derivatives(name: str) -> None:
    op = TABLE[name]

    def pullback(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
        if not params[0]:
            return (g,)
        y, g = axes_kept(y, params, x), axes_kept(widened(g), params, x)
        equal = x == y
        return (equal * (g / _count_equal(equal, params, g.dtype)),)

    def pushforward(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
        return _at_first(widened(tangents[0]), x, params, np.argmax if name == "max" else np.argmin)

    PULLBACK[op] = pullback
    PUSHFORWARD[op] = pushforward


def _at_first(t: Any, x: Any, params: tuple, search: Callable[..., Any]) -> Any:
    """Return the tangent of the first extreme element, in the order of the axes. In reverse mode, equal elements share
    the cotangent instead."""
    axes, keepdims = params
    kept = [k for k in range(x.ndim) if k not in axes]
    order = [*kept, *axes]
    sizes = tuple([x.shape[k] for k in kept])
    rows = x.transpose(order).reshape(*sizes, -1)
    place = search(rows, axis=-1)[..., None]
    tangent = np.take_along_axis(t.transpose(order).reshape(rows.shape), place, -1)[..., 0]
    return tangent.reshape([1 if k in axes else n for k, n in enumerate(x.shape)]) if keepdims else tangent


def _count_equal(equal: Any, params: tuple, dtype: Any) -> Any:
    """Return the number of elements that equal the extreme and share its gradient; 0 if it is NaN."""
    return np.add.reduce(equal, params[0], dtype, None, True)


HOST[TABLE["max"]] = _extreme(np.maximum)
_extreme_derivatives("max")
BATCH[TABLE["max"]] = over_axes

HOST[TABLE["min"]] = _extreme(np.minimum)
_extreme_derivatives("min")
BATCH[TABLE["min"]] = over_axes


def _place(name: str) -> Callable[..., Any]:
    """Return the host rule of `argmax` or `argmin`."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axis, keepdims = params
        if axis is None:
            x, axis = x.reshape(-1), 0
        search = getattr(widened(x), name) if x.size < policy.HUGE_ELEMENTS else partial(places_in_blocks, name, x)
        places = search(axis).astype(_UINT32)
        return places.reshape(out.shape) if keepdims else places

    return rule


HOST[TABLE["argmax"]] = _place("argmax")
HOST[TABLE["argmin"]] = _place("argmin")
BATCH[TABLE["argmax"]] = along_axis(0, keepdims=True)
BATCH[TABLE["argmin"]] = along_axis(0, keepdims=True)
