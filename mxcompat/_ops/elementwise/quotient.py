"""Division as IEEE 754 has it, also compiled, where XLA would rather do something else.

XLA takes x / y with a y that is constant or broadcast for a product with the reciprocal, and rewrites quotients of
quotients, of roots and of exponentials: then w / w need not be 1. It does not look through an optimization barrier, and
on a CPU takes the barriers away before it fuses, so that the division costs what a division costs. A primitive, since
under `jax.vmap` what divides must be made as large as what is divided before the barrier.

On a GPU XLA fuses nothing across a barrier (a softmax took three times as long), and no quotient of float32 is rounded.
There it is computed in float64, which has more than twice the digits, so that it is right when rounded once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo, stablehlo_edits
from mxcompat._jax import ad, batching, jnp, lax, mlir

__all__ = ["quotient"]


def quotient(x: Any, y: Any) -> Any:
    """x / y of JAX arrays of one inexact dtype, broadcast against each other."""
    x, y = jnp.broadcast_arrays(x, y)
    return lax.div(x, y) if x.dtype.kind == "c" else _primitive().bind(x, y)


@cache
def _primitive() -> Any:
    from jax.extend.core import Primitive  # here, since what it imports takes long to import

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
    return lax.div(*lax.optimization_barrier((x, y)))


def _in_float64(otherwise: Callable[..., Any], context: Any, x: Any, y: Any) -> Any:
    """The lowering where float64 is at hand. What is not a float32's digit is hidden from LLVM, which else would divide
    in float32 again."""
    if not stablehlo_edits.holds:
        return otherwise(context, x, y)
    kind = ir.RankedTensorType(x.type)
    wider = ir.RankedTensorType.get(kind.shape, ir.F64Type.get())
    if kind == wider:
        return otherwise(context, x, y)
    found = stablehlo.divide(stablehlo.convert(wider, x), stablehlo.convert(wider, y))
    return [stablehlo.convert(kind, stablehlo.reduce_precision(found, exponent_bits=11, mantissa_bits=51))]


def _batched(inputs: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, int]:
    size = next(x.shape[k] for x, k in zip(inputs, axes, strict=True) if k is not None)
    return _primitive().bind(*[_in_front(x, k, size) for x, k in zip(inputs, axes, strict=True)]), 0


def _in_front(x: Any, axis: int | None, size: int) -> Any:
    return jnp.broadcast_to(x, (size, *jnp.shape(x))) if axis is None else jnp.moveaxis(x, axis, 0)
