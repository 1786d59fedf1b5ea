"""Reductions: ops that take several elements to one, over any axes.

Half precision is accumulated in float32. Equal elements share the gradient of `max` and `min`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index
from typing import Any

import jax.numpy as jnp
from jax import lax

from mxcompat._array.array import array, wrap
from mxcompat._graph import aval as avals
from mxcompat._graph.aval import Aval, Dtype, aval
from mxcompat._graph.node import apply
from mxcompat._graph.op import Op

from .define import as_bool, as_float, axes_of, axis_of, op, same, strict

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "median", "min", "minmax", "prod",
    "std", "sum", "var",
]  # fmt: skip


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape that is left when `axes` are reduced."""
    if keepdims:
        return tuple([1 if k in axes else n for k, n in enumerate(shape)])
    return tuple([n for k, n in enumerate(shape) if k not in axes])


def _accumulated(dtype: Dtype) -> Dtype:
    if dtype.kind in "bi" and dtype.size < 4:
        return avals.int32
    return avals.uint32 if dtype.kind == "u" and dtype.size < 4 else dtype


def _spread(dtype: Dtype) -> Dtype:
    return avals.float32 if dtype.kind == "c" else as_float(dtype)


def _record(name: str, impl: Callable[..., Any], result: Callable[[Dtype], Dtype], check: Any = None, lazy: bool = False) -> Op:
    """A record of a reduction, with `axes` and `keepdims`.

    `impl(x, axes, keepdims)` is given its input cast to the result's dtype, unless that is bool. `check(aval, axes)`
    raises if there is nothing to reduce. With `lazy`, no axes means no change, not even of dtype.
    """

    def infer(a: Aval, axes: tuple[int, ...], keepdims: bool) -> Aval:
        if check:
            check(a, axes)
        return aval(reduced(a.shape, axes, keepdims), a.dtype if lazy and not axes else result(a.dtype))

    def lower(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        x = jnp.asarray(x)
        if lazy and not axes:
            return x
        want = result(avals.from_numpy(x.dtype))  # type: ignore[arg-type]
        if want.kind != "b" and x.dtype.kind != "c":
            x = x.astype(want.numpy)
        return impl(x, axes, keepdims)

    return op(name, lower, infer, ("axes", "keepdims"))


def _not_empty(name: str) -> Callable[[Aval, tuple[int, ...]], None]:
    def check(a: Aval, axes: tuple[int, ...]) -> None:
        for k in axes:
            if a.shape[k] == 0:
                raise ValueError(f"[{name}] Cannot {name} reduce over axis {k} with size 0.")

    return check


def _extreme(reduce: Callable[..., Any], worst: float) -> Callable[..., Any]:
    """`jnp.max` or `jnp.min`, for complex numbers too: by the real part, then the imaginary part."""

    def impl(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if x.dtype.kind != "c":
            return reduce(x, axis=axes, keepdims=keepdims)
        re, im = lax.real(x), lax.imag(x)
        first = reduce(re, axis=axes, keepdims=True)
        second = reduce(jnp.where(re == first, im, jnp.asarray(worst, im.dtype)), axis=axes, keepdims=True)
        nan = jnp.any(x != x, axis=axes, keepdims=True)
        out = lax.complex(jnp.where(nan, math.nan, first), jnp.where(nan, 0.0, second))
        return out if keepdims else lax.squeeze(out, axes)

    return impl


def _sum(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return jnp.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _prod(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return jnp.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _size(x: Any, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[k] for k in axes)


def wide(x: Any) -> Any:
    """Half precision as float32, anything else as it is."""
    return x.astype(jnp.float32) if x.dtype.itemsize == 2 else x


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    total = _sum(wide(x), axes, keepdims)
    return (total / jnp.asarray(_size(x, axes), total.dtype)).astype(x.dtype)


def _var(x: Any, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    wider = wide(x)
    away = wider - _mean(wider, axes, True)
    squares = lax.real(away) ** 2 + lax.imag(away) ** 2 if away.dtype.kind == "c" else away * away
    total = _sum(squares, axes, keepdims)
    divisor = _size(x, axes) - ddof
    return (total / jnp.asarray(divisor if divisor > 0 else 0, total.dtype)).astype(_real(x.dtype))


def _real(dtype: Any) -> Any:
    return jnp.float32 if dtype.kind == "c" else dtype


def _logsumexp(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not axes:
        return x
    wider = wide(x)
    largest = lax.stop_gradient(jnp.max(lax.real(wider) if wider.dtype.kind == "c" else wider, axis=axes, keepdims=True))
    shift = jnp.where(jnp.isfinite(largest), largest, jnp.zeros((), largest.dtype)).astype(wider.dtype)
    out = lax.log(_sum(lax.exp(wider - shift), axes, True)) + shift
    return (out if keepdims else lax.squeeze(out, axes)).astype(x.dtype)


def _no_empty_logsumexp(a: Aval, axes: tuple[int, ...]) -> None:
    if a.size == 0:
        raise ValueError("[logsumexp] Received empty array.")


def _truth(x: Any) -> Any:
    return x if x.dtype == bool else x != 0


_SUM = _record("sum", _sum, _accumulated, lazy=True)
_PROD = _record("prod", _prod, _accumulated, lazy=True)
_MAX = _record("max", _extreme(jnp.max, -math.inf), same, _not_empty("max"), lazy=True)
_MIN = _record("min", _extreme(jnp.min, math.inf), same, _not_empty("min"), lazy=True)
_MEAN = _record("mean", _mean, as_float)
_LOGSUMEXP = _record("logsumexp", _logsumexp, as_float, _no_empty_logsumexp)
_ALL = _record("all", lambda x, axes, keepdims: jnp.all(_truth(x), axis=axes, keepdims=keepdims), as_bool)
_ANY = _record("any", lambda x, axes, keepdims: jnp.any(_truth(x), axis=axes, keepdims=keepdims), as_bool)


def _reduction(record: Op, summary: str, dtypes: str, raises: str = "") -> Callable[..., array]:
    """The public function of a reduction."""
    name = record.name

    def function(a: Any, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
        node = a._node if type(a) is array else strict(a, name)
        return wrap(apply(record, (node,), (axes_of(axis, node.aval.ndim), bool(keepdims))))

    function.__name__ = function.__qualname__ = name
    function.op = record  # type: ignore[attr-defined]
    function.__doc__ = _DOC.format(name=name, summary=summary, dtypes=dtypes, raises=raises)
    return function


_DOC = """{summary}

Args:
    a: an array, of any shape.
    axis: the axis or axes to reduce; None for all of them, an empty sequence for none.
    keepdims: whether to keep reduced axes, with size 1.
    stream: accepted, and ignored.

Returns:
    An array without the reduced axes, {dtypes}.

Raises:
    IndexError: if an axis is out of range.
    ValueError: if an axis is named twice{raises}.

Example:
    `mx.{name}(x, axis=-1)`
"""

_OWN = "of the dtype of `a`"
_WIDE = "of the dtype of `a`; int32 or uint32 instead of narrower integers and bool"
_FLOAT = "of the dtype of `a`, float32 instead of an integer or bool"
_EMPTY = ", or if a reduced axis has size 0"

sum = _reduction(_SUM, "The sum of the elements.", _WIDE)
prod = _reduction(_PROD, "The product of the elements.", _WIDE)
max = _reduction(_MAX, "The largest element; NaN if there is one.", _OWN, _EMPTY)
min = _reduction(_MIN, "The smallest element; NaN if there is one.", _OWN, _EMPTY)
mean = _reduction(_MEAN, "The mean of the elements.", _FLOAT)
logsumexp = _reduction(_LOGSUMEXP, "The logarithm of the sum of the exponentials.", _FLOAT, ", or if `a` is empty")
all = _reduction(_ALL, "Whether no element is 0.", "of bools")
any = _reduction(_ANY, "Whether some element is not 0.", "of bools")


def minmax(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> tuple[array, array]:
    """The smallest and the largest element.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        `(min(a, axis, keepdims), max(a, axis, keepdims))`

    Example:
        `low, high = mx.minmax(x)`
    """
    strict(a, "minmax")
    return min(a, axis, keepdims), max(a, axis, keepdims)


def _var_aval(a: Aval, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Aval:
    return aval(reduced(a.shape, axes, keepdims), _spread(a.dtype))


def _var_of_any(x: Any, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    x = jnp.asarray(x)
    return _var(x.astype(jnp.float32) if x.dtype.kind in "biu" else x, axes, keepdims, ddof)


_VAR = op("var", _var_of_any, _var_aval, ("axes", "keepdims", "ddof"))
_STD = op("std", lambda x, **params: lax.sqrt(_var_of_any(x, **params)), _var_aval, ("axes", "keepdims", "ddof"))


def var(a: array, /, axis: Any = None, keepdims: bool = False, ddof: int = 0, *, stream: Any = None) -> array:
    """The variance of the elements.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        ddof: the divisor is the number of elements minus this.
        stream: accepted, and ignored.

    Returns:
        An array without the reduced axes, of the dtype of `a`; float32 for integers, bools and complex numbers.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice.

    Example:
        `mx.var(x, axis=0, ddof=1)`
    """
    node = strict(a, "var")
    return wrap(apply(_VAR, (node,), (axes_of(axis, node.aval.ndim), bool(keepdims), index(ddof))))


def std(a: array, /, axis: Any = None, keepdims: bool = False, ddof: int = 0, *, stream: Any = None) -> array:
    """The standard deviation of the elements: the square root of `var`, which see.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        ddof: the divisor is the number of elements minus this.
        stream: accepted, and ignored.

    Returns:
        An array without the reduced axes, of the dtype of `a`; float32 for integers, bools and complex numbers.

    Example:
        `mx.std(x, axis=0, ddof=1)`
    """
    node = strict(a, "std")
    return wrap(apply(_STD, (node,), (axes_of(axis, node.aval.ndim), bool(keepdims), index(ddof))))


def _count(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return jnp.sum(_truth(jnp.asarray(x)), axis=axes, keepdims=keepdims, dtype=jnp.int32)


_COUNT = op("count_nonzero", _count, lambda a, axes, keepdims: aval(reduced(a.shape, axes, keepdims), avals.int32),
            ("axes", "keepdims"))  # fmt: skip


def count_nonzero(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
    """How many elements are not 0.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        An int32 array without the reduced axes.

    Example:
        `mx.count_nonzero(x, axis=0)`
    """
    node = strict(a, "count_nonzero")
    return wrap(apply(_COUNT, (node,), (axes_of(axis, node.aval.ndim), bool(keepdims))))


def _median(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    kept = [k for k in range(x.ndim) if k not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[k] for k in kept), _size(x, axes))
    ordered = jnp.sort(rows, axis=-1)
    n = ordered.shape[-1]
    low, high = ordered[..., (n - 1) // 2], ordered[..., n // 2]
    middle = wide(low) if n % 2 else (wide(low) + wide(high)) * 0.5
    out = jnp.where(jnp.any(rows != rows, axis=-1), jnp.asarray(math.nan, middle.dtype), middle)
    return out.reshape(reduced(x.shape, axes, keepdims)).astype(x.dtype)


def _no_empty_median(a: Aval, axes: tuple[int, ...]) -> None:
    if not math.prod(a.shape[k] for k in axes):
        raise ValueError("[median] Cannot take median along empty axis.")


_MEDIAN = _record("median", _median, as_float, _no_empty_median)


def median(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
    """The median of the elements: the middle one, or the mean of the two in the middle; NaN if there is one.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        An array without the reduced axes, of the dtype of `a`, float32 instead of an integer or bool.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or there are no elements to take the median of.

    Example:
        `mx.median(x, axis=1)`
    """
    node = strict(a, "median")
    ndim = node.aval.ndim
    given = [] if axis is None else list(axis) if isinstance(axis, (list, tuple)) else [axis]
    for k in given:
        if not -ndim <= index(k) < ndim:
            raise IndexError(f"[median] axis {index(k)} is out of bounds for array with {ndim} dimensions.")
    if len({index(k) % ndim for k in given}) < len(given):
        raise ValueError("[median] Received duplicate axis.")
    if axis is not None and not given:
        raise ValueError("[flatten] start_axis must be less than or equal to end_axis")
    return wrap(apply(_MEDIAN, (node,), (axes_of(axis, ndim), bool(keepdims))))


def _arg_extreme(find: Callable[..., Any], reduce: Callable[..., Any]) -> Callable[..., Any]:
    def impl(x: Any, axis: int | None, keepdims: bool) -> Any:
        x = jnp.asarray(x)
        shape = x.shape
        if axis is None:
            x = x.reshape(-1)
        k = axis or 0
        if x.dtype.kind == "c":
            re, im = lax.real(x), lax.imag(x)
            best = re == reduce(re, axis=k, keepdims=True)
            im = jnp.where(best, im, -reduce(jnp.asarray([-math.inf, math.inf], im.dtype)))
            x = jnp.where(x != x, jnp.asarray(math.nan, im.dtype), im)
        out = find(x.astype(jnp.uint8) if x.dtype == bool else x, axis=k).astype(jnp.uint32)
        if not keepdims:
            return out
        return out.reshape(tuple([1 if axis is None or j == axis else n for j, n in enumerate(shape)]))

    return impl


def _arg_infer(name: str) -> Callable[..., Aval]:
    def infer(a: Aval, axis: int | None, keepdims: bool) -> Aval:
        axes = tuple(range(a.ndim)) if axis is None else (axis,)
        return aval(reduced(a.shape, axes, keepdims), avals.uint32)

    return infer


_PARAMS = ("axis", "keepdims")
_ARGMAX = op("argmax", _arg_extreme(jnp.argmax, jnp.max), _arg_infer("argmax"), _PARAMS)
_ARGMIN = op("argmin", _arg_extreme(jnp.argmin, jnp.min), _arg_infer("argmin"), _PARAMS)


def _argument(record: Op, which: str) -> Callable[..., array]:
    name = record.name

    def function(a: array, /, axis: int | None = None, keepdims: bool = False, *, stream: Any = None) -> array:
        node = strict(a, name)
        if node.aval.size == 0:
            raise ValueError(f"[{name}] Cannot {name} reduce zero size array.")
        k = None if axis is None else axis_of(axis, node.aval.ndim)
        return wrap(apply(record, (node,), (k, bool(keepdims))))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The index of the {which} element: the first, if several are equal; of the first NaN, if any.

Args:
    a: an array, of any shape.
    axis: the axis to search along; None to search the flattened array.
    keepdims: whether to keep reduced axes, with size 1.
    stream: accepted, and ignored.

Returns:
    A uint32 array without the axis searched.

Raises:
    IndexError: if the axis is out of range.
    ValueError: if `a` is empty.

Example:
    `mx.{name}(logits, axis=-1)`
"""
    return function


argmax = _argument(_ARGMAX, "largest")
argmin = _argument(_ARGMIN, "smallest")
