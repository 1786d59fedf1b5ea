"""Elementwise ops of one array: one record each, and the public function that `unary` makes from it.

The implementation in a record is the JAX function if that agrees with MLX; otherwise it is defined above the table.
Derivatives are JAX's. Ops of two arrays are in `arithmetic`, `comparison` and `bitwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import truth
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Dtype
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax, lazy

from ..arguments import any_number, integer
from ..define import SAMPLES, Sample, as_bool, as_float, op, same, unary
from .complex_by_xla import (
    abs_by_xla,
    acos_by_xla,
    acosh_by_xla,
    asin_by_xla,
    asinh_by_xla,
    atan_by_xla,
    atanh_by_xla,
    exp_by_xla,
    sqrt_by_xla,
)  # fmt: skip
from .erf import erf_by_xla, erfinv_by_xla
from .exponential import cosh_by_xla, expm1_by_xla, sinh_by_xla
from .logarithm import log2_by_xla, log10_by_xla
from .quotient import quotient
from .slopes import with_slope

__all__ = [
    "abs",
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "degrees",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "nan_to_num",
    "negative",
    "positive",
    "radians",
    "real",
    "reciprocal",
    "round",
    "rounding_factors",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip

_STEPS = Sample(smooth=False)
_POSITIVE = Sample(0.1, 4.0)
_UNIT = Sample(-0.9, 0.9, kinds="bfc")


def _real_part(dtype: Dtype) -> Dtype:
    return avals.float32 if dtype._kind == "c" else dtype


def _of_inexact(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `function` for inexact numbers; integers and bools stay unchanged."""
    return lambda x: function(x) if jnp.issubdtype(x.dtype, jnp.inexact) else x


