"""Bitwise ops and shifts of integers and bools.

Shifts behave like C's on the machines that MLX runs on. Types narrower than 32 bits are widened first, and the distance
is taken modulo the width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, Dtype, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax, lazy

from ..define import SAMPLES, Sample, broadcast, op, same, unary
from ..examples import example
from .unary import logical_not

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "left_shift", "right_shift",
]  # fmt: skip


def _shifted(a: Dtype, b: Dtype) -> Dtype:
    kind = promote(a, b)
    return avals.uint8 if kind is avals.bool_ else kind


def _shift(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def impl(x: Any, y: Any) -> Any:
        dtype = x.dtype
        if dtype.itemsize < 4:
            x, y = x.astype(np.int32), y.astype(np.int32)
        distance = y & jnp.asarray(x.dtype.itemsize * 8 - 1, x.dtype)
        return function(*jnp.broadcast_arrays(x, distance)).astype(dtype)

    return impl


def _right(x: Any, y: Any) -> Any:
    shift = lax.shift_right_logical if x.dtype.kind == "u" else lax.shift_right_arithmetic
    return shift(x, y)


def _to_integers(x: Any) -> Any:
    """Cast floats to integers. Where JAX differentiates, floats may replace integers; no derivative passes through
    this cast."""
    if jnp.issubdtype(x.dtype, np.floating):
        return jnp.asarray(x, np.int64 if x.dtype.itemsize == 8 else np.int32)
    return x


def _bitwise(
    name: str, impl: Callable[[Any, Any], Any], summary: str, result: Callable[[Dtype, Dtype], Dtype] = promote
) -> Callable[..., array]:
    def infer(a: Aval, b: Aval) -> Aval:
        kind = result(a.dtype, b.dtype)
        if kind._kind not in "bui":
            # for a right shift, MLX names the promoted dtype twice
            x, y = (kind, kind) if name == "right_shift" else (a.dtype, b.dtype)
            raise RuntimeError(
                f"[{name}] Only allowed on integer or boolean types but got types {x._label} and {y._label}."
            )
        return aval(broadcast(a.shape, b.shape), kind)

    def lower(x: Any, y: Any) -> Any:
        x, y = _to_integers(x), _to_integers(y)
        want = result(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]
        if want._kind == "f":  # the operands are a uint64 and an int64 that stands for a uint64
            want = avals.uint64
        return impl(jnp.asarray(x, want._numpy), jnp.asarray(y, want._numpy))

    record = op(name, lower, infer)
    SAMPLES[name] = Sample(0.0, 7.0, kinds="bui", smooth=False, operands=2)

    def function(a: Any, b: Any, stream: Any = None) -> array:
        check_stream(stream)
        return wrap(apply(record, operands.pair(a, b)))

    function.__name__ = function.__qualname__ = name
    instead = ", uint8 instead of bool" if result is _shifted else ""
    function.__doc__ = f"""{summary}

Args:
    a: an array or a number, of integers or bools.
    b: an array or a number, of integers or bools. The two are broadcast against each other.
    stream: accepted, and ignored.

Returns:
    An array with the shape the operands broadcast to and the dtype that they promote to{instead}.

Raises:
    RuntimeError: if an operand is not of integers or bools.
    ValueError: if the shapes do not broadcast.

Example:
{example(name)}
"""
    function.op = record  # type: ignore[attr-defined]
    return function


bitwise_and = _bitwise("bitwise_and", lambda x, y: x & y, "Return the bitwise and of two arrays.")
bitwise_or = _bitwise("bitwise_or", lambda x, y: x | y, "Return the bitwise or of two arrays.")
bitwise_xor = _bitwise("bitwise_xor", lambda x, y: x ^ y, "Return the bitwise exclusive or of two arrays.")
left_shift = _bitwise(
    "left_shift", _shift(lazy.lax.shift_left), "Return the first array's bits, moved up by the second.", _shifted
)
right_shift = _bitwise(
    "right_shift", _shift(_right), "Return the first array's bits, moved down by the second.", _shifted
)
bitwise_invert = unary(
    "bitwise_invert", lambda x: ~_to_integers(x), same,
    "Return each element with every bit flipped; for bools, logical not.",
    not_for="fc", message="Bitwise inverse only allowed on integer types.", sample=Sample(-3.0, 7.0, smooth=False),
    of_bools=logical_not,
)  # fmt: skip

bitwise_left_shift = left_shift
bitwise_right_shift = right_shift
