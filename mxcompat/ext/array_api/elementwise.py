"""Elementwise functions of the standard: those of `mlx.core` under the standard's names, and functions that differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat import core as mx
from mxcompat._jax import lazy
from mxcompat.core import array

from ..interop import jax_function

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip

Operand = array | bool | int | float | complex


def _described(function: Callable[..., array], name: str, doc: str | None) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, function: Callable[[array], array]) -> Callable[[array], array]:
    def unary(x: array, /) -> array:
        return function(x)

    return _described(unary, name, (function.__doc__ or "").partition("\n")[0])


def _binary(name: str, function: Callable[[Any, Any], array]) -> Callable[[Operand, Operand], array]:
    def binary(x1: Operand, x2: Operand, /) -> array:
        return function(x1, x2)

    return _described(binary, name, (function.__doc__ or "").partition("\n")[0])


abs = _unary("abs", mx.abs)
acos = _unary("acos", mx.arccos)
acosh = _unary("acosh", mx.arccosh)
add = _binary("add", mx.add)
asin = _unary("asin", mx.arcsin)
asinh = _unary("asinh", mx.arcsinh)
atan = _unary("atan", mx.arctan)
atan2 = _binary("atan2", mx.arctan2)
atanh = _unary("atanh", mx.arctanh)
bitwise_and = _binary("bitwise_and", mx.bitwise_and)
bitwise_invert = _unary("bitwise_invert", mx.bitwise_invert)
bitwise_left_shift = _binary("bitwise_left_shift", mx.left_shift)
bitwise_or = _binary("bitwise_or", mx.bitwise_or)
bitwise_right_shift = _binary("bitwise_right_shift", mx.right_shift)
bitwise_xor = _binary("bitwise_xor", mx.bitwise_xor)
ceil = _unary("ceil", mx.ceil)
conj = _unary("conj", mx.conj)
cos = _unary("cos", mx.cos)
cosh = _unary("cosh", mx.cosh)
divide = _binary("divide", mx.divide)
equal = _binary("equal", mx.equal)
exp = _unary("exp", mx.exp)
floor = _unary("floor", mx.floor)
greater = _binary("greater", mx.greater)
greater_equal = _binary("greater_equal", mx.greater_equal)
imag = _unary("imag", mx.imag)
isfinite = _unary("isfinite", mx.isfinite)
isinf = _unary("isinf", mx.isinf)
isnan = _unary("isnan", mx.isnan)
less = _binary("less", mx.less)
less_equal = _binary("less_equal", mx.less_equal)
log = _unary("log", mx.log)
log10 = _unary("log10", mx.log10)
log2 = _unary("log2", mx.log2)
logaddexp = _binary("logaddexp", mx.logaddexp)
logical_and = _binary("logical_and", mx.logical_and)
logical_not = _unary("logical_not", mx.logical_not)
logical_or = _binary("logical_or", mx.logical_or)
logical_xor = _binary("logical_xor", mx.logical_xor)
maximum = _binary("maximum", mx.maximum)
minimum = _binary("minimum", mx.minimum)
multiply = _binary("multiply", mx.multiply)
negative = _unary("negative", mx.negative)
positive = _unary("positive", mx.positive)
not_equal = _binary("not_equal", mx.not_equal)
pow = _binary("pow", mx.power)
real = _unary("real", mx.real)
reciprocal = _unary("reciprocal", mx.reciprocal)
round = _unary("round", mx.round)
sin = _unary("sin", mx.sin)
sinh = _unary("sinh", mx.sinh)
sqrt = _unary("sqrt", mx.sqrt)
square = _unary("square", mx.square)
subtract = _binary("subtract", mx.subtract)
tan = _unary("tan", mx.tan)
tanh = _unary("tanh", mx.tanh)
trunc = _unary("trunc", mx.trunc)

_complex = jax_function(lazy.lax.complex)
_complex_expm1 = jax_function(lazy.numpy.expm1)
_complex_log1p = jax_function(lazy.numpy.log1p)
_INTEGERS = {2: mx.int16, 4: mx.int32, 8: mx.int64}
"""The integer dtype with as many bytes as a float, for its bits."""


def _both(x1: Any, x2: Any) -> tuple[array, array]:
    """Convert two operands to arrays of one dtype: the array's dtype if one is a number, else the promoted dtype."""
    if not isinstance(x1, array):
        return mx.array(x1, x2.dtype), x2
    if not isinstance(x2, array):
        return x1, mx.array(x2, x1.dtype)
    dtype = mx.result_type(x1, x2)
    return x1.astype(dtype), x2.astype(dtype)


def _bits(x: array) -> array:
    """Return the bits of floats as integers, without derivative."""
    x = mx.stop_gradient(x)
    return mx.view(x[None] if x.ndim == 0 else x, _INTEGERS[x.itemsize]).reshape(x.shape)


def _float_of(bits: array, like: array) -> array:
    return mx.view(bits[None] if bits.ndim == 0 else bits, like.dtype).reshape(bits.shape)


