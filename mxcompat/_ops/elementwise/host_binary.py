"""Host rules of the elementwise ops of two or more arrays. See `rules.HOST`.

Operands of different dtypes are cast as the lowering casts them. Usually the dtypes are equal, and each op is one ufunc
or a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.policy import TILED_BYTES
from mxcompat._graph.run.layout import combined

from ..define import TABLE
from . import arithmetic, bitwise, comparison, host_complex, host_precise  # noqa: F401  # records, in TABLE
from .select import select

__all__ = ["larger", "real_power"]

Ufunc = Callable[[Any, Any], Any]

_FLOAT32 = np.dtype(np.float32)


def _in_result(function: Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op that computes in the dtype of its result."""
    of_large = partial(combined, function, in_place=isinstance(function, np.ufunc))

    def rule(out: Aval, params: tuple, x: Any, y: Any) -> Any:
        dtype = out.dtype
        numpy = dtype._numpy
        if x.dtype is not numpy:
            x = converted_on_host(x, dtype)
        if y.dtype is not numpy:
            y = converted_on_host(y, dtype)
        return function(x, y) if out.nbytes < TILED_BYTES else of_large(x, y)

    return rule


def _in_floats(function: Ufunc) -> Callable[..., Any]:
    """Return a version of a rule that computes half precision in float32."""
    rule = _in_result(function)

    def wide(out: Aval, params: tuple, x: Any, y: Any) -> Any:
        if out.dtype._kind != "f" or out.dtype.size != 2:
            return rule(out, params, x, y)
        x, y = converted_on_host(x, out.dtype), converted_on_host(y, out.dtype)
        return function(x.astype(_FLOAT32), y.astype(_FLOAT32)).astype(out.dtype._numpy)

    return wide


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the operands in their promoted dtype."""
    if x.dtype == y.dtype:
        return x, y
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]
    return converted_on_host(x, dtype), converted_on_host(y, dtype)


def _comparison(function: Ufunc) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = _alike(x, y)
        if out.size < TILED_BYTES:
            return function(x, y)
        return combined(function, *_readable(x, y))

    return rule


def _readable(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the operands, in float32 if NumPy is several times slower in their dtype: bfloat16, and float16 that
    broadcasts."""
    if x.dtype.kind == "V" or (x.dtype == np.float16 and x.shape != y.shape):
        return x.astype(_FLOAT32), y.astype(_FLOAT32)
    return x, y


def _extreme(function: Ufunc, is_first: Ufunc) -> Ufunc:
    """Return a function that computes the larger or smaller of two elements, or NaN if one is NaN."""

    def of_two(x: Any, y: Any) -> Any:
        if x.dtype.kind == "c":
            return np.where((larger(x, y) if is_first is np.greater_equal else larger(y, x)) | (x != x), x, y)
        a, b = _readable(x, y) if max(x.size, y.size) >= TILED_BYTES else (x, y)
        return function(x, y) if a is x else select(is_first(a, b) | (a != a), x, y)

    return of_two


def _of_kinds(kinds: str, special: Ufunc, function: Ufunc) -> Ufunc:
    """Return a function that is `special` for operands whose NumPy dtypes have one of these kinds, and `function` for
    others."""
    return lambda x, y: special(x, y) if x.dtype.kind in kinds else function(x, y)


def larger(x: Any, y: Any) -> Any:
    """Return a mask of the elements where x is larger than y. Complex numbers are ordered by their real part, then by
    their imaginary part."""
    if x.dtype.kind == "c":
        return (x.real > y.real) | ((x.real == y.real) & (x.imag > y.imag))
    return x > y


def _at_least(x: Any, y: Any) -> Any:
    return (x.real > y.real) | ((x.real == y.real) & (x.imag >= y.imag))


