"""Elementwise arithmetic of two arrays, with `where` and `clip`.

Dtypes follow MLX's promotion. If two operands are equal, `maximum` and `minimum` choose the second, so that only the
second gets the gradient.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import truth
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.direction import is_forward
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp, lax, lazy

from ..arguments import require_array
from ..define import TABLE, Sample, as_floats, binary, broadcast, halves_in_float32, op
from .by_bits import by_bits
from .complex_by_xla import exp_by_xla
from .quotient import quotient

__all__ = [
    "add", "arctan2", "atan2", "clip", "divide", "divmod", "floor_divide", "logaddexp", "maximum", "minimum",
    "multiply", "pow", "power", "remainder", "subtract", "where",
]  # fmt: skip

_DIVISOR = Sample(second=(0.5, 3.0))


def _subtract(x: Any, y: Any) -> Any:
    return x ^ y if x.dtype.kind == "b" else x - y


def _floor_divide(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind == "c":
        return lax.stop_gradient(x / y)  # MLX does not round complex quotients down
    if kind not in "biu":
        return lax.floor(quotient(x, y))
    if kind == "b":
        return x & y
    zero = jnp.zeros((), x.dtype)
    whole = lax.div(*jnp.broadcast_arrays(x, y))
    if kind == "i":
        whole = whole - ((_rem(x, y) != 0) & ((x < 0) != (y < 0))).astype(x.dtype)
    return jnp.where(y == zero, zero, whole)  # in MLX, n // 0 is 0


def _rem(x: Any, y: Any) -> Any:
    return lax.rem(*jnp.broadcast_arrays(x, y))


def _remainder(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind == "b":
        return x & ~y
    rest = _rem(x, y)
    if kind == "u":
        return rest
    return jnp.where((rest != 0) & ((rest < 0) != (y < 0)) & (y != 0), rest + y, rest)


@lazy.custom_jvp
def _float_remainder(x: Any, y: Any) -> Any:
    return _remainder(x, y)


@_float_remainder.defjvp
def _float_remainder_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use MLX's derivative with respect to the divisor: minus the rounded quotient, even for infinite divisors."""
    return _float_remainder(*primals), tangents[0] - tangents[1] * lax.stop_gradient(_floor_divide(*primals))


def _larger(x: Any, y: Any) -> Any:
    """Return a mask of the elements where x is larger than y. Complex numbers are ordered by their real part, then by
    their imaginary part."""
    if x.dtype.kind == "c":
        rx, ry = lax.real(x), lax.real(y)
        return (rx > ry) | ((rx == ry) & (lax.imag(x) > lax.imag(y)))
    return x > y


@lazy.custom_jvp
def _max(x: Any, y: Any) -> Any:
    return lax.max(x, y)


@_max.defjvp
def _max_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, y = primals
    return _max(x, y), _chosen(x > y, x <= y, *tangents)


@lazy.custom_jvp
def _min(x: Any, y: Any) -> Any:
    return lax.min(x, y)


@_min.defjvp
def _min_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, y = primals
    return _min(x, y), _chosen(x < y, x >= y, *tangents)


def _chosen(first: Any, second: Any, dx: Any, dy: Any) -> Any:
    """Return the tangent of the chosen operand, or zero where neither is chosen because one is NaN."""
    return jnp.where(first, dx, jnp.where(second, dy, jnp.zeros_like(dy)))


def _maximum(x: Any, y: Any) -> Any:
    if x.dtype.kind == "b":
        return x | y
    if x.dtype.kind == "c":
        return jnp.where(_larger(x, y) | (x != x), x, y)
    return _max(*jnp.broadcast_arrays(x, y))


def _minimum(x: Any, y: Any) -> Any:
    if x.dtype.kind == "b":
        return x & y
    if x.dtype.kind == "c":
        return jnp.where(_larger(y, x) | (x != x), x, y)
    return _min(*jnp.broadcast_arrays(x, y))


def _power(x: Any, y: Any) -> Any:
    kind = x.dtype.kind
    if kind == "b":
        return x | ~y
    if kind in "iu":
        return _integer_power(x, y)
    x, y = jnp.broadcast_arrays(x, y)
    if kind == "f" or x.dtype == jnp.bfloat16:
        return _real_power(x, y)
    if kind == "c":
        vanishes = (x == 0) & (lax.real(y) > 0)
        return jnp.where(vanishes, jnp.zeros_like(x), lax.pow(jnp.where(vanishes, jnp.ones_like(x), x), y))
    return lax.pow(x, y)


