"""Division as IEEE 754 has it, also where XLA would rather multiply.

XLA takes x / y with a y that is constant or broadcast for a product with the reciprocal, and rewrites quotients of
quotients, of roots and of exponentials: then w / w need not be 1. It does not look through an optimization barrier, and
takes the barriers away before it fuses, so that the division costs what a division costs. A primitive, since under
`jax.vmap` what divides must be made as large as what is divided before the barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

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
    mlir.register_lowering(divide, mlir.lower_fun(_divided, multiple_results=False))
    batching.primitive_batchers[divide] = _batched
    ad.defjvp(divide, lambda t, x, y: quotient(t, y), lambda t, x, y: -t * quotient(quotient(x, y), y))
    ad.primitive_transposes[divide] = lambda g, x, y: [
        ad.Zero(x.aval) if type(g) is ad.Zero else quotient(g, y), None
    ]  # fmt: skip
    return divide


def _divided(x: Any, y: Any) -> Any:
    return lax.div(*lax.optimization_barrier((x, y)))


def _batched(inputs: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, int]:
    size = next(x.shape[k] for x, k in zip(inputs, axes, strict=True) if k is not None)
    return _primitive().bind(*[_in_front(x, k, size) for x, k in zip(inputs, axes, strict=True)]), 0


def _in_front(x: Any, axis: int | None, size: int) -> Any:
    return jnp.broadcast_to(x, (size, *jnp.shape(x))) if axis is None else jnp.moveaxis(x, axis, 0)
