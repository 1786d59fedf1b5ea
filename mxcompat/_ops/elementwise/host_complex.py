"""Complex quotients and powers in NumPy, with correct results for zeros, infinities and very large numbers.

NumPy scales a quotient by the larger part of the divisor, and computes an integer power by multiplication. If an
operand is zero or infinite, or an intermediate result overflows, the result is NaN. Such results are recomputed with
C's methods, which MLX uses too: a quotient by Annex G of the C standard, and a power by the logarithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["power", "quotient", "reciprocal"]


def quotient(x: Any, y: Any) -> Any:
    """Return x / y of complex arrays."""
    return _mended(np.divide(x, y), x, y)


def reciprocal(y: Any) -> Any:
    """Return 1 / y of a complex array."""
    return _mended(np.reciprocal(y), y.dtype.type(1), y)


def _mended(quotient: Any, x: Any, y: Any) -> Any:
    """Return the quotient x / y: NumPy's quotient with its wrong elements recomputed."""
    lost = np.isnan(quotient) | (y == 0)
    return np.where(lost, _quotient_in_c(x, y).astype(quotient.dtype), quotient) if lost.any() else quotient


def power(x: Any, y: Any) -> Any:
    """Return x ** y of complex arrays."""
    powers = np.where((x == 0) & (y.real > 0), x.dtype.type(0), np.power(x, y))
    lost = np.isnan(powers)
    return np.where(lost, np.exp(y * np.log(x)), powers) if lost.any() else powers


def _quotient_in_c(x: Any, y: Any) -> Any:
    """Return the quotient in complex128, in which products of complex64 parts do not overflow.

    If both parts of the quotient are NaN, Annex G replaces it: an infinity divided by a finite number is infinite, and
    a finite number divided by an infinity is zero.
    """
    a, b, c, d = (part.astype(np.float64) for part in (x.real, x.imag, y.real, y.imag))
    size = c * c + d * d
    real, imag = (a * c + b * d) / size, (b * c - a * d) / size
    defined = ~(np.isnan(real) & np.isnan(imag))
    by_zero = (size == 0) & ~(np.isnan(a) & np.isnan(b))
    infinite, vanishing = np.isinf(x) & np.isfinite(y), np.isinf(y) & np.isfinite(x)
    cases = [defined, by_zero, infinite, vanishing]
    huge, (p, q), (r, s) = np.copysign(np.inf, c), _direction(a, b), _direction(c, d)
    quotient = np.empty(real.shape, np.complex128)
    quotient.real = np.select(cases, [real, huge * a, np.inf * (p * c + q * d), 0.0 * (a * r + b * s)], np.nan)
    quotient.imag = np.select(cases, [imag, huge * b, np.inf * (q * c - p * d), 0.0 * (b * r - a * s)], np.nan)
    return quotient


def _direction(real: Any, imag: Any) -> tuple[Any, Any]:
    """Return 1 for infinite parts and 0 for finite parts, with their signs."""
    return np.copysign(np.isinf(real), real), np.copysign(np.isinf(imag), imag)