@lazy.custom_jvp
def _real_power(x: Any, y: Any) -> Any:
    return lax.pow(x, y)


@partial(_real_power.defjvp, symbolic_zeros=True)
def _real_power_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use MLX's derivative with respect to the exponent: 0 where the power is 0, and infinite at 0 ** 0.

    If the exponent is constant, this derivative must not be computed at all: the logarithm of a negative base is NaN.
    """
    (x, y), (dx, dy) = primals, tangents
    out = _real_power(x, y)
    change = jnp.zeros_like(out)
    if not isinstance(dx, jax.custom_derivatives.SymbolicZero):
        change = change + dx * (y * _real_power(x, y - 1))
    if not isinstance(dy, jax.custom_derivatives.SymbolicZero):
        change = change + dy * _where(out == 0, jnp.zeros_like(out), lax.log(x) * out)
    return out, change


def _integer_power(x: Any, y: Any) -> Any:
    """Return the power by repeated squaring. It wraps on overflow, and is 0 for negative exponents, as in MLX."""
    bits = x.dtype.itemsize * 8 - (x.dtype.kind == "i")
    base, exponent = jnp.broadcast_arrays(x, y)
    one = jnp.ones((), x.dtype)

    def step(_: int, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        out, base, exponent = state
        return jnp.where((exponent & one) != 0, out * base, out), base * base, exponent >> one

    out, _, _ = lax.fori_loop(0, bits, step, (jnp.ones_like(base), base, jnp.maximum(exponent, 0)))
    return jnp.where(exponent < 0, jnp.zeros_like(out), out)


@lazy.custom_jvp
def _logaddexp(x: Any, y: Any) -> Any:
    larger = _maximum(x, y)
    if x.dtype.kind == "c":
        smaller = _minimum(x, y)
        alone = (smaller == -math.inf) | (larger == math.inf)
        return jnp.where(alone, larger, larger + lax.log1p(exp_by_xla(smaller - larger)))
    gap = lax.abs(jnp.where(jnp.isfinite(larger), x - y, jnp.zeros((), x.dtype)))
    return jnp.where(jnp.isfinite(larger), larger + lax.log1p(lax.exp(-gap)), larger)


@_logaddexp.defjvp
def _logaddexp_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    x, y = primals
    out = _logaddexp(x, y)
    if x.dtype.kind == "c":
        weights = exp_by_xla(x - out), exp_by_xla(y - out)
    else:
        weights = lax.logistic(x - y), lax.logistic(y - x)
    return out, weights[0] * tangents[0] + weights[1] * tangents[1]


add = binary("add", lambda x, y: x + y, "Return the sum of two arrays, element by element.")
subtract = binary("subtract", _subtract, "Return the difference of two arrays, element by element.")
multiply = binary("multiply", lambda x, y: x * y, "Return the product of two arrays, element by element.")
divide = binary("divide", quotient, "Return the quotient of two arrays, element by element.", as_floats,
                sample=_DIVISOR)  # fmt: skip
floor_divide = binary("floor_divide", _floor_divide, "Return the quotient rounded down; 0 for an integer divided by 0.",
                      sample=_DIVISOR._replace(smooth=False))  # fmt: skip
remainder = binary("remainder", lambda x, y: _float_remainder(*jnp.broadcast_arrays(x, y)),
                   "Return the remainder of a division, with the sign of the divisor.", not_for="c",
                   message="Complex type not supported.", sample=_DIVISOR)  # fmt: skip
maximum = binary("maximum", _maximum, "Return the larger of two elements; NaN if either is.", positional=True)
minimum = binary("minimum", _minimum, "Return the smaller of two elements; NaN if either is.", positional=True)
logaddexp = binary("logaddexp", halves_in_float32(lambda x, y: _logaddexp(*jnp.broadcast_arrays(x, y))),
                   "Return log(exp(a) + exp(b)), without overflow.", as_floats, positional=True)  # fmt: skip
arctan2 = binary("arctan2", halves_in_float32(lambda x, y: lax.atan2(*jnp.broadcast_arrays(x, y))),
                 "Return the angle of the point (b, a), in radians.", as_floats, not_for="c",
                 positional=True)  # fmt: skip
power = binary("power", halves_in_float32(_power), "Return the first array to the power of the second.",
               sample=Sample(0.3, 3.0, (-2.0, 2.0)), positional=True)  # fmt: skip

atan2 = arctan2
pow = power

_COMPLEX_DIVMOD = "[divmod] Complex type not supported."


def divmod(a: Any, b: Any, stream: Any = None) -> list[array]:
    """Return the quotient rounded down, and the remainder.

    Args:
        a: an array or a number.
        b: an array or a number. The operands broadcast against each other.
        stream: accepted, and ignored.

    Returns:
        A list of `floor_divide(a, b)` and `remainder(a, b)`. For bools, every divisor counts as True. As in MLX,
        both have a zero derivative, although `remainder` itself does not.

    Raises:
        ValueError: if an operand is complex.

    Example:
        >>> mx.divmod(mx.array([7, -7]), 3)
        [array([2, -3], dtype=int32), array([1, 2], dtype=int32)]
    """
    check_stream(stream)
    nodes = operands.pair(a, b)
    kind = promote(nodes[0].aval.dtype, nodes[1].aval.dtype)._kind
    if kind == "c":
        raise ValueError(_COMPLEX_DIVMOD)
    nodes = tuple([apply(TABLE["stop_gradient"], (n,)) if n.trace else n for n in nodes])  # type: ignore[assignment]
    if kind == "b":
        nodes = (nodes[0], apply(TABLE["equal"], (nodes[1], nodes[1])))
    return [wrap(apply(f.op, nodes)) for f in (floor_divide, remainder)]  # type: ignore[attr-defined]


def _where(condition: Any, x: Any, y: Any) -> Any:
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))._numpy  # type: ignore[arg-type]
    select = _select_forward if is_forward() and jnp.issubdtype(dtype, jnp.inexact) else jnp.where
    return select(truth(jnp.asarray(condition)), jnp.asarray(x, dtype), jnp.asarray(y, dtype))


@lazy.custom_jvp
def _select_forward(condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(condition, x, y)


@_select_forward.defjvp
def _select_forward_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use MLX's tangents: multiply by 1 or 0, so that a NaN tangent of an operand that is not chosen still appears."""
    # multiply by a number: XLA turns bool * x into a selection
    chosen = primals[0].astype(np.uint8).astype(tangents[1].dtype)
    return _select_forward(*primals), chosen * tangents[1] + (1 - chosen) * tangents[2]


