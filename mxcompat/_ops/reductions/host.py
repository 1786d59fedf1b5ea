"""Host rules of the reductions, of softmax and of the statistics. Half precision is accumulated in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.run.short_rows import reduced
from mxcompat._graph.run.values import in_order

from ..define import TABLE
from . import extremes, softmax, statistics  # noqa: F401  # for their records, in TABLE
from .blocks import folded_on_host, places_in_blocks, widened
from .reduce import size_of

__all__ = ["as_rows", "distances", "inexact", "narrowed", "powers_and_sum"]

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)
_UINT32 = np.dtype(np.uint32)


def inexact(x: Any) -> Any:
    """Return x in float32 at least."""
    return x.astype(_FLOAT32) if x.dtype.kind in "biu" else widened(x)


def narrowed(x: Any, out: Aval) -> Any:
    """Return x in the dtype of the result."""
    return x.astype(out.dtype._numpy, copy=False)


def _half(out: Aval) -> bool:
    return out.dtype.size == 2 and out.dtype._kind == "f"


def _widely(ufunc: np.ufunc, out: Aval, x: Any, axes: tuple[int, ...]) -> Any:
    """Return the reduction of half precision by a ufunc, in float32."""
    return folded_on_host(ufunc, widened, x, (), axes).reshape(out.shape)


def _total(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the host rule of a reduction by this ufunc, in the dtype of the result."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axes, keepdims = params
        if not axes:
            return x
        if _half(out):
            return _widely(ufunc, out, x, axes).astype(out.dtype._numpy)
        x = in_order(x)
        if x.dtype is out.dtype._numpy:
            return reduced(ufunc, x, axes, keepdims)
        return ufunc.reduce(x, axes, out.dtype._numpy, None, keepdims)

    return rule


HOST[TABLE["sum"]] = _total(np.add)
HOST[TABLE["prod"]] = _total(np.multiply)


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


@HOST.of(TABLE["mean"])
def _mean(out: Aval, params: tuple, x: Any) -> Any:
    axes, keepdims = params
    half = _half(out)
    if half:
        total = _widely(np.add, out, x, axes)
    elif x.dtype.kind in "biu" and x.dtype.itemsize <= 2 and x.size >= policy.LONG_SUM:
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


def _extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axes, keepdims = params
        if x.size == out.size:
            return x.reshape(out.shape)
        if _half(out):
            return _widely(ufunc, out, x, axes).astype(out.dtype._numpy)
        result = reduced(ufunc, x, axes, keepdims)
        if out.dtype._kind == "c":
            return np.where(result == result, result, np.complex64(np.nan))
        return result

    return rule


HOST[TABLE["max"]] = _extreme(np.maximum)
HOST[TABLE["min"]] = _extreme(np.minimum)


def _all_or_any(ufunc: np.ufunc) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axes, keepdims = params
        if x.dtype.kind == "V":
            x = x.astype(_FLOAT32)
        return reduced(ufunc, x if x.dtype.kind == "b" else x != 0, axes, keepdims)

    return rule


HOST[TABLE["all"]] = _all_or_any(np.logical_and)
HOST[TABLE["any"]] = _all_or_any(np.logical_or)


@HOST.of(TABLE["count_nonzero"])
def _count(out: Aval, params: tuple, x: Any) -> Any:
    axes, keepdims = params
    return np.add.reduce(x if x.dtype.kind == "b" else x != 0, axes, _INT32, None, keepdims)


def _place(name: str) -> Callable[..., Any]:
    """Return the host rule of `argmax` or `argmin`."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axis, keepdims = params
        if axis is None:
            x, axis = x.reshape(-1), 0
        search = getattr(widened(x), name) if x.size < policy.LONG_SUM else partial(places_in_blocks, name, x)
        places = search(axis).astype(_UINT32)
        return places.reshape(out.shape) if keepdims else places

    return rule


HOST[TABLE["argmax"]] = _place("argmax")
HOST[TABLE["argmin"]] = _place("argmin")


def powers_and_sum(x: Any, axes: Any) -> tuple[Any, Any]:
    """Return `exp(x - shift)` and its sum, with the axes kept. `shift` is the largest element along the axes."""
    powers = _powers(x, np.maximum.reduce(x.real if x.dtype.kind == "c" else x, axes, None, None, True))
    return powers, np.add.reduce(powers, axes, None, None, True)


def _powers(x: Any, shift: Any) -> Any:
    """Return `exp(x - shift)`, in float32 at least."""
    x = inexact(x)
    # `out` makes an array, also where NumPy would make a scalar
    powers = np.subtract(x, shift, out=np.empty(x.shape, x.dtype))
    return np.exp(powers, powers)


@HOST.of(TABLE["logsumexp"])
def _logsumexp(out: Aval, params: tuple, x: Any) -> Any:
    axes, _ = params
    if not axes:
        return narrowed(inexact(x), out)
    shift = folded_on_host(np.maximum, inexact, x, (), axes)  # the imaginary part decides the branch of the logarithm
    shift = np.where(np.isfinite(shift), shift, shift.dtype.type(0))
    total = folded_on_host(np.add, _powers, x, (shift,), axes)
    return narrowed(np.log(total) + shift, out).reshape(out.shape)


@HOST.of(TABLE["softmax"])
def _softmax(out: Aval, params: tuple, x: Any) -> Any:
    if not out.size:
        return x
    powers, total = powers_and_sum(inexact(x), params[0])
    powers /= total
    return narrowed(powers, out)


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


def distances(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the elements minus their mean, in float32 at least; never a scalar."""
    return _distances(x, _mean_along(x, axes))


@HOST.of(TABLE["std"])
def _std(out: Aval, params: tuple, x: Any) -> Any:
    return narrowed(np.sqrt(_variance(out, params, x)), out)


def as_rows(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the elements along the axes as rows, after the other axes of the array."""
    kept = [k for k in range(x.ndim) if k not in axes]
    return x.transpose(*kept, *axes).reshape(*[x.shape[k] for k in kept], size_of(x, axes))