def _of_complex(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `function` for complex numbers; real numbers stay unchanged."""
    return lambda x: function(x) if x.dtype.kind == "c" else x


def _abs(x: Any) -> Any:
    kind = x.dtype.kind
    if kind in "bu":
        return x
    if kind in "ic":
        return abs_by_xla(x)
    return _real_abs(x)


@lazy.custom_jvp
def _real_abs(x: Any) -> Any:
    return lax.abs(x)


@_real_abs.defjvp
def _real_abs_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use the derivative 0 at 0 and at NaN."""
    return _real_abs(*primals), tangents[0] * _sign(*primals)


def _sign(x: Any) -> Any:
    kind = x.dtype.kind
    if kind == "b":
        return x
    if kind in "iu":
        return lax.sign(x)
    if kind == "c":
        return _direction(lax.stop_gradient(x))
    return jnp.where(lax.abs(x) > 0, lax.sign(x), jnp.zeros((), x.dtype))  # as in MLX, the sign of NaN and of -0.0 is 0


def _direction(z: Any) -> Any:
    """Return z/|z|: 0 for 0, and NaN in both parts for an infinite or NaN number."""
    size = lax.abs(z)
    unit = lax.complex(lax.real(z) / size, lax.imag(z) / size)
    return jnp.where(z == 0, z, jnp.where(size < math.inf, unit, jnp.asarray(complex(math.nan, math.nan), z.dtype)))


def _round(x: Any) -> Any:
    if x.dtype.kind == "c":
        return lax.complex(_round(lax.real(x)), _round(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _times(factor: float) -> Callable[[Any], Any]:
    def impl(x: Any) -> Any:
        if x.dtype.kind != "c":
            return x * jnp.asarray(factor, x.dtype)
        re, im = lax.real(x), lax.imag(x)  # multiply by factor + 0j as MLX does: infinity times 0 is NaN
        scaled = lax.complex(factor * re - 0.0 * im, factor * im + 0.0 * re)
        lost = (lax.real(scaled) != lax.real(scaled)) & (lax.imag(scaled) != lax.imag(scaled))
        return jnp.where(lost, lax.complex(*(jnp.where(lax.abs(p) == math.inf, p, math.nan) for p in (re, im))), scaled)

    return impl


def _imag(x: Any) -> Any:
    return lax.imag(x) if x.dtype.kind == "c" else jnp.zeros_like(x)


def _is_infinite(sign: float) -> Callable[[Any], Any]:
    def impl(x: Any) -> Any:
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            return jnp.zeros(x.shape, bool)
        return x == jnp.asarray(sign * math.inf, x.dtype)

    return impl


def _near_edges(function: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return `function` with MLX's derivative, `slope(1, x * x)`.

    The square is rounded, which matters near the ends of the domain. The maximum keeps XLA from computing the square
    and the difference with a single rounding.
    """

    def at(x: Any) -> Any:
        return slope(jnp.ones((), x.dtype), jnp.maximum(x * x, jnp.zeros((), x.dtype)))

    real = with_slope(function, at)
    return lambda x: function(x) if x.dtype.kind == "c" else real(x)


def _odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `function` of abs(x) with the sign of x, for real numbers: exactly odd, like MLX's functions.

    JAX's functions are made from asymmetric ones (`expm1`, `log1p`), and round differently for x and -x.
    """
    return lambda x: function(x) if x.dtype.kind == "c" else jnp.copysign(function(lax.abs(x)), x)


abs = unary("abs", _abs, _real_part, "Return the absolute value of each element.")
sign = unary("sign", _sign, same, "Return -1, 0 or 1 by the sign of each element, 0 for NaN; z/|z| for complex ones.",
             sample=_STEPS)  # fmt: skip
positive = unary("positive", lambda x: x, same, "Return each element as it is.", arrays_only=True)
negative = unary("negative", lazy.lax.neg, same, "Return each element with the opposite sign.", not_for="b",
                 message="Not supported for bool, use logical_not instead.")  # fmt: skip
square = unary("square", lambda x: x & x if x.dtype.kind == "b" else x * x, same, "Return the square of each element.")
sqrt = unary("sqrt", sqrt_by_xla, as_float, "Return the square root of each element.", sample=_POSITIVE)
rsqrt = unary("rsqrt", lazy.lax.rsqrt, as_float, "Return one over the square root of each element.", sample=_POSITIVE)
reciprocal = unary("reciprocal", lambda x: quotient(jnp.ones((), x.dtype), x), as_float,
                   "Return one over each element.", sample=_POSITIVE)  # fmt: skip
exp = unary("exp", exp_by_xla, as_float, "Return the exponential of each element.")
expm1 = unary("expm1", expm1_by_xla, as_float, "Return exp(x) - 1 of each element, precise near 0.", not_for="c")
erf = unary("erf", erf_by_xla, as_float, "Return the error function of each element.", not_for="c")
erfinv = unary(
    "erfinv", erfinv_by_xla, as_float, "Return the inverse of `erf`, of each element.", not_for="c", sample=_UNIT
)
sin = unary("sin", lazy.lax.sin, as_float, "Return the sine of each element.")
cos = unary("cos", lazy.lax.cos, as_float, "Return the cosine of each element.")
tan = unary("tan", lazy.lax.tan, as_float, "Return the tangent of each element.", sample=Sample(-1.2, 1.2))
arcsin = unary("arcsin", _near_edges(asin_by_xla, lambda one, square: lax.rsqrt(one - square)), as_float,
               "Return the inverse sine of each element.", sample=_UNIT)  # fmt: skip
arccos = unary("arccos", _near_edges(acos_by_xla, lambda one, square: -lax.rsqrt(one - square)), as_float,
               "Return the inverse cosine of each element.", sample=_UNIT)  # fmt: skip
arctan = unary("arctan", atan_by_xla, as_float, "Return the inverse tangent of each element.", sample=Sample(-0.9, 0.9))
sinh = unary("sinh", sinh_by_xla, as_float, "Return the hyperbolic sine of each element.")
cosh = unary("cosh", cosh_by_xla, as_float, "Return the hyperbolic cosine of each element.")
tanh = unary("tanh", lazy.lax.tanh, as_float, "Return the hyperbolic tangent of each element.")
arcsinh = unary("arcsinh", asinh_by_xla, as_float, "Return the inverse hyperbolic sine of each element.")
arccosh = unary("arccosh", _near_edges(acosh_by_xla, lambda one, square: lax.rsqrt(square - one)), as_float,
                "Return the inverse hyperbolic cosine of each element.", sample=Sample(1.1, 4.0))  # fmt: skip
arctanh = unary("arctanh", _near_edges(_odd(atanh_by_xla), lambda one, square: quotient(one, one - square)), as_float,
                "Return the inverse hyperbolic tangent of each element.", sample=_UNIT)  # fmt: skip
degrees = unary("degrees", _times(180 / math.pi), as_float, "Return each element, from radians to degrees.",
                in_float32=False)  # fmt: skip
radians = unary("radians", _times(math.pi / 180), as_float, "Return each element, from degrees to radians.",
                in_float32=False)  # fmt: skip
log = unary("log", lazy.lax.log, as_float, "Return the natural logarithm of each element.", sample=_POSITIVE)
log2 = unary("log2", log2_by_xla, as_float, "Return the logarithm to base 2 of each element.", sample=_POSITIVE)
log10 = unary("log10", log10_by_xla, as_float, "Return the logarithm to base 10 of each element.", sample=_POSITIVE)
log1p = unary("log1p", lazy.lax.log1p, as_float, "Return log(1 + x) of each element, precise near 0.", sample=_POSITIVE)
sigmoid = unary("sigmoid", lazy.lax.logistic, as_float, "Return 1 / (1 + exp(-x)) of each element.", not_for="c")
trunc = unary("trunc", _of_inexact(lazy.numpy.trunc), same, "Return each element rounded towards 0.", not_for="c",
              sample=_STEPS, arrays_only=True)  # fmt: skip
floor = unary(
    "floor", _of_inexact(lazy.lax.floor), same, "Return each element rounded down.", not_for="c", sample=_STEPS
)
ceil = unary("ceil", _of_inexact(lazy.lax.ceil), same, "Return each element rounded up.", not_for="c", sample=_STEPS)
logical_not = unary("logical_not", lambda x: ~truth(x), as_bool, "Return whether each element is 0.", sample=_STEPS)
isnan = unary("isnan", lambda x: x != x, as_bool, "Return whether each element is NaN.", sample=_STEPS)
isinf = unary("isinf", lazy.numpy.isinf, as_bool, "Return whether each element is infinite.", sample=_STEPS)
isfinite = unary(
    "isfinite", lazy.numpy.isfinite, as_bool, "Return whether each element is neither infinite nor NaN.", sample=_STEPS
)
isposinf = unary("isposinf", _is_infinite(1.0), as_bool, "Return whether each element is +infinity.", sample=_STEPS)
isneginf = unary("isneginf", _is_infinite(-1.0), as_bool, "Return whether each element is -infinity.", sample=_STEPS)
real = unary("real", _of_complex(lazy.lax.real), _real_part, "Return the real part of each element.")
imag = unary("imag", _imag, _real_part, "Return the imaginary part of each element.")
conj = unary("conj", _of_complex(lazy.lax.conj), same, "Return the complex conjugate of each element.")

acos = arccos
acosh = arccosh
asin = arcsin
asinh = arcsinh
atan = arctan
atanh = arctanh
conjugate = conj


def rounding_factors(decimals: int) -> tuple[np.float32, np.float32]:
    """Return the factors before and after rounding. MLX multiplies instead of dividing, and its digits depend on
    that."""
    with np.errstate(all="ignore"):
        up = np.float32(f"1e{decimals}")
        return up, np.float32(1) / up


def _round_to(x: Any, decimals: int) -> Any:
    x = jnp.asarray(x)
    dtype = x.dtype
    if dtype.kind in "biu":
        if decimals >= 0:
            return x
        x = x.astype(np.float32)
    if decimals == 0:
        return _round(x)
    up, down = (jnp.asarray(factor, x.dtype) for factor in rounding_factors(decimals))
    out = _round(x * up) * down
    return out.astype(dtype) if dtype.kind != "b" else out != 0


_ROUND = op("round", _round_to, lambda a, decimals: a, ("decimals",))
SAMPLES["round"] = _STEPS


def round(a: Any, /, decimals: int = 0, stream: Any = None) -> array:
    """Return each element rounded to a number of decimals. Halves are rounded to even.

    Args:
        a: an array or a number, of any shape.
        decimals: the number of decimals; may be negative.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and the dtype of `a`.

    Raises:
        TypeError: if `decimals` is not an integer.

    Example:
        >>> mx.round(mx.array([1.25, 2.75]), 1)
        array([1.2, 2.8], dtype=float32)
    """
    check_stream(stream)
    places = integer(decimals)
    return wrap(apply(_ROUND, (operands.node(a),), (places,)))


def _replace_nonfinite(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    x = jnp.asarray(x)
    if x.dtype.kind in "biu":
        return x
    nan, posinf, neginf = (jnp.asarray(v, x.dtype) for v in (nan, posinf, neginf))
    out = jnp.where(x != x, nan, x)
    out = jnp.where(x == jnp.asarray(math.inf, x.dtype), posinf, out)
    return jnp.where(x == jnp.asarray(-math.inf, x.dtype), neginf, out)


_NAN_TO_NUM = op("nan_to_num", _replace_nonfinite, lambda a, *_: a)


def nan_to_num(
    a: Any, nan: float = 0, posinf: float | None = None, neginf: float | None = None, *, stream: Any = None
) -> array:
    """Replace NaN and infinities by finite numbers.

    Args:
        a: an array or a number, of any shape.
        nan: the value for NaN.
        posinf: the value for +infinity; by default the largest number of the dtype.
        neginf: the value for -infinity; by default the lowest number of the dtype.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and the dtype of `a`.

    Raises:
        ValueError: if `a` is float64 or complex64, and `posinf` or `neginf` is not given, as in MLX.

    Example:
        >>> mx.nan_to_num(mx.array([1.0, float("nan")]))
        array([1, 0], dtype=float32)
    """
    check_stream(stream)
    x = operands.node(a)
    dtype = x.aval.dtype
    bounds = [v if v is None else any_number(v, "nan_to_num", "posinf, neginf") for v in (posinf, neginf)]
    fill = any_number(nan, "nan_to_num", "nan")
    if (posinf is None or neginf is None) and (dtype._kind == "c" or dtype is avals.float64):
        raise ValueError(f"[nan_to_num] Does not yet support given type: {dtype._label}.")
    if dtype._kind != "f":
        dtype = avals.float32
    largest = float(jnp.finfo(dtype._numpy).max)
    limits = [limit if v is None else v for v, limit in zip(bounds, (largest, -largest), strict=True)]
    return wrap(apply(_NAN_TO_NUM, (x, *(operands.scalar_node(v, dtype) for v in (fill, *limits)))))
