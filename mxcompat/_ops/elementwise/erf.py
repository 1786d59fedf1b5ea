"""The error function and its inverse: for NumPy, which lacks them, and an inverse for XLA that is more accurate than
XLA's own.

There are two error functions. `erf` is accurate to a rounding, as MLX's users expect. `erf_as_xla` repeats XLA's own
approximation for float32, so that a random number is the same whether NumPy or XLA draws it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.policy import CACHED_ELEMENTS, LARGE_ELEMENTS, MANY_ROWS, PARTS_PER_THREAD
from mxcompat._graph.run.layout import contiguous
from mxcompat._graph.run.parts import in_parts, threads
from mxcompat._jax import jax, jnp, lazy
from mxcompat._native import native

from .host_log import log
from .slopes import with_slope

__all__ = ["erf", "erf_as_xla", "erf_by_xla", "erfinv", "erfinv_by_xla"]

_ERF_LIMIT = 3.95
_ERF_ABOVE = (
    -1.2966840607434883e-08, 4.640390388967881e-06, 3.779354020568983e-04, 3.8433735390767435e-03,
    5.427475616584058e-02, 1.8516924416423225e-01, 1.1283791692258276,
)  # fmt: skip
_ERF_BELOW = (
    6.269209189743629e-05, 1.3040612723177157e-03, 1.5443718772419589e-02, 1.1391104588569873e-01,
    4.9743537910476743e-01, 1.0,
)  # fmt: skip
"""Coefficients of a rational function of x squared, fitted to erf(x) / x with a relative error of 2e-9 for |x| up to
`_ERF_LIMIT`. Beyond this limit, erf(x) rounds to 1 in float32. `_native/kernels.c` has the same coefficients."""


def erf(x: Any) -> Any:
    """Return the error function of float32 or float64 numbers, accurate to a rounding."""
    if x.dtype == np.float64 or x.size <= MANY_ROWS:
        return _each(math.erf, x)
    if native is None:
        return _blockwise(_fitted_erf, x)
    out = np.empty(x.shape, np.float32)
    native.erf(out, contiguous(x))
    return out


def _fitted_erf(x: Any) -> Any:
    t = np.clip(x, -_ERF_LIMIT, _ERF_LIMIT).astype(np.float64)
    square = t * t
    return t * _polynomial(square, _ERF_ABOVE) / _polynomial(square, _ERF_BELOW)


def _float32(*values: float) -> tuple[np.ndarray, ...]:
    return tuple([np.array(v, np.float32) for v in values])


_XLA_ABOVE = _float32(
    0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084
)  # fmt: skip
_XLA_BELOW = _float32(
    -1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885, 0.014070470171167667, 0.11098505178285362,
    0.49746925110067538, 1.0,
)  # fmt: skip
_XLA_IS_ONE = np.float32(3.7439211627767994)


def erf_as_xla(x: Any) -> Any:
    """Return the error function of float32 numbers as XLA computes it: an odd rational function, up to the point where
    erf is 1."""
    square = x * x
    inside = x * _polynomial(square, _XLA_ABOVE) / _polynomial(square, _XLA_BELOW)
    return np.where(np.abs(x) < _XLA_IS_ONE, inside, np.sign(x))


_CENTRE = _float32(
    -7.382840561120929e-09, 1.2366437829314236e-07, -4.399038004976319e-07, -4.552156042336719e-06,
    3.822288636001758e-05, 0.00010055760503746569, -0.0023765722289681435, 0.004250507336109877, 0.24783293902873993,
    1.1273744106292725,
)  # fmt: skip
_TAIL = _float32(
    -0.00013399777526501566, 4.501690455072094e-06, 0.0013213536003604531, -0.003596607130020857, 0.005736257415264845,
    -0.007640158291906118, 0.009440375491976738, 1.0016751289367676, 2.832976818084717,
)  # fmt: skip
_CENTRE_UNTIL, _CENTRE_MIDDLE, _TAIL_MIDDLE = _float32(5.5, 1, 3)
"""Polynomials for erfinv(x) / x: of w = -log(1 - x^2) in the centre, and of its square root in the tails.

