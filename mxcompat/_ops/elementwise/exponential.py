"""How XLA computes `expm1`, `sinh` and `cosh`: to the digits that MLX has, and with its derivatives."""

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
    """Half the exponential of the size of real numbers, finite wherever `sinh` is. The difference with 0.75 is exact
    where that matters; JAX takes off log(2), and what that rounds is a factor, of 1e-6 at 80."""
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
    """Of very negative numbers MLX's tangents are not 0, and its cotangents are."""
    (x,) = primals
    y = expm1_by_xla(x)
    return y, tangents[0] * (lax.exp(x) if is_forward() else y + jnp.ones((), x.dtype))


def sinh_by_xla(x: Any) -> Any:
    return lax.sinh(x) if x.dtype.kind == "c" else _real_sinh(x)


def cosh_by_xla(x: Any) -> Any:
    return lax.cosh(x) if x.dtype.kind == "c" else _real_cosh(x)
