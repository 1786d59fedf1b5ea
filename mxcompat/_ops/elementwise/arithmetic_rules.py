"""Rules of arithmetic with two arrays, and of the choice between them.

A derivative has for each operand a map from its tangent to the result's. This map multiplies each element by a number,
so it is its own transpose. One map thus serves pullbacks and pushforwards. Ties and kinks are JAX's. Half precision is
computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.ir.rules import (
    BATCH,
    HOST,
    OVERWRITE,
    PULLBACK,
    PUSHFORWARD,
    READS_INPUTS,
    READS_NOTHING,
    RESIDUALS,
    Residuals,
)
from mxcompat._graph.policy import CACHED_BYTES

from ..batching import batched_elementwise
from ..define import TABLE
from . import host_complex, host_precise
from .in_place import is_number, is_real, is_wide_float, register_in_place
from .select import select
from .two_operands import Ufunc, in_floats, in_result, larger, of_kinds, readable

__all__: list[str] = []

_Partial = Callable[[Any, Any, Any, Any], Any]
"""A function of `(change, a, b, y)`, where `y` is the result of the op on `a` and `b`. It returns the change of `y`
that the change of one operand causes."""


def _cast(x: Any, y: Any, widen: bool = True) -> Any:
    """Return an operand in the dtype of the result, or in float32 for half precision."""
    dtype = y.dtype
    if widen and dtype.itemsize == 2:
        return x.astype(np.float32) if x.dtype == dtype else _cast(converted_on_host(x, from_numpy(dtype)), y)  # type: ignore[arg-type]
    return x if x.dtype is dtype else converted_on_host(x, from_numpy(dtype))  # type: ignore[arg-type]


def _register(
    name: str, host: Callable[..., Any], first: _Partial, second: _Partial, reads: Residuals | None = None,
    widen: bool = True,
) -> None:  # fmt: skip
    """Register the host rule and the derivatives of an op.

    Args:
        first, second: the changes of the result that a change of each operand causes.
        reads: the values that the derivatives read; None for operands and result.
        widen: whether half precision is widened to float32 for the derivatives.
    """
    HOST.of(TABLE[name])(host)
    if reads is not None:
        RESIDUALS[TABLE[name]] = reads

    @PULLBACK.of(TABLE[name])
    def pull(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], a: Any, b: Any) -> tuple:
        a, b = _cast(a, y, widen), _cast(b, y, widen)
        if widen and y.dtype.itemsize == 2:
            g, y = g.astype(np.float32), y.astype(np.float32)
        return first(g, a, b, y) if needs_grad[0] else None, second(g, a, b, y) if needs_grad[1] else None

    @PUSHFORWARD.of(TABLE[name])
    def push(tangents: Sequence[Any], y: Any, params: tuple, a: Any, b: Any) -> Any:
        da, db = (t if t is None else _cast(t, y, widen) for t in tangents)
        a, b = _cast(a, y, widen), _cast(b, y, widen)
        if widen and y.dtype.itemsize == 2:
            y = y.astype(np.float32)
        if db is None:
            return first(da, a, b, y)
        if da is None:
            return second(db, a, b, y)
        return first(da, a, b, y) + second(db, a, b, y)


_register("add", in_result(np.add), lambda t, a, b, y: t, lambda t, a, b, y: t, READS_NOTHING)
_register(
    "subtract", in_result(of_kinds("b", np.bitwise_xor, np.subtract)),
    lambda t, a, b, y: t, lambda t, a, b, y: -t, READS_NOTHING,
)  # fmt: skip
_register("multiply", in_result(np.multiply), lambda t, a, b, y: t * b, lambda t, a, b, y: t * a, READS_INPUTS)

_QUOTIENT, _COMPLEX_QUOTIENT = in_result(np.divide), in_result(host_complex.quotient)


def _divide(out: Aval, params: tuple, x: Any, y: Any) -> Any:
    return (_COMPLEX_QUOTIENT if out.dtype._kind == "c" else _QUOTIENT)(out, params, x, y)


_register("divide", _divide, lambda t, a, b, y: t / b, lambda t, a, b, y: -t * (y / b), Residuals(slice(1, None)))


def _floor_divide(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind in "iu":
        return np.floor_divide(x, y)  # in MLX, n // 0 is 0
    if kind == "b":
        return x & y
    return host_complex.quotient(x, y) if kind == "c" else np.floor(x / y)


HOST[TABLE["floor_divide"]] = in_result(_floor_divide)  # MLX rounds the quotient before it rounds it down
RESIDUALS[TABLE["floor_divide"]] = READS_NOTHING
PULLBACK.of(TABLE["floor_divide"])(lambda g, y, params, needs_grad, a, b: (None, None))
PUSHFORWARD.of(TABLE["floor_divide"])(lambda tangents, y, params, a, b: np.zeros((), y.dtype))


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


# half precision is not widened: the quotient is rounded before it is rounded down, as in MLX
_register(
    "remainder", in_floats(_remainder),
    lambda t, a, b, y: t, lambda t, a, b, y: -t * np.floor(a / b), READS_INPUTS, widen=False,
)  # fmt: skip


def _extreme(function: Ufunc, is_first: Ufunc) -> Ufunc:
    """Return a function that computes the larger or smaller of two elements, or NaN if one is NaN."""

    def of_two(x: Any, y: Any) -> Any:
        if x.dtype.kind == "c":
            return np.where((larger(x, y) if is_first is np.greater_equal else larger(y, x)) | (x != x), x, y)
        a, b = readable(x, y) if max(x.size, y.size) >= CACHED_BYTES else (x, y)
        return function(x, y) if a is x else select(is_first(a, b) | (a != a), x, y)

    return of_two


def _chosen(mask: Any, change: Any) -> Any:
    return select(mask, change, change.dtype.type(0))


def _first_is_max(a: Any, b: Any) -> Any:
    return larger(a, b) | (a != a) if a.dtype.kind == "c" else a > b


def _first_is_min(a: Any, b: Any) -> Any:
    return larger(b, a) | (a != a) if a.dtype.kind == "c" else a < b


def _second_is_max(a: Any, b: Any) -> Any:
    # if one of two real numbers is NaN, neither gets the derivative
    return ~_first_is_max(a, b) if a.dtype.kind == "c" else a <= b


def _second_is_min(a: Any, b: Any) -> Any:
    return ~_first_is_min(a, b) if a.dtype.kind == "c" else a >= b


_register(
    "maximum", in_result(_extreme(np.maximum, np.greater_equal)),
    lambda t, a, b, y: _chosen(_first_is_max(a, b), t), lambda t, a, b, y: _chosen(_second_is_max(a, b), t),
    READS_INPUTS,
)  # fmt: skip
_register(
    "minimum", in_result(_extreme(np.minimum, np.less_equal)),
    lambda t, a, b, y: _chosen(_first_is_min(a, b), t), lambda t, a, b, y: _chosen(_second_is_min(a, b), t),
    READS_INPUTS,
)  # fmt: skip


def _power(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind == "f":
        return _real_power(x, y)
    if kind == "c":
        return host_complex.power(x, y)
    if kind == "b":
        return x | ~y
    if kind == "u":
        return np.power(x, y)
    return np.where(y < 0, x.dtype.type(0), np.power(x, np.maximum(y, y.dtype.type(0))))


def _real_power(x: Any, y: Any) -> Any:
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


def _vanishing(a: Any, b: Any) -> Any:
    return (a == 0) & (b.real > 0)


def _by_base(t: Any, a: Any, b: Any, y: Any) -> Any:
    if b.ndim == 0 and b == 2:
        return t * (a + a)
    if a.dtype.kind != "c":
        return t * (b * _real_power(a, b - 1))
    return _chosen(~_vanishing(a, b), t * (b * np.power(a, b - 1)))


def _by_exponent(t: Any, a: Any, b: Any, y: Any) -> Any:
    if a.dtype.kind == "c":
        return _chosen(~_vanishing(a, b), t * (np.log(np.where(a == 0, a.dtype.type(1), a)) * y))
    return t * _chosen(y != 0, np.log(a) * y)


_register("power", in_floats(_power), _by_base, _by_exponent)


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


def _share(t: Any, a: Any, b: Any, y: Any) -> Any:
    """Return the change of y = log(exp(a) + exp(b)) for the change `t` of its first operand."""
    return t * (np.exp(a - y) if a.dtype.kind == "c" else 1 / (1 + np.exp(b - a)))


_register("logaddexp", in_floats(_logaddexp), _share, lambda t, a, b, y: _share(t, b, a, y))

_register(
    "arctan2", in_floats(host_precise.arctan2),
    lambda t, a, b, y: t * (b / (a * a + b * b)), lambda t, a, b, y: t * (-a / (a * a + b * b)), READS_INPUTS,
)  # fmt: skip

register_in_place(is_wide_float, {"arctan2": host_precise.arctan2})
register_in_place(is_number, {"add": np.add, "subtract": np.subtract, "multiply": np.multiply})
register_in_place(is_real, {"divide": np.divide, "maximum": np.maximum, "minimum": np.minimum})


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


@OVERWRITE.of(TABLE["where"])
def _write_where(out: Aval, params: tuple, place: int, condition: Any, x: Any, y: Any) -> Any:
    if place == 0 or condition.dtype.kind != "b" or x.dtype != y.dtype:
        return HOST[TABLE["where"]](out, params, condition, x, y)
    return select(condition, x, y, (x, y)[place - 1])


@PULLBACK.of(TABLE["where"])
def _pull_where(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], condition: Any, a: Any, b: Any) -> tuple:
    first = condition != 0
    return None, _chosen(first, g) if needs_grad[1] else None, _chosen(~first, g) if needs_grad[2] else None


@PUSHFORWARD.of(TABLE["where"])
def _push_where(tangents: Sequence[Any], y: Any, params: tuple, condition: Any, a: Any, b: Any) -> Any:
    zero = y.dtype.type(0)
    _, da, db = tangents
    if da is None and db is None:
        return zero
    # MLX multiplies by a number, so a NaN tangent appears even if its operand is not chosen
    chosen = (condition != 0).astype(y.dtype)
    moved = zero if da is None else chosen * _cast(da, y)
    return moved if db is None else moved + (1 - chosen) * _cast(db, y)


RESIDUALS[TABLE["where"]] = Residuals(slice(1), False)
BATCH[TABLE["where"]] = batched_elementwise