def clip(x: array, /, min: Any = None, max: Any = None) -> array:
    """Limit the elements to the range from `min` to `max` (arrays, numbers or None). The result has the dtype of
    `x`."""
    if min is not None:
        x = mx.maximum(x, min if not isinstance(min, array) else min.astype(x.dtype)).astype(x.dtype)
    if max is not None:
        x = mx.minimum(x, max if not isinstance(max, array) else max.astype(x.dtype)).astype(x.dtype)
    return mx.array(x)


def copysign(x1: Operand, x2: Operand, /) -> array:
    """Return the magnitude of x1 with the sign of x2, also for zeros and NaN."""
    a, b = _both(x1, x2)
    size = mx.abs(a)
    return mx.where(signbit(b), -size, size)


def expm1(x: array, /) -> array:
    """Compute exp(x) - 1 for each element, precisely near 0."""
    if x.dtype != mx.complex64:
        return mx.expm1(x)
    below = signbit(mx.imag(x))  # use conj(expm1(x)) = expm1(conj(x)), which holds for -0.0, too
    result = _complex_expm1(mx.where(below, mx.conj(x), x))
    limit = mx.where(mx.real(x) > 0, _complex(mx.array(mx.inf), mx.array(mx.nan)), mx.array(-1 + 0j))
    # exp has this limit, whose direction is undefined
    result = mx.where(mx.isinf(mx.real(x)) & ~mx.isfinite(mx.imag(x)), limit, result)
    return mx.where(below, mx.conj(result), result)


def floor_divide(x1: Operand, x2: Operand, /) -> array:
    """Divide and round towards negative infinity, as Python does; for infinite operands return the limit."""
    a, b = _both(x1, x2)
    if not mx.issubdtype(a.dtype, mx.floating):
        return mx.floor_divide(a, b)
    whole = mx.round((a - remainder(a, b)) / b)
    opposite = mx.logical_and(a != 0, (a < 0) != (b < 0))
    at_infinity = mx.where(opposite, mx.array(-1, a.dtype), a / b)
    special = mx.where(mx.isinf(b) & mx.isfinite(a), at_infinity, mx.floor(a / b))
    ordinary = mx.isfinite(a) & mx.isfinite(b) & (b != 0) & (a != 0)
    return mx.where(ordinary, copysign(whole, mx.where((a < 0) == (b < 0), mx.array(1, a.dtype), -1)), special)


def hypot(x1: Operand, x2: Operand, /) -> array:
    """Compute sqrt(x1**2 + x2**2) without overflow of the squares."""
    a, b = map(mx.abs, _both(x1, x2))
    large, small = mx.maximum(a, b), mx.minimum(a, b)
    ratio = small / mx.where(large == 0, mx.array(1, a.dtype), large)
    infinite = mx.isinf(a) | mx.isinf(b)
    return mx.where(infinite, mx.array(mx.inf, a.dtype), large * mx.sqrt(1 + mx.where(infinite, 0, ratio) ** 2))


def log1p(x: array, /) -> array:
    """Compute log(1 + x) for each element, precisely near 0."""
    if x.dtype != mx.complex64:
        return mx.log1p(x)
    result = _complex_log1p(x)
    infinite = mx.isinf(mx.real(x)) | mx.isinf(mx.imag(x))  # the result is infinite even if the other part is NaN
    return mx.where(infinite, _complex(mx.full(x.shape, mx.inf), mx.imag(result)), result)


def nextafter(x1: Operand, x2: Operand, /) -> array:
    """Return the next float after x1 in the direction of x2."""
    a, b = _both(x1, x2)
    bits = _bits(a)
    one = mx.array(1, bits.dtype)
    step = mx.where((a < b) == (a > 0), one, -one)
    smallest = copysign(_float_of(mx.broadcast_to(one, a.shape), a), b)
    moved = mx.where(a == 0, smallest, _float_of(bits + step, a))
    return mx.where(mx.isnan(a) | mx.isnan(b), mx.array(mx.nan, a.dtype), mx.where(a == b, b, moved))


def remainder(x1: Operand, x2: Operand, /) -> array:
    """Return the remainder of x1 divided by x2, with the sign of x2."""
    a, b = _both(x1, x2)
    if not mx.issubdtype(a.dtype, mx.floating):
        return mx.remainder(a, b)
    result = mx.remainder(a, b)
    result = mx.where(result == 0, copysign(result, b), result)
    far = mx.where((a < 0) == (b < 0), a, b)
    return mx.where(mx.isinf(b) & mx.isfinite(a) & (a != 0), far, result)


def sign(x: array, /) -> array:
    """Return -1, 0 or 1 for negative, zero or positive numbers, NaN for NaN, and x / abs(x) for complex numbers."""
    if mx.issubdtype(x.dtype, mx.complexfloating):
        return mx.where(x == 0, mx.array(0, x.dtype), mx.sign(x))
    return mx.where(mx.isnan(x), x, mx.sign(x))


def signbit(x: array, /) -> array:
    """Return True for floats with a negative sign, including -0.0 and NaN."""
    return _bits(x) < 0
