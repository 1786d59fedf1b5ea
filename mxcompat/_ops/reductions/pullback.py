"""Derivatives, on the host, of reductions, of softmax and of the statistics. Half precision is widened to float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD, READS_NOTHING, RESIDUALS
from mxcompat._graph.run.values import in_order

from ..define import TABLE
from .blocks import widened
from .host import distances, inexact, powers_and_sum
from .others import products_of_others
from .reduce import size_of

__all__: list[str] = []


def _with_reduced_axes(g: Any, params: tuple, x: Any) -> Any:
    """Return an array that has the shape of the result, reshaped to keep the reduced axes of `x`."""
    axes, keepdims = params[:2]
    if keepdims or len(axes) == x.ndim:
        return g
    return g.reshape(tuple([1 if k in axes else n for k, n in enumerate(x.shape)]))


def _summed(x: Any, params: tuple) -> Any:
    return np.add.reduce(in_order(widened(x)), params[0], None, None, params[1])


@PULLBACK.of(TABLE["sum"])
def _sum_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    return (_with_reduced_axes(g, params, x),)


@PUSHFORWARD.of(TABLE["sum"])
def _sum_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _summed(tangents[0], params)


@PULLBACK.of(TABLE["mean"])
def _mean_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    return (_with_reduced_axes(widened(g) / size_of(x, params[0]), params, x),)


@PUSHFORWARD.of(TABLE["mean"])
def _mean_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _summed(tangents[0], params) / size_of(x, params[0])


def _weighted(name: str, weights: Callable[..., Any]) -> None:
    """Register the rules of a reduction whose tangent is a weighted sum of the elements' tangents.

    `weights(y, params, x)` returns the weights, in a new array. Its `y` is the result with reduced axes kept, and is
    never half precision.
    """
    op = TABLE[name]

    def pullback(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
        if not params[0]:
            return (g,)
        cotangents = weights(_with_reduced_axes(widened(y), params, x), params, widened(x))
        cotangents *= _with_reduced_axes(widened(g), params, x)  # multiply in place, because the array may be large
        return (cotangents,)

    def pushforward(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
        (t,) = tangents
        if not params[0]:
            return t
        return _summed(widened(t) * weights(_with_reduced_axes(widened(y), params, x), params, widened(x)), params)

    PULLBACK[op] = pullback
    PUSHFORWARD[op] = pushforward


_weighted("prod", lambda y, params, x: products_of_others(np, x, params[0]))


def _exponential_shares(y: Any, params: tuple, x: Any) -> Any:
    powers, total = powers_and_sum(x, params[0])
    powers /= total
    return powers


_weighted("logsumexp", _exponential_shares)


def _extreme(name: str) -> None:
    op = TABLE[name]

    def pullback(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
        if not params[0]:
            return (g,)
        y, g = _with_reduced_axes(y, params, x), _with_reduced_axes(widened(g), params, x)
        equal = x == y
        return (equal * (g / _count(equal, params, g.dtype)),)

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


def _count(equal: Any, params: tuple, dtype: Any) -> Any:
    """Return the number of elements that equal the extreme and share its gradient; 0 if it is NaN."""
    return np.add.reduce(equal, params[0], dtype, None, True)


_extreme("max")
_extreme("min")


@PULLBACK.of(TABLE["softmax"])
def _softmax_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    y, g = in_order(_softmax_of(x, y, params)), in_order(widened(g))
    axes = params[0]
    if axes == (x.ndim - 1,) and y.dtype.kind != "c":
        mean = np.vecdot(y, g)[..., None]
    else:
        mean = np.add.reduce(y * g, axes, None, None, True)
    slopes = g - mean
    slopes *= y
    return (slopes,)


@PUSHFORWARD.of(TABLE["softmax"])
def _softmax_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _softmax_back(widened(tangents[0]), y, params, None, x)[0]


def _softmax_of(x: Any, y: Any, params: tuple) -> Any:
    """Return the result without rounding to half precision."""
    if y.dtype.itemsize != 2 or not y.size:
        return y
    powers, total = powers_and_sum(inexact(x), params[0])
    return powers / total


def _directions(params: tuple, x: Any) -> tuple[Any, int]:
    """Return the derivative of the variance, and its divisor. It includes the change of the mean, because rounded
    distances do not sum to 0."""
    axes, _, ddof = params
    away = distances(distances(x, axes), axes)
    return 2 * (away.conj() if away.dtype.kind == "c" else away), max(size_of(x, axes) - ddof, 0)


@PULLBACK.of(TABLE["var"])
def _var_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    directions, divisor = _directions(params, x)
    return (_with_reduced_axes(widened(g) / divisor, params, x) * directions,)


@PUSHFORWARD.of(TABLE["var"])
def _var_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    directions, divisor = _directions(params, x)
    return _summed((directions * widened(tangents[0])).real, params) / divisor


@PULLBACK.of(TABLE["std"])
def _std_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    return _var_back(widened(g) * np.float32(0.5) / widened(y), y, params, needs_grad, x)


@PUSHFORWARD.of(TABLE["std"])
def _std_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _var_forth(tangents, y, params, x) * np.float32(0.5) / widened(y)


RESIDUALS.update(dict.fromkeys([TABLE["sum"], TABLE["mean"]], READS_NOTHING))
