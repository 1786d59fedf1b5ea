"""Statistics: variance, standard deviation and median, over any axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._jax import jnp, lax, lazy

from ..arguments import axes_of, axis_of, check_axis_types, flag, integer, is_sequence, require_array
from ..define import as_float, op
from ..elementwise.quotient import quotient
from ..examples import example
from .blocks import folded, reduced_wide
from .reduce import NO_MEAN_AXIS, accumulator, divided, reduced, reduction_record, size_of, sum_of, wide
from .sorting import sorted_values

__all__ = ["median", "std", "var"]


def _deviation_dtype(dtype: Dtype) -> Dtype:
    return avals.float32 if dtype._kind == "c" else as_float(dtype)


@partial(lazy.custom_jvp, nondiff_argnums=(1, 2, 3))
def _wide_var(x: Any, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    """Return the variance without rounding to half precision, and without a float32 copy of `x`."""
    total = folded(jnp.add, _square_of_distance, x, (_wide_mean(x, axes),), axes)
    if not keepdims:
        total = lax.squeeze(total, axes)
    divisor = size_of(x, axes) - ddof
    return total / jnp.asarray(divisor if divisor > 0 else 0, total.dtype)


def _wide_mean(x: Any, axes: tuple[int, ...]) -> Any:
    return divided(_wide_sum(x, axes), size_of(x, axes))


def _wide_sum(x: Any, axes: tuple[int, ...]) -> Any:
    return reduced_wide(jnp.add, x, axes, True, accumulator(x.dtype))


def _square_of_distance(x: Any, mean: Any) -> Any:
    away = wide(x) - mean
    return lax.real(away) ** 2 + lax.imag(away) ** 2 if away.dtype.kind == "c" else away * away


@_wide_var.defjvp
def _wide_var_jvp(axes: tuple[int, ...], keepdims: bool, ddof: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use the derivative that includes the change of the mean. This cancels in exact arithmetic, but rounded distances
    do not sum to 0."""
    (x,), (t,) = primals, tangents
    total = _wide_sum(x, axes)
    # divide: XLA may fuse a product with a reciprocal and the difference, and then does not round it
    away, moving = wide(x) - quotient(total, jnp.asarray(size_of(x, axes), total.dtype)), wide(t)
    away -= _wide_mean(away, axes)
    product = lax.real(lax.conj(away) * moving) if away.dtype.kind == "c" else away * moving
    divisor = size_of(x, axes) - ddof
    total = 2 * sum_of(product, axes, keepdims)
    return _wide_var(x, axes, keepdims, ddof), total / jnp.asarray(max(divisor, 0), total.dtype)


def _var_aval(a: Aval, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Aval:
    return aval(reduced(a.shape, axes, keepdims), _deviation_dtype(a.dtype))


def _var(x: Any, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    x = _inexact(x)
    return _wide_var(x, axes, keepdims, ddof).astype(_real(x.dtype))


def _std(x: Any, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    """Return the standard deviation, rounded once. A half-precision variance would add a second rounding."""
    x = _inexact(x)
    return lax.sqrt(_wide_var(x, axes, keepdims, ddof)).astype(_real(x.dtype))


def _inexact(x: Any) -> Any:
    x = jnp.asarray(x)
    return x.astype(jnp.float32) if x.dtype.kind in "biu" else x


def _real(dtype: Any) -> Any:
    return jnp.float32 if dtype.kind == "c" else dtype


_VAR = op("var", _var, _var_aval, ("axes", "keepdims", "ddof"))


_STD = op("std", _std, _var_aval, ("axes", "keepdims", "ddof"))


def _deviation(record: Op, summary: str) -> Callable[..., array]:
    """Make the public function `var` or `std`."""
    name = record.name

    def function(
        a: array, /, axis: Any = None, keepdims: bool = False, ddof: int = 0, *, correction: int | None = None,
        stream: Any = None,
    ) -> array:  # fmt: skip
        check_stream(stream)
        node = require_array(a, name)
        kept, ddof = flag(keepdims, name, "keepdims"), integer(ddof)
        ddof = ddof if correction is None else integer(correction)
        return wrap(apply(record, (node,), (axes_of(axis, node.aval.ndim, NO_MEAN_AXIS), kept, ddof)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

Args:
    a: an array, of any shape.
    axis: the axis or axes to reduce; None for all axes.
    keepdims: whether to keep reduced axes, with size 1.
    ddof: the divisor of the variance is the number of elements minus this.
    correction: the name of `ddof` in the array API; it overrides `ddof`.
    stream: accepted, and ignored.

Returns:
    An array without the reduced axes, with the dtype of `a` (float32 for integers, bools and complex numbers).

Raises:
    IndexError: if an axis is out of range.
    ValueError: if an axis is named twice.

Example:
{example(name)}
"""
    return function


var = _deviation(_VAR, "Return the variance of the elements.")
std = _deviation(_STD, "Return the standard deviation of the elements: the square root of the variance.")


def _median(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[k] for k in kept), size_of(x, axes))
    ordered = sorted_values(rows, rows.ndim - 1)
    n = ordered.shape[-1]
    low, high = ordered[..., (n - 1) // 2], ordered[..., n // 2]
    middle = wide(low) if n % 2 else _halved(wide(low) + wide(high))
    out = jnp.where(jnp.any(rows != rows, axis=-1), jnp.asarray(math.nan, middle.dtype), middle)
    return out.reshape(reduced(x.shape, axes, keepdims)).astype(x.dtype)


def _halved(x: Any) -> Any:
    """Return x / 2. Each part of a complex number is halved on its own, because a product with an infinite part would
    be NaN."""
    return lax.complex(lax.real(x) * 0.5, lax.imag(x) * 0.5) if x.dtype.kind == "c" else x * 0.5


def _no_empty_median(a: Aval, axes: tuple[int, ...]) -> None:
    if not math.prod(a.shape[k] for k in axes):
        raise ValueError("[median] Cannot take median along empty axis.")


_MEDIAN = reduction_record("median", _median, as_float, _no_empty_median)


_NO_MEDIAN_AXIS = "[median] axis {axis} is out of bounds for array with {ndim} dimensions."


def median(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
    """Return the median of the elements: the middle one, or the mean of the two in the middle; NaN if one is NaN.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all axes.
        keepdims: whether to keep reduced axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        An array without the reduced axes, with the dtype of `a` (float32 for integers and bool).

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or if a reduced axis is empty.

    Example:
        >>> mx.median(mx.array([[3, 1, 2], [6, 4, 8]]), axis=1)
        array([2, 6], dtype=float32)
    """
    check_stream(stream)
    node = require_array(a, "median")
    kept = flag(keepdims, "median", "keepdims")
    check_axis_types(axis)
    ndim = node.aval.ndim
    listed = [] if axis is None else list(axis) if is_sequence(axis) else [axis]
    if len({axis_of(k, ndim, message=_NO_MEDIAN_AXIS) for k in listed}) < len(listed):
        raise ValueError("[median] Received duplicate axis.")
    if axis is not None and not listed and ndim:
        raise ValueError("[flatten] start_axis must be less than or equal to end_axis")
    return wrap(apply(_MEDIAN, (node,), (axes_of(axis, ndim), kept)))