def _where_aval(condition: Aval, x: Aval, y: Aval) -> Aval:
    return aval(broadcast(condition.shape, x.shape, y.shape), promote(x.dtype, y.dtype))


_WHERE = op("where", by_bits(_where, slice(1, None)), _where_aval)


def where(condition: Any, x: Any, y: Any, /, *, stream: Any = None) -> array:
    """Choose between two arrays, element by element.

    Args:
        condition: an array or a number. Where it is not 0, the result is `x`.
        x: an array or a number.
        y: an array or a number. The three operands broadcast against each other.
        stream: accepted, and ignored.

    Returns:
        An array with the broadcast shape of the operands and the promoted dtype of `x` and `y`.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> x = mx.array([-1.0, 2.0])
        >>> mx.where(x > 0, x, 0.0)
        array([0, 2], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(_WHERE, (operands.node(condition), *operands.pair(x, y))))


def clip(a: Any, /, a_min: Any, a_max: Any, *, stream: Any = None) -> array:
    """Limit each element to a range.

    Args:
        a: an array, of any shape.
        a_min: the lower bound, an array or a number; None for none. The gradient at the bound is that of the bound.
        a_max: the upper bound, an array or a number; None for none. Where it is below `a_min`, the result is `a_max`.
        stream: accepted, and ignored.

    Returns:
        An array with the broadcast shape and the promoted dtype of the operands.

    Raises:
        ValueError: if both bounds are None.

    Example:
        >>> mx.clip(mx.array([-1.0, 0.5, 2.0]), 0.0, 1.0)
        array([0, 0.5, 1], dtype=float32)
    """
    check_stream(stream)
    if a_min is None and a_max is None:
        raise ValueError("At most one of a_min and a_max may be None")
    out = x = require_array(a, "clip")
    for bound, record in ((a_min, maximum.op), (a_max, minimum.op)):  # type: ignore[attr-defined]
        if bound is not None:
            out = apply(record, (out, operands.node(bound, x.aval.dtype)))
    return wrap(out)
