"""Rules of the elementwise ops of one array.

In NumPy, half precision is computed in float32 and rounded once. Most derivatives are slopes, dy/dx as a function of x
and y. They are JAX's derivatives, also where these differ from the textbook's (at kinks and poles).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, Dtype, bool_
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import (
    BATCH,
    HOST,
    PULLBACK,
    PUSHFORWARD,
    READS_INPUTS,
    READS_NOTHING,
    RESIDUALS,
    TANGENT_DTYPE,
    Residuals,
)
from mxcompat._graph.policy import BLOCK_ELEMENTS

from ..batching import batched_elementwise
from ..define import TABLE
from . import erf, host_complex, host_precise
from .host_log import log, log2
from .in_place import is_float, is_float32, is_number, is_wide_float, register_in_place
from .tangents import dtype_of_logical, dtype_of_result
from .unary import rounding_factors

__all__: list[str] = []

_Ufunc = Callable[[Any], Any]
_Slope = Callable[[Any, Any], Any]

_FLOAT32 = np.dtype(np.float32)
_READS_RESULT = Residuals(slice(0), True)


def _smooth(
    name: str, host: Callable[..., Any], slope: _Slope, reads: Residuals | None = None, forth: _Slope | None = None
) -> None:
    """Register the host rule and the derivatives of an op that has a slope.

    Args:
        reads: the values that the slope reads; None for argument and result.
        forth: the slope for forward mode, if MLX's forward and reverse modes use different formulas.
    """
    HOST.of(TABLE[name])(host)
    _slope_rules(name, slope, slope if forth is None else forth)
    if reads is not None:
        RESIDUALS[TABLE[name]] = reads


def _slope_rules(name: str, back: Callable[[Any, Any], Any], forth: Callable[[Any, Any], Any]) -> None:
    def slope_at(slope: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        if x.dtype.itemsize == 2:
            x = x.astype(np.float32)
            # XLA does not round the result of sigmoid first
            y = _sigmoid(x) if name == "sigmoid" else y.astype(np.float32)
        return slope(x, y)

    PULLBACK.of(TABLE[name])(lambda g, y, params, needs_grad, x: (g * slope_at(back, x, y),))
    PUSHFORWARD.of(TABLE[name])(lambda tangents, y, params, x: tangents[0] * slope_at(forth, x, y))


def _float_op(
    name: str, function: _Ufunc, slope: _Slope, reads: Residuals | None = None, forth: _Slope | None = None
) -> None:
    """Register the host rule and the derivatives of an op with a slope, whose result is float32 for integers."""
    _smooth(name, _in_floats(function), slope, reads, forth)


def _in_floats(function: _Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op that computes integers in float32."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        if x.dtype is _FLOAT32:
            return function(x)
        dtype = out.dtype
        if dtype.size == 2:
            return function(x.astype(_FLOAT32)).astype(dtype._numpy)
        return function(x if x.dtype == dtype._numpy else x.astype(dtype._numpy))

    return rule


def _reciprocal(x: Any) -> Any:
    return host_complex.reciprocal(x) if x.dtype.kind == "c" else np.reciprocal(x)


def _rsqrt(x: Any) -> Any:
    return _reciprocal(np.sqrt(x))


def _exp(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.exp(x)
    size = np.exp(x.real)
    result = np.empty(x.shape, x.dtype)
    result.real, result.imag = size * np.cos(x.imag), size * np.sin(x.imag)
    special = ~(np.isfinite(size) & np.isfinite(x.imag))
    if special.any():  # the exact result may be 0 where the product of infinity and 0 is NaN
        result[special] = np.exp(x[special])
    return result


def _log1p(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x)
    wide = x.astype(np.complex128)
    tiny = np.abs(wide) < 1e-5  # adding 1 to z would round z away
    more = np.array(wide)
    more.real += 1  # adding a complex 1 would lose the sign of an imaginary -0
    return np.where(tiny, wide - 0.5 * wide * wide, np.log(more)).astype(x.dtype)


def _arcsin(x: Any) -> Any:
    """Return the arcsine, with MLX's positive NaN outside the domain. With some processors, the NaN of `np.arcsin` is
    negative.

    A NaN among the arguments keeps its sign.
    """
    if x.dtype.kind == "c":
        return np.arcsin(x)
    return np.copysign(host_precise.arcsin(x), np.where(np.abs(x) > 1, x.dtype.type(1), x))


def _arccos(x: Any) -> Any:
    """Return the arccosine, with MLX's positive NaN outside the domain. No other result is negative.

    A NaN among the arguments keeps its sign.
    """
    if x.dtype.kind == "c":
        return np.arccos(x)
    return np.copysign(host_precise.arccos(x), np.maximum(x, x.dtype.type(1)))


def _sigmoid(x: Any) -> Any:
    return np.reciprocal(1 + np.exp(-x))


_float_op("sqrt", np.sqrt, lambda x, y: 0.5 / y, _READS_RESULT)
_float_op("rsqrt", _rsqrt, lambda x, y: -0.5 * (y / x))
_float_op("reciprocal", _reciprocal, lambda x, y: -(y * y), _READS_RESULT)
_float_op("update_reciprocal", _reciprocal, lambda x, y: -(y * y), _READS_RESULT)
_float_op("exp", _exp, lambda x, y: y, _READS_RESULT)
_float_op("expm1", np.expm1, lambda x, y: y + 1, _READS_RESULT, forth=lambda x, y: np.exp(x))
_float_op("sin", np.sin, lambda x, y: np.cos(x), READS_INPUTS)
_float_op("cos", np.cos, lambda x, y: -np.sin(x), READS_INPUTS)
_float_op("tan", host_precise.tan, lambda x, y: 1 + y * y, _READS_RESULT)
_float_op("arcsin", _arcsin, lambda x, y: 1 / np.sqrt(1 - x * x), READS_INPUTS)
_float_op("arccos", _arccos, lambda x, y: -1 / np.sqrt(1 - x * x), READS_INPUTS)
_float_op("arctan", host_precise.arctan, lambda x, y: 1 / (1 + x * x), READS_INPUTS)
_float_op("sinh", np.sinh, lambda x, y: np.cosh(x), READS_INPUTS)
_float_op("cosh", host_precise.cosh, lambda x, y: np.sinh(x), READS_INPUTS)
_float_op("tanh", np.tanh, lambda x, y: 1 - y * y, _READS_RESULT)
_float_op("arcsinh", np.arcsinh, lambda x, y: 1 / np.sqrt(x * x + 1), READS_INPUTS)
_float_op("arccosh", np.arccosh, lambda x, y: 1 / np.sqrt(x * x - 1), READS_INPUTS)
_float_op("arctanh", np.arctanh, lambda x, y: 1 / (1 - x * x), READS_INPUTS)
_float_op("log", log, lambda x, y: 1 / x, READS_INPUTS)
_float_op("log2", log2, lambda x, y: (1 / math.log(2)) / x, READS_INPUTS)
_float_op("log10", host_precise.log10, lambda x, y: (1 / math.log(10)) / x, READS_INPUTS)
_float_op("log1p", _log1p, lambda x, y: 1 / (1 + x), READS_INPUTS)
_float_op("sigmoid", _sigmoid, lambda x, y: y * (1 - y))


def _special(function: _Ufunc) -> Callable[..., Any]:
    floats = _in_floats(function)

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        return None if out.dtype.size == 8 and out.size > BLOCK_ELEMENTS else floats(out, params, x)

    return rule


_smooth("erf", _special(erf.erf), lambda x, y: (2 / math.sqrt(math.pi)) * np.exp(-(x * x)), READS_INPUTS)
_smooth("erfinv", _special(erf.erfinv), lambda x, y: (math.sqrt(math.pi) / 2) * np.exp(y * y), _READS_RESULT)


def _plain(function: _Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op for which NumPy has a ufunc for every dtype."""
    return lambda out, params, x: function(x)