def _floor_divide(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind in "iu":
        return np.floor_divide(x, y)  # in MLX, n // 0 is 0
    if kind == "b":
        return x & y
    return host_complex.quotient(x, y) if kind == "c" else np.floor(x / y)


def _remainder(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind in "iu":
        rest = np.remainder(x, y)
        return rest if y.all() else np.where(y == 0, x, rest)
    if kind == "b":
        return x & ~y
    rest = np.fmod(x, y)
    wrong = (rest != 0) & ((rest < 0) != (y < 0))
    return select(wrong, rest + y, rest)


def real_power(x: Any, y: Any) -> Any:
    """Return powers of floats, with special cases for a single exponent.

    For the exponent 0.5, NumPy uses the square root, which is NaN at -inf and -0.0 at -0.0. For whole exponents, NumPy
    is a hundred times slower with a negative base than with its absolute value.
    """
    if y.size != 1:
        return host_precise.power(x, y)
    if y.ndim == 0 and y == 2:
        return x * x
    if y.ndim == 0 and isinstance(x, np.ndarray) and y == np.floor(y):
        power = host_precise.power(np.abs(x), y)
        return np.copysign(power, x) if y % 2 == 1 else power
    if not (y == 0.5).all():
        return host_precise.power(x, y)
    return np.where((x == 0) | (x == -np.inf), np.abs(x), np.sqrt(x) if y.ndim == 0 else host_precise.power(x, y))


def _power(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind == "f":
        return real_power(x, y)
    if kind == "c":
        return host_complex.power(x, y)
    if kind == "b":
        return x | ~y
    if kind == "u":
        return np.power(x, y)
    return np.where(y < 0, x.dtype.type(0), np.power(x, np.maximum(y, y.dtype.type(0))))


def _logaddexp(x: Any, y: Any) -> Any:
    if x.dtype == np.float32:  # float64 has fast vector instructions, and is accurate enough
        a, b = x.astype(np.float64), y.astype(np.float64)
        high = np.maximum(a, b)
        # for two NaNs, `np.add` returns the first, but `+` does not
        total = np.add(high, np.log1p(np.exp(-np.abs(a - b)))).astype(x.dtype)
        infinite = np.isinf(high)
        return np.where(infinite, high.astype(x.dtype), total) if infinite.any() else total
    if x.dtype.kind != "c":
        return np.logaddexp(x, y)
    first = larger(x, y) | (x != x)
    high = np.where(first, x, y)
    low = np.where(larger(y, x) | (x != x), x, y)
    return np.where((low == -math.inf) | (high == math.inf), high, high + np.log1p(np.exp(low - high)))


def _shift(function: Ufunc) -> Ufunc:
    """Return a function that shifts integers. It widens types narrower than 32 bits, and takes the distance modulo the
    width."""

    def shifted(x: Any, y: Any) -> Any:
        dtype = x.dtype
        if dtype.itemsize < 4:
            x, y = x.astype(np.int32), y.astype(np.int32)
        return function(x, y & x.dtype.type(x.dtype.itemsize * 8 - 1)).astype(dtype, copy=False)

    return shifted


_IN_RESULT: dict[str, Ufunc] = {
    "add": np.add,
    "subtract": _of_kinds("b", np.bitwise_xor, np.subtract),
    "multiply": np.multiply,
    "floor_divide": _floor_divide,  # MLX rounds the quotient before it rounds it down
    "maximum": _extreme(np.maximum, np.greater_equal),
    "minimum": _extreme(np.minimum, np.less_equal),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": _shift(np.left_shift),
    "right_shift": _shift(np.right_shift),
}
_IN_FLOATS: dict[str, Ufunc] = {
    "remainder": _remainder,
    "power": _power,
    "logaddexp": _logaddexp,
    "arctan2": host_precise.arctan2,
}
_COMPARISONS: dict[str, Ufunc] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": _of_kinds("c", lambda x, y: larger(y, x), np.less),
    "less_equal": _of_kinds("c", lambda x, y: _at_least(y, x), np.less_equal),
    "greater": _of_kinds("c", larger, np.greater),
    "greater_equal": _of_kinds("c", _at_least, np.greater_equal),
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

for _factory, _table in ((_in_result, _IN_RESULT), (_in_floats, _IN_FLOATS), (_comparison, _COMPARISONS)):
    for _name, _function in _table.items():
        HOST.of(TABLE[_name])(_factory(_function))


_QUOTIENT, _COMPLEX_QUOTIENT = _in_result(np.divide), _in_result(host_complex.quotient)


@HOST.of(TABLE["divide"])
def _divide(out: Aval, params: tuple, x: Any, y: Any) -> Any:
    return (_COMPLEX_QUOTIENT if out.dtype._kind == "c" else _QUOTIENT)(out, params, x, y)


@HOST.of(TABLE["where"])
def _where(out: Aval, params: tuple, condition: Any, x: Any, y: Any) -> Any:
    if condition.dtype.kind != "b":
        condition = condition != 0
    numpy = out.dtype._numpy
    if x.dtype is not numpy:
        x = converted_on_host(x, out.dtype)
    if y.dtype is not numpy:
        y = converted_on_host(y, out.dtype)
    return select(condition, x, y)


@HOST.of(TABLE["array_equal"])
def _array_equal(out: Aval, params: tuple, x: Any, y: Any) -> Any:
    x, y = _alike(x, y)
    same = x == y
    if params[0]:
        same = same | ((x != x) & (y != y))
    return same.all()


@HOST.of(TABLE["isclose"])
def _isclose(out: Aval, params: tuple, x: Any, y: Any, rtol: Any, atol: Any) -> Any:
    x, y = _alike(x, y)
    kind = x.dtype.kind
    wide = np.dtype(np.float64) if x.dtype == np.float64 else _FLOAT32
    if kind == "b":
        return (x ^ y).astype(wide) <= atol + rtol * y.astype(wide)
    scale = atol + rtol * np.abs(y).astype(wide, copy=False)
    near = np.abs(x - y).astype(wide, copy=False) <= scale
    if kind in "iu":
        return near
    near = np.where(np.isfinite(x) & np.isfinite(y), near, x == y)
    return near | ((x != x) & (y != y)) if params[0] else near


@HOST.of(TABLE["allclose"])
def _allclose(out: Aval, params: tuple, *inputs: Any) -> Any:
    return _isclose(out, params, *inputs).all()