The method is that of M. Giles ("Approximating the erfinv function", 2010), fitted with a relative error of 3e-8. With
rounding, the error is 2 units in the last place.
"""


def erfinv(x: Any) -> Any:
    """Return the inverse of the error function: within 3e-7 for float32, within a few roundings for float64."""
    if x.dtype != np.float64:
        return _fitted_inverse(x) if x.size <= CACHED_ELEMENTS else _blockwise(_fitted_inverse, x)
    y = _fitted_inverse(x)
    inside = np.isfinite(y)
    for _ in range(2):  # take Newton steps; near 1, use erfc, because erf would lose digits
        size, goal = np.abs(y), np.abs(x)
        excess = np.where(goal < 0.5, goal - _each(math.erf, size), _each(math.erfc, size) - (1.0 - goal))
        step = excess * (0.5 * math.sqrt(math.pi)) * np.exp(size * size)
        y = np.where(inside, y + np.copysign(1.0, x) * step, y)
    return y


def _fitted_inverse(x: Any) -> Any:
    w = 0 - log((1 - x) * (1 + x))  # 1 - x * x would lose digits near 1; this form also keeps the sign of a NaN
    ratio = _polynomial(w - _CENTRE_MIDDLE, _CENTRE)
    if not np.maximum.reduce(w, axis=None, initial=0) < _CENTRE_UNTIL:
        tail = _polynomial(np.sqrt(w) - _TAIL_MIDDLE, _TAIL)
        ratio = np.where(w < _CENTRE_UNTIL, ratio, np.where(np.isinf(w), w, tail))
    return x * ratio  # if both are NaN, the result is the first


def _erf_slope(x: Any) -> Any:
    return jnp.asarray(2 / math.sqrt(math.pi), x.dtype) * jnp.exp(-(x * x))


erf_by_xla = with_slope(lambda x: jax.lax.erf(x), _erf_slope)
"""XLA's own error function. Its second derivative at infinity is NaN, like MLX's, in all versions of JAX."""


@lazy.custom_jvp
def erfinv_by_xla(x: Any) -> Any:
    """Return the inverse of the error function of float32 or float64 numbers, computed by XLA.

    XLA's own function for float32 is off by 65 units in the last place near 1.
    """
    if x.dtype == np.float64:
        return jax.lax.erf_inv(x)
    # abs() keeps XLA from merging the 1 with a constant that was added to x, which would skip a rounding
    size = jnp.abs(x)
    w = -jnp.log((1 - size) * (1 + size))
    centre, tail = _polynomial(w - _CENTRE_MIDDLE, _CENTRE), _polynomial(jnp.sqrt(w) - _TAIL_MIDDLE, _TAIL)
    return jnp.where(w < _CENTRE_UNTIL, centre, jnp.where(jnp.isinf(w), w, tail)) * x


@erfinv_by_xla.defjvp
def _erfinv_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    y = erfinv_by_xla(*primals)
    return y, tangents[0] * (jnp.asarray(0.5 * math.sqrt(math.pi), y.dtype) * jnp.exp(y * y))


def _blockwise(function: Callable[[Any], Any], x: Any) -> Any:
    """Apply a function block by block. Its results are float32, or are rounded to it."""
    if x.size <= CACHED_ELEMENTS:
        return function(x).astype(np.float32)
    flat = x.ravel()
    out = np.empty(flat.shape, np.float32)
    part = -(-flat.size // (PARTS_PER_THREAD * threads())) if flat.size >= LARGE_ELEMENTS else flat.size

    def compute(k: int) -> None:
        stop = min((k + 1) * part, flat.size)
        for start in range(k * part, stop, CACHED_ELEMENTS):
            block = slice(start, min(start + CACHED_ELEMENTS, stop))
            out[block] = function(flat[block])

    in_parts(compute, -(-flat.size // part))
    return out.reshape(x.shape)


def _polynomial(x: Any, coefficients: tuple[Any, ...]) -> Any:
    first, second, *others = coefficients
    total = x * first
    total = total + second
    if type(total) is not np.ndarray:
        for c in others:
            total = total * x + c
        return total
    for c in others:
        np.multiply(total, x, total)
        np.add(total, c, total)
    return total


def _each(function: Callable[[float], float], x: Any) -> Any:
    flat = x.ravel().tolist()
    return np.fromiter(map(function, flat), x.dtype, len(flat)).reshape(x.shape)
