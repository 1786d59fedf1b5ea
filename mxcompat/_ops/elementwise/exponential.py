"""`expm1`, `sinh` and `cosh` for XLA, with MLX's accuracy and derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mxcompat._graph.ir.direction import is_forward
from mxcompat._jax import jnp, lax, lazy

from .quotient import quotient
from .slopes import with_slope

__all__ = ["cosh_by_xla", "expm1_by_xla", "sinh_by_xla"]


def _half_exp(x: Any) -> Any:
    """Return half the exponential of abs(x) of real numbers, finite wherever `sinh` is finite.

    The subtraction of 0.75 is exact where it matters. JAX subtracts log(2), whose rounding becomes a relative error of
    1e-6 at 80.
    """
    shift = jnp.asarray(0.75, x.dtype)
    return lax.exp(lax.abs(x) - shift) * jnp.asarray(math.exp(0.75) / 2, x.dtype)


def _sinh(x: Any) -> Any:
    half, size = _half_exp(x), lax.abs(x)
    large = half - quotient(jnp.asarray(0.25, x.dtype), half)
    return jnp.copysign(jnp.where(size < 1, lax.sinh(size), large), x)


def _cosh(x: Any) -> Any:
    half = _half_exp(x)
    return half + quotient(jnp.asarray(0.25, x.dtype), half)


_real_sinh: Callable[[Any], Any] = with_slope(_sinh, lambda x: _real_cosh(x))
_real_cosh: Callable[[Any], Any] = with_slope(_cosh, _real_sinh)


@lazy.custom_jvp
def expm1_by_xla(x: Any) -> Any:
    return lax.expm1(x)


@expm1_by_xla.defjvp
def _expm1_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use MLX's derivatives: for very negative numbers, its tangents are not 0 but its cotangents are."""
    (x,) = primals
    y = expm1_by_xla(x)
    return y, tangents[0] * (lax.exp(x) if is_forward() else y + jnp.ones((), x.dtype))


def sinh_by_xla(x: Any) -> Any:
    return lax.sinh(x) if x.dtype.kind == "c" else _real_sinh(x)


def cosh_by_xla(x: Any) -> Any:
    return lax.cosh(x) if x.dtype.kind == "c" else _real_cosh(x)
