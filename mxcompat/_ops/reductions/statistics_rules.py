"""Rules of the variance, the standard deviation and the median. Half precision is accumulated in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD

from ..define import TABLE
from .axes import as_rows, axes_kept, over_axes
from .blocks import folded_on_host, widened
from .precision import inexact, narrowed, summed
from .reduce import size_of
from .sorting_rules import order_of, ordered

__all__: list[str] = []


@HOST.of(TABLE["var"])
def _var(out: Aval, params: tuple, x: Any) -> Any:
    return narrowed(_variance(out, params, x), out)


def _variance(out: Aval, params: tuple, x: Any) -> Any:
    axes, _, ddof = params
    total = folded_on_host(np.add, _square_of_distance, x, (_mean_along(x, axes),), axes)
    return total.reshape(out.shape) / max(x.size // max(out.size, 1) - ddof, 0)


def _mean_along(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the mean along some axes, which are kept, in float32 at least."""
    total = folded_on_host(np.add, inexact, x, (), axes)
    return total / (x.size // max(total.size, 1))


def _square_of_distance(x: Any, mean: Any) -> Any:
    away = _distances(x, mean)
    return away.real**2 + away.imag**2 if away.dtype.kind == "c" else np.multiply(away, away, out=away)


def _distances(x: Any, mean: Any) -> Any:
    x = inexact(x)
    return np.subtract(x, mean, out=np.empty(x.shape, x.dtype))


def _distances_from_mean(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the elements minus their mean, in float32 at least; never a scalar."""
    return _distances(x, _mean_along(x, axes))


@PULLBACK.of(TABLE["var"])
def _var_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    directions, divisor = _directions(params, x)
    return (axes_kept(widened(g) / divisor, params, x) * directions,)


@PUSHFORWARD.of(TABLE["var"])
def _var_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    directions, divisor = _directions(params, x)
    return summed((directions * widened(tangents[0])).real, params) / divisor


def _directions(params: tuple, x: Any) -> tuple[Any, int]:
    """Return the derivative of the variance, and its divisor.

    The change of the mean counts too, since rounded _distances_from_mean do not sum to 0.
    """
    axes, _, ddof = params
    away = _distances_from_mean(_distances_from_mean(x, axes), axes)
    return 2 * (away.conj() if away.dtype.kind == "c" else away), max(size_of(x, axes) - ddof, 0)


BATCH[TABLE["var"]] = over_axes


@HOST.of(TABLE["std"])
def _std(out: Aval, params: tuple, x: Any) -> Any:
    return narrowed(np.sqrt(_variance(out, params, x)), out)


@PULLBACK.of(TABLE["std"])
def _std_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    return _var_back(widened(g) * np.float32(0.5) / widened(y), y, params, needs_grad, x)


@PUSHFORWARD.of(TABLE["std"])
def _std_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _var_forth(tangents, y, params, x) * np.float32(0.5) / widened(y)


BATCH[TABLE["std"]] = over_axes


@HOST.of(TABLE["median"])
def _median(out: Aval, params: tuple, x: Any) -> Any:
    rows = as_rows(inexact(x), params[0])
    line = ordered(rows, -1)
    n = rows.shape[-1]
    middle = line[..., n // 2]
    if not n % 2:
        middle = _halved(line[..., n // 2 - 1] + middle)
    nan = np.logical_or.reduce(rows != rows, -1)
    return narrowed(np.where(nan, middle.dtype.type(np.nan), middle), out).reshape(out.shape)


def _halved(x: Any) -> Any:
    """Return x / 2. Each part of a complex number is halved on its own, because a product with an infinite part would
    be NaN."""
    if x.dtype.kind != "c":
        return x * np.float32(0.5)
    half = np.asarray(x).copy()
    half.real *= 0.5
    half.imag *= 0.5
    return half


def _middle(rows: Any) -> tuple[Any, Any]:
    """Return the indices of the one or two elements that the median uses, and the weight of each; 0 if there is a
    NaN."""
    n = rows.shape[-1]
    indices = order_of(rows, -1)[..., (n - 1) // 2 : n // 2 + 1]
    nan = np.logical_or.reduce(rows != rows, -1, keepdims=True)
    return indices, np.where(nan, np.float32(0), np.float32(1 / indices.shape[-1]))


@PULLBACK.of(TABLE["median"])
def _median_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    axes, _ = params
    rows = as_rows(x, axes)
    indices, share = _middle(rows)
    g = widened(g).reshape(*rows.shape[:-1], 1)
    c = np.zeros(rows.shape, g.dtype)
    np.put_along_axis(c, indices, share * g, -1)
    kept = [k for k in range(x.ndim) if k not in axes]
    back = np.argsort([*kept, *axes])
    return (c.reshape([x.shape[k] for k in (*kept, *axes)]).transpose(back),)


@PUSHFORWARD.of(TABLE["median"])
def _median_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    indices, share = _middle(as_rows(x, params[0]))
    moving = np.take_along_axis(as_rows(widened(tangents[0]), params[0]), indices, -1)
    return np.add.reduce(share * moving, -1).reshape(y.shape)


BATCH[TABLE["median"]] = over_axes
