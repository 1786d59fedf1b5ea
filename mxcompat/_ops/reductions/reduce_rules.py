"""Rules of sums, products, means, `logsumexp`, `all`, `any` and `count_nonzero`. Half precision is accumulated in
float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph import policy
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, Dtype
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD, READS_NOTHING, RESIDUALS, TANGENT_DTYPE
from mxcompat._graph.run.short_rows import reduced
from mxcompat._graph.run.values import in_order

from ..define import TABLE
from .axes import axes_kept, over_axes
from .blocks import folded_on_host, widened
from .others import products_of_others
from .precision import in_float32, inexact, is_half, narrowed, summed
from .reduce import size_of
from .softmax_rules import powers_and_sum, shifted_powers

__all__: list[str] = []

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)
_UINT32 = np.dtype(np.uint32)


def _total(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the host rule of a reduction by this ufunc, in the dtype of the result."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axes, keepdims = params
        if not axes:
            return x
        if is_half(out):
            return in_float32(ufunc, out, x, axes).astype(out.dtype._numpy)
        x = in_order(x)
        if x.dtype is out.dtype._numpy:
            return reduced(ufunc, x, axes, keepdims)
        return ufunc.reduce(x, axes, out.dtype._numpy, None, keepdims)

    return rule


HOST[TABLE["sum"]] = _total(np.add)


@PULLBACK.of(TABLE["sum"])
def _sum_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    return (axes_kept(g, params, x),)


@PUSHFORWARD.of(TABLE["sum"])
def _sum_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return summed(tangents[0], params)


RESIDUALS[TABLE["sum"]] = READS_NOTHING
BATCH[TABLE["sum"]] = over_axes


def _weighted(name: str, weights: Callable[..., Any]) -> None:
    """Register the rules of a reduction whose tangent is a weighted sum of the elements' tangents.

    `weights(y, params, x)` returns the weights, in a new array. Its `y` is the result with reduced axes kept, and is
    never half precision.
    """
    op = TABLE[name]

    def pullback(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
        if not params[0]:
            return (g,)
        cotangents = weights(axes_kept(widened(y), params, x), params, widened(x))
        cotangents *= axes_kept(widened(g), params, x)  # in place, because the array may be large
        return (cotangents,)

    def pushforward(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
        (t,) = tangents
        if not params[0]:
            return t
        return summed(widened(t) * weights(axes_kept(widened(y), params, x), params, widened(x)), params)

    PULLBACK[op] = pullback
    PUSHFORWARD[op] = pushforward


HOST[TABLE["prod"]] = _total(np.multiply)
_weighted("prod", lambda y, params, x: products_of_others(np, x, params[0]))
BATCH[TABLE["prod"]] = over_axes


@HOST.of(TABLE["mean"])
def _mean(out: Aval, params: tuple, x: Any) -> Any:
    axes, keepdims = params
    half = is_half(out)
    if half:
        total = in_float32(np.add, out, x, axes)
    elif x.dtype.kind in "biu" and x.dtype.itemsize <= 2 and x.size >= policy.HUGE_ELEMENTS:
        total = _sum_of_narrow(x, axes).reshape(out.shape)
    elif x.dtype is out.dtype._numpy:
        total = reduced(np.add, in_order(x), axes, keepdims)
    else:
        total = np.add.reduce(in_order(x), axes, out.dtype._numpy, None, keepdims)
    count = x.size // max(out.size, 1)
    if out.dtype._kind == "c":
        mean = total / count
    else:  # MLX multiplies by the reciprocal
        mean = total * (total.dtype.type(1) / total.dtype.type(count))
    return mean.astype(out.dtype._numpy) if half else mean


def _sum_of_narrow(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the sum of 8-bit or 16-bit integers in float32, with the axes kept.

    NumPy adds 32-bit integers twice as fast as float32. They are summed at once if 32 bits can hold the sum, and block
    by block otherwise.
    """
    wide = _INT32 if x.dtype.kind == "i" else _UINT32
    most = 1 << 32 - 8 * x.dtype.itemsize

    def held(part: Any) -> bool:
        return math.prod(part.shape[a] for a in axes) <= most

    def total(part: Any) -> Any:
        return np.add.reduce(part, axes, wide if held(part) else _FLOAT32, None, True).astype(_FLOAT32, copy=False)

    return total(x) if held(x) else folded_on_host(np.add, total, x, (), axes, most)


@PULLBACK.of(TABLE["mean"])
def _mean_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    return (axes_kept(widened(g) / size_of(x, params[0]), params, x),)


@PUSHFORWARD.of(TABLE["mean"])
def _mean_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return summed(tangents[0], params) / size_of(x, params[0])


RESIDUALS[TABLE["mean"]] = READS_NOTHING
BATCH[TABLE["mean"]] = over_axes


@HOST.of(TABLE["logsumexp"])
def _logsumexp(out: Aval, params: tuple, x: Any) -> Any:
    axes, _ = params
    if not axes:
        return narrowed(inexact(x), out)
    shift = folded_on_host(np.maximum, inexact, x, (), axes)  # the imaginary part decides the branch of the logarithm
    shift = np.where(np.isfinite(shift), shift, shift.dtype.type(0))
    total = folded_on_host(np.add, shifted_powers, x, (shift,), axes)
    return narrowed(np.log(total) + shift, out).reshape(out.shape)


def _exponential_shares(y: Any, params: tuple, x: Any) -> Any:
    powers, total = powers_and_sum(x, params[0])
    powers /= total
    return powers


_weighted("logsumexp", _exponential_shares)
BATCH[TABLE["logsumexp"]] = over_axes


def _all_or_any(ufunc: np.ufunc) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axes, keepdims = params
        if x.dtype.kind == "V":
            x = x.astype(_FLOAT32)
        return reduced(ufunc, x if x.dtype.kind == "b" else x != 0, axes, keepdims)

    return rule


HOST[TABLE["all"]] = _all_or_any(np.logical_and)
HOST[TABLE["any"]] = _all_or_any(np.logical_or)
BATCH[TABLE["all"]] = over_axes
BATCH[TABLE["any"]] = over_axes


@TANGENT_DTYPE.of(TABLE["all"], TABLE["any"])
def _tangent_of_all(tangents: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype:
    """Return the tangent dtype of `all` and `any`: that of a product, or bool if there is nothing to reduce."""
    dtype = promote(tangents[0], operands[0].dtype)
    return avals.bool_ if operands[0].size == result.size else summed_dtype(dtype)


@HOST.of(TABLE["count_nonzero"])
def _count(out: Aval, params: tuple, x: Any) -> Any:
    axes, keepdims = params
    return np.add.reduce(x if x.dtype.kind == "b" else x != 0, axes, _INT32, None, keepdims)


BATCH[TABLE["count_nonzero"]] = over_axes
