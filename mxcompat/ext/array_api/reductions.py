"""Statistical and utility functions of the standard."""

from __future__ import annotations

from collections.abc import Callable

from mxcompat import core as mx
from mxcompat.core import Dtype, array

__all__ = [
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "summed", "var",
]  # fmt: skip

Axes = int | tuple[int, ...] | None


def all(x: array, /, *, axis: Axes = None, keepdims: bool = False) -> array:
    """Return True if all elements are true."""
    return mx.all(x, axis, keepdims)


def any(x: array, /, *, axis: Axes = None, keepdims: bool = False) -> array:
    """Return True if at least one element is true."""
    return mx.any(x, axis, keepdims)


def count_nonzero(x: array, /, *, axis: Axes = None, keepdims: bool = False) -> array:
    """Count the nonzero elements, as int32."""
    return mx.sum((x != 0).astype(mx.int32), axis, keepdims)


def summed(x: array, dtype: Dtype | None) -> array:
    """Cast the elements to the dtype of their sum or product: at least int32 or uint32."""
    if dtype is None:
        dtype = x.dtype
        if dtype._kind in "bi" and dtype.size < 4:
            dtype = mx.int32
        elif dtype._kind == "u" and dtype.size < 4:
            dtype = mx.uint32
    return x.astype(dtype)


def cumulative_sum(
    x: array, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False
) -> array:
    """Compute the cumulative sums along an axis, which may be omitted for a vector."""
    return _cumulative(mx.cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: array, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False
) -> array:
    """Compute the cumulative products along an axis, which may be omitted for a vector."""
    return _cumulative(mx.cumprod, x, axis, dtype, include_initial, 1)


def _cumulative(
    scan: Callable[..., array], x: array, axis: int | None, dtype: Dtype | None, include_initial: bool, first: int
) -> array:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"[cumulative] axis is needed for an array of {x.ndim} axes.")
        axis = 0
    x = summed(x, dtype)
    sums = scan(x, axis).astype(x.dtype)
    if include_initial:
        shape = [1 if k == axis % x.ndim else n for k, n in enumerate(x.shape)]
        sums = mx.concatenate([mx.full(shape, first, x.dtype), sums], axis)
    return sums


def diff(
    x: array, /, *, axis: int = -1, n: int = 1, prepend: array | None = None, append: array | None = None
) -> array:
    """Compute the differences of neighbours along an axis, n times."""
    parts = [a for a in (prepend, x, append) if a is not None]
    return mx.diff(mx.concatenate(parts, axis) if len(parts) > 1 else x, n, axis)


def max(x: array, /, *, axis: Axes = None, keepdims: bool = False) -> array:
    """Return the largest element, or NaN if one element is NaN."""
    return mx.max(x, axis, keepdims)


def mean(x: array, /, *, axis: Axes = None, keepdims: bool = False) -> array:
    """Compute the mean of the elements."""
    return mx.mean(x, axis, keepdims)


def min(x: array, /, *, axis: Axes = None, keepdims: bool = False) -> array:
    """Return the smallest element, or NaN if one element is NaN."""
    return mx.min(x, axis, keepdims)


def prod(x: array, /, *, axis: Axes = None, dtype: Dtype | None = None, keepdims: bool = False) -> array:
    """Compute the product of the elements."""
    x = summed(x, dtype)
    return mx.prod(x, axis, keepdims).astype(x.dtype)


def std(x: array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> array:
    """Compute the standard deviation; the divisor is the number of elements minus `correction`."""
    return mx.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def sum(x: array, /, *, axis: Axes = None, dtype: Dtype | None = None, keepdims: bool = False) -> array:
    """Compute the sum of the elements."""
    x = summed(x, dtype)
    return mx.sum(x, axis, keepdims).astype(x.dtype)


def var(x: array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> array:
    """Compute the variance; the divisor is the number of elements minus `correction`."""
    variance = mx.var(x, axis, keepdims)
    if not correction:
        return variance
    count = x.size / variance.size if variance.size else float("nan")
    left = count - correction
    return variance * (count / left) if left > 0 else mx.full(variance.shape, mx.nan, variance.dtype)
