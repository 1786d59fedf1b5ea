"""Functions of complex numbers for XLA, with C's results at infinities and on branch cuts, as in MLX and NumPy.

XLA's own formulas lose the sign of a zero there, or multiply an infinity by 0. Each function here corrects its result
at those points and keeps JAX's derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mxcompat._jax import jax, jnp, lax, lazy

__all__ = [
    "abs_by_xla", "acos_by_xla", "acosh_by_xla", "asin_by_xla", "asinh_by_xla", "atan_by_xla", "atanh_by_xla",
    "exp_by_xla", "sqrt_by_xla",
]  # fmt: skip


def _corrected(function: Callable[[Any], Any], correct: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a version of `function` whose results for complex numbers are `correct(z, function(z))`."""

    @lazy.custom_jvp
    def of_complex(z: Any) -> Any:
        return correct(z, function(z))

    @of_complex.defjvp
    def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
        return of_complex(*primals), jax.jvp(function, primals, tangents)[1]

    return lambda x: of_complex(x) if x.dtype.kind == "c" else function(x)


def _is_infinite(part: Any) -> Any:
    return lax.abs(part) == math.inf


def _correct_abs(z: Any, size: Any) -> Any:
    """Return infinity if a part of z is infinite, even if the other part is NaN."""
    return jnp.where(_is_infinite(lax.real(z)) | _is_infinite(lax.imag(z)), math.inf, size)


def _correct_sqrt(z: Any, root: Any) -> Any:
    """Give the root's imaginary part the sign of z's imaginary part. If the latter is infinite, so are both parts of
    the root, even if z's real part is NaN."""
    im = lax.imag(z)
    return jnp.where(
        _is_infinite(im),
        lax.complex(jnp.full_like(im, math.inf), im),
        lax.complex(lax.real(root), jnp.copysign(lax.imag(root), im)),
    )


def _correct_atan(z: Any, angle: Any) -> Any:
    """Give the result's real part the sign of z's real part. Make it NaN if z's real part is NaN."""
    re = lax.real(z)
    return lax.complex(jnp.where(re == re, jnp.copysign(lax.real(angle), re), math.nan), lax.imag(angle))


def _correct_atanh(z: Any, out: Any) -> Any:
    """Give the result's imaginary part the sign of z's imaginary part. Make it NaN if z's imaginary part is NaN."""
    im = lax.imag(z)
    return lax.complex(lax.real(out), jnp.where(im == im, jnp.copysign(lax.imag(out), im), math.nan))


def _correct_asinh(z: Any, out: Any) -> Any:
    """Give the result's real part the sign of z's real part."""
    return lax.complex(jnp.copysign(lax.real(out), lax.real(z)), lax.imag(out))


def _correct_acos(z: Any, out: Any) -> Any:
    """Give the result's imaginary part the opposite sign of z's imaginary part."""
    return lax.complex(lax.real(out), jnp.copysign(lax.imag(out), -lax.imag(z)))


def _correct_imaginary(z: Any, out: Any) -> Any:
    """Give the result's imaginary part the sign of z's imaginary part."""
    return lax.complex(lax.real(out), jnp.copysign(lax.imag(out), lax.imag(z)))


abs_by_xla = _corrected(lazy.lax.abs, _correct_abs)
sqrt_by_xla = _corrected(lazy.lax.sqrt, _correct_sqrt)
atan_by_xla = _corrected(lazy.lax.atan, _correct_atan)
atanh_by_xla = _corrected(lazy.lax.atanh, _correct_atanh)
asin_by_xla = _corrected(lazy.lax.asin, _correct_imaginary)
asinh_by_xla = _corrected(lazy.lax.asinh, _correct_asinh)
acos_by_xla = _corrected(lazy.lax.acos, _correct_acos)
acosh_by_xla = _corrected(lazy.lax.acosh, _correct_imaginary)


@lazy.custom_jvp
def _exp_of_complex(z: Any) -> Any:
    """Return exp(z), which is zero if the real part is -inf, even if the imaginary part is infinite or NaN."""
    nothing = (lax.real(z) == -math.inf) & ~jnp.isfinite(lax.imag(z))
    return jnp.where(nothing, jnp.zeros((), z.dtype), lax.exp(z))


@_exp_of_complex.defjvp
def _exp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    y = _exp_of_complex(*primals)
    return y, tangents[0] * y


def exp_by_xla(x: Any) -> Any:
    """Return the exponential of real or complex numbers."""
    return _exp_of_complex(x) if x.dtype.kind == "c" else lax.exp(x)
