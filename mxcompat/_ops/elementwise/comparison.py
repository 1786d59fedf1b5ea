"""Comparisons, logical ops, and tests of approximate equality. The results are bool.

Operands are compared in their promoted dtype. Complex numbers are compared by their real part, then by their imaginary
part.
"""

from __future__ import annotations

from typing import Any

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import truth
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp, lax

from ..arguments import any_number, flag, require_array
from ..define import Sample, as_bool, binary, broadcast, op

__all__ = [
    "allclose", "array_equal", "equal", "greater", "greater_equal", "isclose", "less", "less_equal",
    "logical_and", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip

_SAMPLE = Sample(-2.0, 2.0, smooth=False)


def _less(x: Any, y: Any) -> Any:
    if x.dtype.kind == "c":
        rx, ry = lax.real(x), lax.real(y)
        return (rx < ry) | ((rx == ry) & (lax.imag(x) < lax.imag(y)))
    return x < y


def _less_equal(x: Any, y: Any) -> Any:
    if x.dtype.kind == "c":
        rx, ry = lax.real(x), lax.real(y)
        return (rx < ry) | ((rx == ry) & (lax.imag(x) <= lax.imag(y)))
    return x <= y


def _comparison(name: str, impl: Any, summary: str) -> Any:
    return binary(name, impl, summary, as_bool, promote, sample=_SAMPLE)


def _logical(name: str, impl: Any, summary: str) -> Any:
    return binary(name, impl, summary, as_bool, promote, sample=_SAMPLE, positional=True, alone=True)


equal = _comparison("equal", lambda x, y: x == y, "Return whether the elements are equal.")
not_equal = _comparison("not_equal", lambda x, y: x != y, "Return whether the elements differ.")
less = _comparison("less", _less, "Return whether the first element is less than the second.")
less_equal = _comparison("less_equal", _less_equal, "Return whether the first element is at most the second.")
greater = _comparison(
    "greater", lambda x, y: _less(y, x), "Return whether the first element is greater than the second."
)
greater_equal = _comparison("greater_equal", lambda x, y: _less_equal(y, x),
                            "Return whether the first element is at least the second.")  # fmt: skip
logical_and = _logical("logical_and", lambda x, y: truth(x) & truth(y), "Return whether both are not 0.")
logical_or = _logical("logical_or", lambda x, y: truth(x) | truth(y), "Return whether one or both are not 0.")
logical_xor = _logical("logical_xor", lambda x, y: truth(x) ^ truth(y), "Return whether just one is not 0.")


def _array_equal(x: Any, y: Any, equal_nan: bool) -> Any:
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))._numpy  # type: ignore[arg-type]
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    same = x == y
    if equal_nan:
        same = same | ((x != x) & (y != y))
    return jnp.all(same)


_ARRAY_EQUAL = op("array_equal", _array_equal, lambda x, y, equal_nan: aval((), avals.bool_), ("equal_nan",))


def array_equal(a: Any, b: Any, equal_nan: bool = False, stream: Any = None) -> array:
    """Return whether two arrays have the same shape and the same elements. Dtypes may differ.

    Args:
        a: an array or a number.
        b: an array or a number.
        equal_nan: whether NaN equals NaN.
        stream: accepted, and ignored.

    Returns:
        A 0-d bool array.

    Example:
        >>> mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0]))
        array(True, dtype=bool)
    """
    check_stream(stream)
    flag(equal_nan, "array_equal", "equal_nan")
    x, y = operands.pair(a, b)
    if x.aval.shape != y.aval.shape:
        return wrap(operands.node(False))
    return wrap(apply(_ARRAY_EQUAL, (x, y), (equal_nan,)))


def _isclose(x: Any, y: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))._numpy  # type: ignore[arg-type]
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    if dtype.kind == "b":
        near = jnp.where(x ^ y, 1.0, 0.0) <= atol + rtol * jnp.where(y, 1.0, 0.0)
    else:
        scale = jnp.asarray(atol, jnp.float32) + jnp.asarray(rtol, jnp.float32) * jnp.abs(y)
        near = jnp.abs(x - y) <= scale
    if jnp.issubdtype(dtype, jnp.inexact):
        finite = jnp.isfinite(x) & jnp.isfinite(y)
        near = jnp.where(finite, near, x == y)
        if equal_nan:
            near = near | ((x != x) & (y != y))
    return near


def _isclose_aval(x: Aval, y: Aval, rtol: Aval, atol: Aval, equal_nan: bool) -> Aval:
    return aval(broadcast(x.shape, y.shape), avals.bool_)


_ISCLOSE = op("isclose", _isclose, _isclose_aval, ("equal_nan",))


def _allclose(x: Any, y: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    return jnp.all(_isclose(x, y, rtol, atol, equal_nan))


def _allclose_aval(x: Aval, y: Aval, rtol: Aval, atol: Aval, equal_nan: bool) -> Aval:
    broadcast(x.shape, y.shape)
    return aval((), avals.bool_)


_ALLCLOSE = op("allclose", _allclose, _allclose_aval, ("equal_nan",))


def _close_nodes(name: str, a: Any, b: Any, rtol: float, atol: float) -> tuple[Node, ...]:
    tolerances = [operands.scalar_node(any_number(t, name, "rtol, atol"), avals.float32) for t in (rtol, atol)]
    return (require_array(a, name), require_array(b, name), *tolerances)


def isclose(
    a: array, b: array, /, rtol: float = 1e-05, atol: float = 1e-08, *, equal_nan: bool = False, stream: Any = None
) -> array:
    """Return whether elements are nearly equal: |a - b| <= atol + rtol * |b|. An infinity is near only itself.

    Args:
        a: an array.
        b: an array. The operands broadcast against each other.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN is near NaN.
        stream: accepted, and ignored.

    Returns:
        A bool array with the broadcast shape of the operands.

    Raises:
        TypeError: if `a` or `b` is not an array.
        ValueError: if the shapes do not broadcast.

    Example:
        >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.0005, 2.1]), rtol=1e-3)
        array([True, False], dtype=bool)
    """
    check_stream(stream)
    flag(equal_nan, "isclose", "equal_nan")
    return wrap(apply(_ISCLOSE, _close_nodes("isclose", a, b, rtol, atol), (equal_nan,)))


def allclose(
    a: array, b: array, /, rtol: float = 1e-05, atol: float = 1e-08, *, equal_nan: bool = False, stream: Any = None
) -> array:
    """Return whether all elements are nearly equal: |a - b| <= atol + rtol * |b|.

    Args:
        a: an array.
        b: an array. The operands broadcast against each other.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN is near NaN.
        stream: accepted, and ignored.

    Returns:
        A 0-d bool array.

    Raises:
        TypeError: if `a` or `b` is not an array.
        ValueError: if the shapes do not broadcast.

    Example:
        >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.000001]))
        array(True, dtype=bool)
    """
    check_stream(stream)
    flag(equal_nan, "allclose", "equal_nan")
    return wrap(apply(_ALLCLOSE, _close_nodes("allclose", a, b, rtol, atol), (equal_nan,)))
