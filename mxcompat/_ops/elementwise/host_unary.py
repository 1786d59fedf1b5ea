"""Host rules of the elementwise ops of one array. See `rules.HOST`.

Half precision is computed in float32 and rounded once. An op that is one ufunc for every dtype is a line in a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.policy import LOOPED_FLOAT64

from ..define import TABLE
from ..indexing import at  # noqa: F401  # its records, in TABLE
from . import erf, host_complex, host_precise
from .host_log import log, log2
from .unary import rounding_factors

__all__ = ["sigmoid"]

Ufunc = Callable[[Any], Any]

_FLOAT32 = np.dtype(np.float32)


def _in_floats(function: Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op that computes integers in float32."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        if x.dtype is _FLOAT32:
            return function(x)
        dtype = out.dtype
        if dtype.size == 2:
            return function(x.astype(_FLOAT32)).astype(dtype._numpy)
        return function(x if x.dtype == dtype._numpy else x.astype(dtype._numpy))

    return rule


def _plain(function: Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op for which NumPy has a ufunc for every dtype."""
    return lambda out, params, x: function(x)


def _wide(function: Ufunc) -> Ufunc:
    """Return a function of real numbers that computes bfloat16 in float32, since NumPy takes 5 times as long in
    bfloat16."""
    return lambda x: function(x.astype(_FLOAT32) if x.dtype.kind == "V" else x)


def _for_kinds(kinds: str, function: Ufunc, other: Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op that is `function` for NumPy dtypes of these kinds, and `other` for the rest.
    bfloat16 has kind "V"."""
    return lambda out, params, x: function(x) if x.dtype.kind in kinds else other(x)


def _itself(x: Any) -> Any:
    return x


def _nowhere(x: Any) -> Any:
    return np.zeros(x.shape, bool)


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


def sigmoid(x: Any) -> Any:
    return np.reciprocal(1 + np.exp(-x))


def _log1p(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x)
    wide = x.astype(np.complex128)
    tiny = np.abs(wide) < 1e-5  # adding 1 to z would round z away
    more = np.array(wide)
    more.real += 1  # adding a complex 1 would lose the sign of an imaginary -0
    return np.where(tiny, wide - 0.5 * wide * wide, np.log(more)).astype(x.dtype)


def _reciprocal(x: Any) -> Any:
    return host_complex.reciprocal(x) if x.dtype.kind == "c" else np.reciprocal(x)


def _rsqrt(x: Any) -> Any:
    return _reciprocal(np.sqrt(x))


def _sign(x: Any) -> Any:
    if x.dtype.kind == "c":
        size = np.abs(x)
        unit = np.where(size < math.inf, x / size, np.complex64(complex(math.nan, math.nan)))
        return np.where(x == 0, x, unit).astype(x.dtype)
    wide = x.astype(_FLOAT32) if x.dtype.kind == "V" else x
    return np.subtract((wide > 0).view(np.int8), (wide < 0).view(np.int8)).astype(x.dtype)


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


_IN_FLOATS: dict[str, Ufunc] = {
    "sqrt": np.sqrt, "rsqrt": _rsqrt, "reciprocal": _reciprocal, "exp": _exp, "expm1": np.expm1, "sin": np.sin,
    "cos": np.cos, "tan": host_precise.tan, "arcsin": _arcsin, "arccos": _arccos, "arctan": host_precise.arctan,
    "sinh": np.sinh, "cosh": host_precise.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh, "log": log, "log2": log2, "log10": host_precise.log10, "log1p": _log1p, "sigmoid": sigmoid,
    "update_reciprocal": _reciprocal,
}  # fmt: skip

_RULES: dict[str, Callable[..., Any]] = {
    "abs": _for_kinds("bu", _itself, np.abs),
    "sign": _for_kinds("b", _itself, lambda x: np.sign(x) if x.dtype.kind in "iu" else _sign(x)),
    "positive": _plain(_itself),
    "negative": _plain(np.negative),
    "update_negative": _plain(np.negative),
    "square": _for_kinds("b", _itself, np.square),
    "trunc": _for_kinds("biu", _itself, np.trunc),
    "floor": _for_kinds("biu", _itself, np.floor),
    "ceil": _for_kinds("biu", _itself, np.ceil),
    "logical_not": _plain(_wide(lambda x: x == 0)),
    "isnan": _for_kinds("biu", _nowhere, _wide(lambda x: x != x)),
    "isinf": _for_kinds("biu", _nowhere, _wide(np.isinf)),
    "isfinite": _for_kinds("biu", lambda x: np.ones(x.shape, bool), _wide(np.isfinite)),
    "isposinf": _for_kinds("biu", _nowhere, _wide(lambda x: x == x.dtype.type(math.inf))),
    "isneginf": _for_kinds("biu", _nowhere, _wide(lambda x: x == x.dtype.type(-math.inf))),
    "real": _for_kinds("c", lambda x: x.real, _itself),
    "imag": _for_kinds("c", lambda x: x.imag, lambda x: np.zeros(x.shape, x.dtype)),
    "conj": _for_kinds("c", np.conjugate, _itself),
    "bitwise_invert": _plain(np.invert),
    "degrees": _times(180 / math.pi),
    "radians": _times(math.pi / 180),
}

for _name, _function in _IN_FLOATS.items():
    HOST.of(TABLE[_name])(_in_floats(_function))
for _name, _rule in _RULES.items():
    HOST.of(TABLE[_name])(_rule)


def _special(function: Ufunc) -> Callable[..., Any]:
    floats = _in_floats(function)

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        return None if out.dtype.size == 8 and out.size > LOOPED_FLOAT64 else floats(out, params, x)

    return rule


HOST.of(TABLE["erf"])(_special(erf.erf))
HOST.of(TABLE["erfinv"])(_special(erf.erfinv))


@HOST.of(TABLE["round"])
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
