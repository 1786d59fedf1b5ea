"""Diagonals and triangles of matrices: extracted, made, summed or cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.construct import cast
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import any_integer, axis_of, integer, require_array, require_dtype
from ..define import op
from ..elementwise.by_bits import by_bits
from ..examples import example

__all__ = ["diag", "diagonal", "distance", "on_diagonal", "sum_dtype", "trace", "tril", "triu"]


def _planes(a: Aval, axis1: int, axis2: int, name: str) -> tuple[int, int]:
    """Return the two axes, counted from 0. Raises MLX's errors."""
    if a.ndim < 2:
        raise ValueError(f"[{name}] Array must have at least two dimensions, but got {a.ndim} dimensions.")
    first, second = (
        axis_of(axis, a.ndim, message=f"[{name}] Invalid {label} {{axis}} for array with {{ndim}} dimensions.")
        for label, axis in (("axis1", axis1), ("axis2", axis2))
    )
    if first == second:
        raise ValueError(f"[{name}] axis1 and axis2 cannot be the same axis")
    return first, second


def _length(rows: int, columns: int, offset: int) -> int:
    """Return the number of elements of a diagonal."""
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _diagonal_aval(a: Aval, offset: int, axis1: int, axis2: int, name: str = "diagonal") -> Aval:
    first, second = _planes(a, axis1, axis2, name)
    kept = tuple([n for k, n in enumerate(a.shape) if k not in (first, second)])
    return aval((*kept, _length(a.shape[first], a.shape[second], offset)), a.dtype)


