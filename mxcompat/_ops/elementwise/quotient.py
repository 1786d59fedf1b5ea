"""Division with IEEE 754 rounding, also in compiled programs, where XLA would rewrite it.

If y in x / y is constant or broadcast, XLA multiplies by the reciprocal. It also rewrites quotients of quotients, of
roots and of exponentials: then w / w need not be 1. So the operands are hidden from XLA: where one of them is NaN, both
are replaced by NaN. An optimization barrier would do as well, but XLA fuses nothing across it (AdamW's step of 30
arrays of 4 MB with JAX 0.12: 86 ms and 228 MB of temporaries with barriers, 34 ms and none without). The division is a
JAX primitive, because under `jax.vmap` the divisor must be broadcast before it is hidden.

On a GPU, float32 quotients are not rounded correctly. There the quotient is computed in float64, which has more than
twice the digits, so that one more rounding gives the correct result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from mxcompat._compat.dialects import ir, stablehlo, stablehlo_edits
from mxcompat._jax import ad, batching, jnp, lax, mlir

__all__ = ["quotient"]


def quotient(x: Any, y: Any) -> Any:
    """Return x / y of JAX arrays with one inexact dtype, broadcast against each other."""
    x, y = jnp.broadcast_arrays(x, y)
    return lax.div(x, y) if x.dtype.kind == "c" else _primitive().bind(x, y)


@cache
def _primitive() -> Any:
    from jax.extend.core import Primitive  # imported here because the import is slow

    divide = Primitive("mxcompat_divide")
    divide.def_impl(_divided)
    divide.def_abstract_eval(lambda x, y: x)
    divided = mlir.lower_fun(_divided, multiple_results=False)
    mlir.register_lowering(divide, divided)
    for platform in ("cuda", "rocm"):
        mlir.register_lowering(divide, partial(_in_float64, divided), platform=platform)
    batching.primitive_batchers[divide] = _batched
    ad.defjvp(divide, lambda t, x, y: quotient(t, y), lambda t, x, y: -t * quotient(quotient(x, y), y))
    ad.primitive_transposes[divide] = lambda g, x, y: [
        ad.Zero(x.aval) if type(g) is ad.Zero else quotient(g, y), None
    ]  # fmt: skip
    return divide


def _divided(x: Any, y: Any) -> Any:
    """Divide operands that are hidden from XLA. Each is replaced by NaN where the other is NaN: if y is constant or
    broadcast, y == y is, too, and would not hide y."""
    ordered = lax.bitwise_and(lax.eq(x, x), lax.eq(y, y))
    nan = lax.full_like(x, np.nan)
    return lax.div(lax.select(ordered, x, nan), lax.select(ordered, y, nan))


def _in_float64(otherwise: Callable[..., Any], context: Any, x: Any, y: Any) -> Any:
    """Return the lowering that divides in float64.

    `reduce_precision` hides from LLVM that the operands are float32 numbers. Otherwise LLVM would divide in float32
    again.
    """
    if not stablehlo_edits.holds:
        return otherwise(context, x, y)
    kind = ir.RankedTensorType(x.type)
    wider = ir.RankedTensorType.get(kind.shape, ir.F64Type.get())
    if kind == wider:
        return otherwise(context, x, y)
    wide = stablehlo.divide(stablehlo.convert(wider, x), stablehlo.convert(wider, y))
    return [stablehlo.convert(kind, stablehlo.reduce_precision(wide, exponent_bits=11, mantissa_bits=51))]


def _batched(inputs: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, int]:
    size = next(x.shape[k] for x, k in zip(inputs, axes, strict=True) if k is not None)
    return _primitive().bind(*[_in_front(x, k, size) for x, k in zip(inputs, axes, strict=True)]), 0


def _in_front(x: Any, axis: int | None, size: int) -> Any:
    return jnp.broadcast_to(x, (size, *jnp.shape(x))) if axis is None else jnp.moveaxis(x, axis, 0)