def _wide(function: _Ufunc) -> _Ufunc:
    """Return a function of real numbers that computes bfloat16 in float32, since NumPy takes 5 times as long in
    bfloat16."""
    return lambda x: function(x.astype(_FLOAT32) if x.dtype.kind == "V" else x)


def _for_kinds(kinds: str, function: _Ufunc, other: _Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op that is `function` for NumPy dtypes of these kinds, and `other` for the rest.
    bfloat16 has kind "V"."""
    return lambda out, params, x: function(x) if x.dtype.kind in kinds else other(x)


def _itself(x: Any) -> Any:
    return x


def _times(factor: float) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any) -> Any:
        dtype = out.dtype._numpy
        if dtype.kind == "c":  # multiply by factor + 0j as in MLX, where infinity times 0 is NaN
            out = np.empty(x.shape, dtype)
            out.real = np.float32(factor) * x.real - np.float32(0) * x.imag
            out.imag = np.float32(factor) * x.imag + np.float32(0) * x.real
            lost = np.isnan(out.real) & np.isnan(out.imag)
            if lost.any():
                for part, of in ((out.real, x.real), (out.imag, x.imag)):
                    part[lost] = np.where(np.isinf(of), of, np.float32(np.nan))[lost]
            return out
        return (x if x.dtype == dtype else x.astype(dtype)) * dtype.type(factor)

    return rule


_smooth("square", _for_kinds("b", _itself, np.square), lambda x, y: x + x, READS_INPUTS)
_smooth("degrees", _times(180 / math.pi), lambda x, y: x.dtype.type(180 / math.pi), READS_NOTHING)
_smooth("radians", _times(math.pi / 180), lambda x, y: x.dtype.type(math.pi / 180), READS_NOTHING)


def _linear_rules(name: str, pull: Callable[[Any, Any], Any], push: Callable[[Any, Any], Any]) -> None:
    PULLBACK.of(TABLE[name])(lambda g, y, params, needs_grad, x: (pull(g, x),))
    PUSHFORWARD.of(TABLE[name])(lambda tangents, y, params, x: push(tangents[0], x))


def _linear(name: str, host: Callable[..., Any], pull: _Slope, push: _Slope, reads: Residuals = READS_NOTHING) -> None:
    """Register the host rule and the derivatives of an op that is linear or not holomorphic.

    Args:
        pull, push: `pull(cotangent, x)` and `push(tangent, x)`, for the op's argument x.
    """
    HOST.of(TABLE[name])(host)
    _linear_rules(name, pull, push)
    RESIDUALS[TABLE[name]] = reads


def _sign_of_real(x: Any) -> Any:
    """Return the sign of a real number; 0 for NaN and for -0, as in MLX."""
    return np.where(np.abs(x) > 0, np.sign(x), x.dtype.type(0))


def _replaced(x: Any) -> Any:
    """Return x with each 0 replaced by 1."""
    return np.where(x == 0, x.dtype.type(1), x)


_linear(
    "abs", _for_kinds("bu", _itself, np.abs),
    lambda g, x: g * (np.conj(x) / _replaced(np.abs(x)) if x.dtype.kind == "c" else _sign_of_real(x)),
    lambda t, x: (t * (np.conj(x) / _replaced(np.abs(x)))).real if x.dtype.kind == "c" else t * _sign_of_real(x),
    READS_INPUTS,
)  # fmt: skip
_linear("positive", _plain(_itself), lambda g, x: g, lambda t, x: t)
_linear("negative", _plain(np.negative), lambda g, x: -g, lambda t, x: -t)
_linear("update_negative", _plain(np.negative), lambda g, x: -g, lambda t, x: -t)
_linear("real", _for_kinds("c", lambda x: x.real, _itself), lambda g, x: g, lambda t, x: t.real)
_linear(
    "imag", _for_kinds("c", lambda x: x.imag, lambda x: np.zeros(x.shape, x.dtype)),
    lambda g, x: g * np.complex64(-1j) if x.dtype.kind == "c" else None, lambda t, x: t.imag,
)  # fmt: skip
_linear(
    "conj", _for_kinds("c", np.conjugate, _itself),
    lambda g, x: np.conj(g) if x.dtype.kind == "c" else g, lambda t, x: np.conj(t) if x.dtype.kind == "c" else t,
)  # fmt: skip


def _sign(x: Any) -> Any:
    if x.dtype.kind == "c":
        size = np.abs(x)
        unit = np.where(size < math.inf, x / size, np.complex64(complex(math.nan, math.nan)))
        return np.where(x == 0, x, unit).astype(x.dtype)
    wide = x.astype(_FLOAT32) if x.dtype.kind == "V" else x
    return np.subtract((wide > 0).view(np.int8), (wide < 0).view(np.int8)).astype(x.dtype)


def _round(out: Aval, params: tuple, x: Any) -> Any:
    (decimals,) = params
    dtype = x.dtype
    if dtype.kind in "biu":
        return x if decimals >= 0 else _saturated(_rounded(x.astype(_FLOAT32), decimals), dtype)
    if decimals == 0:
        return np.rint(x)
    return _rounded(x, decimals)


def _rounded(x: Any, decimals: int) -> Any:
    up, down = (factor.astype(x.dtype) for factor in rounding_factors(decimals))
    return np.rint(x * up) * down


def _saturated(x: Any, dtype: np.dtype) -> Any:
    """Return whole float32 numbers as integers of `dtype`; those out of range become the nearest integer."""
    if dtype.kind == "b":
        return x != 0
    info = np.iinfo(dtype)
    limit = np.float32(2.0 ** (info.bits - (dtype.kind == "i")))
    lowest = -limit if dtype.kind == "i" else np.float32(0)
    inside = (x >= lowest) & (x < limit)
    whole = np.where(inside, x, np.float32(0)).astype(dtype)
    return np.where(inside, whole, np.where(x < 0, dtype.type(info.min), dtype.type(info.max)))


_STEPS: dict[str, Callable[..., Any]] = {
    "sign": _for_kinds("b", _itself, lambda x: np.sign(x) if x.dtype.kind in "iu" else _sign(x)),
    "trunc": _for_kinds("biu", _itself, np.trunc),
    "floor": _for_kinds("biu", _itself, np.floor),
    "ceil": _for_kinds("biu", _itself, np.ceil),
    "round": _round,
}

for _name, _rule in _STEPS.items():
    HOST.of(TABLE[_name])(_rule)
    PULLBACK.of(TABLE[_name])(lambda g, y, params, needs_grad, x: (None,))
    PUSHFORWARD.of(TABLE[_name])(lambda tangents, y, params, x: np.zeros((), y.dtype))
    RESIDUALS[TABLE[_name]] = READS_NOTHING


def _nowhere(x: Any) -> Any:
    return np.zeros(x.shape, bool)


_TESTS: dict[str, Callable[..., Any]] = {
    "logical_not": _plain(_wide(lambda x: x == 0)),
    "isnan": _for_kinds("biu", _nowhere, _wide(lambda x: x != x)),
    "isinf": _for_kinds("biu", _nowhere, _wide(np.isinf)),
    "isfinite": _for_kinds("biu", lambda x: np.ones(x.shape, bool), _wide(np.isfinite)),
    "isposinf": _for_kinds("biu", _nowhere, _wide(lambda x: x == x.dtype.type(math.inf))),
    "isneginf": _for_kinds("biu", _nowhere, _wide(lambda x: x == x.dtype.type(-math.inf))),
}

for _name, _rule in _TESTS.items():
    HOST.of(TABLE[_name])(_rule)
TANGENT_DTYPE.of(TABLE["isfinite"], TABLE["isinf"])(dtype_of_result)
TANGENT_DTYPE.of(TABLE["logical_not"])(dtype_of_logical)


@TANGENT_DTYPE.of(TABLE["isnan"], TABLE["isposinf"], TABLE["isneginf"])
def _of_floats(tangents: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype:
    return tangents[0] if operands[0].dtype._kind in "fc" else bool_


@HOST.of(TABLE["nan_to_num"])
def _nan_to_num(out: Aval, params: tuple, x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    dtype = x.dtype
    if dtype.kind in "biu":
        return x
    nan, posinf, neginf = nan.astype(dtype), posinf.astype(dtype), neginf.astype(dtype)
    if dtype.kind == "c":  # only real infinities are replaced
        return np.where(x != x, nan, np.where(x == math.inf, posinf, np.where(x == -math.inf, neginf, x)))
    finite = np.isfinite(x)
    if finite.all():
        return x
    return np.where(finite, x, np.where(x != x, nan, np.where(x > 0, posinf, neginf)))


@PULLBACK.of(TABLE["nan_to_num"])
def _pull_nan_to_num(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], x: Any, *values: Any) -> tuple:
    zero = g.dtype.type(0)
    chosen = (np.isfinite(x), x != x, x == x.dtype.type(math.inf), x == x.dtype.type(-math.inf))
    return tuple([np.where(c, g, zero) if w else None for c, w in zip(chosen, needs_grad, strict=True)])


@PUSHFORWARD.of(TABLE["nan_to_num"])
def _push_nan_to_num(tangents: Sequence[Any], y: Any, params: tuple, x: Any, *values: Any) -> Any:
    zero = y.dtype.type(0)
    t, nan, posinf, neginf = (zero if t is None else t for t in tangents)
    return np.where(np.isfinite(x), t, np.where(x != x, nan, np.where(x > 0, posinf, neginf)))


@BATCH.of(TABLE["nan_to_num"])
def _nan_to_num_batched(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node | None:
    """Batch an op whose last inputs are numbers that do not broadcast."""
    return None if any(batched[1:]) else batched_elementwise(op, params, inputs, batched, size)


BATCH.of(TABLE["update_negative"], TABLE["update_reciprocal"])(batched_elementwise)

# NumPy's NaN for float64 has a sign that MLX's does not have
register_in_place(is_float32, {"log": np.log, "log2": np.log2})
register_in_place(is_wide_float, {
    "sqrt": np.sqrt, "reciprocal": np.reciprocal, "exp": np.exp, "expm1": np.expm1, "log1p": np.log1p,
    "log10": host_precise.log10, "sin": np.sin, "cos": np.cos, "tan": host_precise.tan,
    "arctan": host_precise.arctan, "sinh": np.sinh, "cosh": host_precise.cosh, "tanh": np.tanh,
    "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh,
})  # fmt: skip
register_in_place(is_float, {
    "abs": np.abs, "square": np.square, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
})  # fmt: skip
register_in_place(is_number, {"negative": np.negative})