def _diagonal_impl(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    x = jnp.moveaxis(jnp.asarray(x), (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    length = _length(rows, columns, offset)
    if length == 0:
        return jnp.zeros((*x.shape[:-2], 0), x.dtype)
    return jnp.diagonal(x, offset, -2, -1)


DIAGONAL = op("diagonal", by_bits(_diagonal_impl), _diagonal_aval, ("offset", "axis1", "axis2"))


def diagonal(a: array, offset: int = 0, axis1: int = 0, axis2: int = 1, stream: Any = None) -> array:
    """Return a diagonal of each matrix in an array.

    Args:
        a: an array of at least two dimensions.
        offset: the diagonal: above the main one if positive, below it if negative.
        axis1: the axis of the rows.
        axis2: the axis of the columns.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`. Its shape is that of `a` without the two axes, then the length of the diagonal.

    Raises:
        ValueError: if `a` has fewer than two dimensions, or the axes are the same.
        IndexError: if there is no such axis.

    Example:
        >>> mx.diagonal(mx.arange(6).reshape(2, 3))
        array([0, 4], dtype=int32)
    """
    check_stream(stream)
    return wrap(
        apply(DIAGONAL, (require_array(a, "diagonal"),), (integer(offset), any_integer(axis1), any_integer(axis2)))
    )


def _diag_aval(a: Aval, k: int) -> Aval:
    n = a.size + abs(k)
    return aval((n, n), a.dtype)


def _diag_impl(x: Any, k: int) -> Any:
    x = jnp.asarray(x)
    n = x.shape[0] + abs(k)
    # put each value at the index of its column
    values = jax.lax.pad(x, jnp.zeros((), x.dtype), [(max(0, k), max(0, -k), 0)])
    return jnp.where(on_diagonal((n, n), k), values, jnp.zeros((), x.dtype))


def on_diagonal(shape: tuple[int, ...], k: int) -> Any:
    return distance(shape) == jnp.int32(k)


def distance(shape: tuple[int, ...]) -> Any:
    """Return, for each element of a matrix, the number of the diagonal on which it lies."""
    rows, columns = (jax.lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
    return columns - rows


DIAG = op("diag", by_bits(_diag_impl), _diag_aval, ("k",))


def diag(a: array, /, k: int = 0, *, stream: Any = None) -> array:
    """Return the diagonal of a matrix, or a matrix with a given diagonal.

    Args:
        a: an array of one or two dimensions.
        k: the diagonal: above the main one if positive, below it if negative.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`. Its shape is (N + |k|, N + |k|) if `a` is (N,); otherwise it has one dimension.

    Raises:
        ValueError: for any other number of dimensions.

    Example:
        >>> mx.diag(mx.array([1, 2]), k=1)
        array([[0, 1, 0],
               [0, 0, 2],
               [0, 0, 0]], dtype=int32)
    """
    check_stream(stream)
    x, k = require_array(a, "diag"), integer(k)
    if x.aval.ndim == 1:
        return wrap(apply(DIAG, (x,), (k,)))
    if x.aval.ndim == 2:
        return wrap(apply(DIAGONAL, (x,), (k, 0, 1)))
    raise ValueError(f"[diag] array must be 1-D or 2-D, got array with {x.aval.ndim} dimensions.")


def sum_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of a sum: integers of fewer than 32 bits, and bool, are summed in 32 bits."""
    if dtype._kind in "biu" and dtype.size < 4:
        return _d.uint32 if dtype._kind == "u" else _d.int32
    return dtype


def _trace_aval(a: Aval, offset: int, axis1: int, axis2: int) -> Aval:
    return aval(_diagonal_aval(a, offset, axis1, axis2, "trace").shape[:-1], sum_dtype(a.dtype))


def _trace_impl(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    want = sum_dtype(_d.from_numpy(x.dtype))._numpy  # type: ignore[arg-type]
    half = want.itemsize == 2  # half precision is summed in float32; sums of integers have at least 32 bits
    total = jnp.sum(_diagonal_impl(x, offset, axis1, axis2), axis=-1, dtype=jnp.float32 if half else want)
    return total.astype(want)


TRACE = op("trace", _trace_impl, _trace_aval, ("offset", "axis1", "axis2"))


def trace(
    a: array, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Dtype | None = None, *, stream: Any = None
) -> array:
    """Return the sum along a diagonal of each matrix in an array.

    Args:
        a: an array of at least two dimensions.
        offset: the diagonal: above the main one if positive, below it if negative.
        axis1: the axis of the rows.
        axis2: the axis of the columns.
        dtype: the dtype to cast to before the sum; None for that of `a`. Integers of fewer than 32 bits, and bool, are
            summed in 32 bits.
        stream: accepted, and ignored.

    Returns:
        An array with the shape of `a` without the two axes.

    Raises:
        ValueError: if `a` has fewer than two dimensions, or the axes are the same.
        IndexError: if there is no such axis.

    Example:
        >>> mx.trace(mx.eye(3))
        array(3, dtype=float32)
    """
    check_stream(stream)
    x = cast(require_array(a, "trace"), None if dtype is None else require_dtype(dtype, "trace"))
    return wrap(apply(TRACE, (x,), (integer(offset), any_integer(axis1), any_integer(axis2))))


def _triangle_aval(a: Aval, k: int, upper: bool) -> Aval:
    if a.ndim < 2:
        raise ValueError(f"[{'triu' if upper else 'tril'}] array must be at least 2-D")
    return a


def _triangle_impl(x: Any, k: int, upper: bool) -> Any:
    x = jnp.asarray(x)
    places = distance(x.shape[-2:])
    kept = places >= jnp.int32(k) if upper else places <= jnp.int32(k)
    return jnp.where(kept, x, jnp.zeros((), x.dtype))


TRIANGLE = op("triangle", by_bits(_triangle_impl), _triangle_aval, ("k", "upper"))


def _triangle(name: str, which: str, other: str, end: str) -> Callable[..., array]:
    """Make the public function `tril` or `triu`."""
    upper = name == "triu"

    def function(x: array, k: int = 0, *, stream: Any = None) -> array:
        check_stream(stream)
        return wrap(apply(TRIANGLE, (require_array(x, name),), (integer(k), upper)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return the {which} triangle of each matrix in an array; zero {other}.

Args:
    x: an array of shape (..., M, N).
    k: the {end} diagonal that is kept: above the main one if positive, below if negative.
    stream: accepted, and ignored.

Returns:
    An array with the shape and dtype of `x`.

Raises:
    ValueError: if `x` has fewer than two dimensions.

Example:
{example(name)}
"""
    return function


tril = _triangle("tril", "lower", "above", "last")
triu = _triangle("triu", "upper", "below", "first")
