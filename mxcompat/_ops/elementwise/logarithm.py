"""Logarithms to base 2 and 10 for XLA, which are whole numbers for powers of the base.

A number is split into a power of 2 and a rest near 1. The logarithm of the power to base 2 is exact; to base 10 it is a
product without rounding. Only the logarithm of the rest, which is small, is divided by the logarithm of the base.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._jax import jnp, lax

from .quotient import quotient
from .slopes import with_slope

__all__ = ["log2_by_xla", "log10_by_xla"]

_LOG10_OF_2 = 30102999566398119521373889472449302676818988146210854131
"""The logarithm of 2 to base 10, times `_SCALE`."""

_SCALE = 10**56


def _parts(x: Any) -> tuple[Any, Any]:
    """Return the exponent of 2 and the rest, from 0.7 to 1.41, of a normal positive number. For others, return 0 and
    the number itself."""
    info = np.finfo(x.dtype)
    integer = jnp.dtype(f"int{info.bits}")
    root = np.sqrt(x.dtype.type(0.5)).view(integer)
    bits = lax.bitcast_convert_type(x, integer)
    exponent = (bits - root) >> info.nmant
    rest = lax.bitcast_convert_type(bits - (exponent << info.nmant), x.dtype)
    normal = (x >= info.smallest_normal) & (x < math.inf)
    return jnp.where(normal, exponent, 0).astype(x.dtype), jnp.where(normal, rest, x)


def _log2(x: Any) -> Any:
    exponent, rest = _parts(x)
    return exponent + lax.log(rest) * jnp.asarray(1 / math.log(2), x.dtype)


def _log10(x: Any) -> Any:
    exponent, rest = _parts(x)
    info = np.finfo(x.dtype)
    places = info.nmant - info.iexp  # with so few bits, the product of the constant and an exponent is exact
    high = (2 * _LOG10_OF_2 * 2**places + _SCALE) // (2 * _SCALE)  # rounded to the nearest integer
    low = (_LOG10_OF_2 * 2**places - high * _SCALE) / (_SCALE * 2**places)
    small = lax.log(rest) * jnp.asarray(1 / math.log(10), x.dtype) + exponent * low
    return exponent * math.ldexp(high, -places) + small


def _by_xla(logarithm: Callable[[Any], Any], base: float) -> Callable[[Any], Any]:
    def scaled(x: Any) -> Any:
        return x * jnp.asarray(1 / math.log(base), x.dtype)

    def of_complex(z: Any) -> Any:  # divide each part on its own, so that an infinite part does not affect the other
        return lax.complex(scaled(lax.real(z)), scaled(lax.imag(z)))

    real = with_slope(logarithm, lambda x: quotient(scaled(jnp.ones((), x.dtype)), x))
    return lambda x: of_complex(lax.log(x)) if x.dtype.kind == "c" else real(x)


log2_by_xla = _by_xla(_log2, 2)
log10_by_xla = _by_xla(_log10, 10)
