"""Functions that NumPy lacks, on NumPy arrays: the error function and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.policy import CACHED_ELEMENTS, LOOPED_ERF

__all__ = ["erf", "erfinv"]

_ERF_LIMIT = 3.95
_ERF_ABOVE = (
    -1.2966840607434883e-08, 4.640390388967881e-06, 3.779354020568983e-04, 3.8433735390767435e-03,
    5.427475616584058e-02, 1.8516924416423225e-01, 1.1283791692258276,
)  # fmt: skip
_ERF_BELOW = (
    6.269209189743629e-05, 1.3040612723177157e-03, 1.5443718772419589e-02, 1.1391104588569873e-01,
    4.9743537910476743e-01, 1.0,
)  # fmt: skip
"""A rational function of x squared, fitted to erf(x) / x with a relative error of 2e-9 up to the limit, where the rest
is below half a rounding of float32."""


def erf(x: Any) -> Any:
    """The error function of float32 or float64, within a rounding."""
    if x.dtype == np.float64 or x.size <= LOOPED_ERF:
        return _each(math.erf, x)
    return _blockwise(_rational_erf, x)


def _rational_erf(x: Any) -> Any:
    t = np.clip(x, -_ERF_LIMIT, _ERF_LIMIT).astype(np.float64)
    square = t * t
    t *= _polynomial(_ERF_ABOVE, square)
    t /= _polynomial(_ERF_BELOW, square)
    return t


_CENTER = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""M. Giles, "Approximating the erfinv function" (2010): polynomials in w = -log(1 - x^2), less 2.5, or in its root,
less 3, from w = 5 on."""


def erfinv(x: Any) -> Any:
    """The inverse of the error function, of float32 or float64: within 4e-7 for the one, a few roundings for the
    other."""
    if x.dtype != np.float64:
        return _blockwise(_rough_erfinv, x)
    y = _rough_erfinv(x)
    inside = np.isfinite(y)
    for _ in range(2):  # Newton's steps; by the complement, where what is near 1 would lose its digits
        size, goal = np.abs(y), np.abs(x)
        excess = np.where(goal < 0.5, goal - _each(math.erf, size), _each(math.erfc, size) - (1.0 - goal))
        step = excess * (0.5 * math.sqrt(math.pi)) * np.exp(size * size)
        y = np.where(inside, y + np.copysign(1.0, x) * step, y)
    return y


def _rough_erfinv(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    w = -np.log1p(-x * x)
    y = _polynomial(_CENTER, w - 2.5)
    far = w >= 5.0
    if far.any():
        y = np.where(far, _polynomial(_TAIL, np.sqrt(w) - 3.0), y)
        return np.where(np.abs(x) == 1.0, np.copysign(np.inf, x), x * y)
    return x * y


def _blockwise(function: Callable[[Any], Any], x: Any) -> Any:
    """A function of float32, computed in float64."""
    if x.size <= CACHED_ELEMENTS:
        return function(x).astype(np.float32)
    flat = x.ravel()
    out = np.empty(flat.shape, np.float32)
    for start in range(0, flat.size, CACHED_ELEMENTS):
        out[start : start + CACHED_ELEMENTS] = function(flat[start : start + CACHED_ELEMENTS])
    return out.reshape(x.shape)


def _polynomial(coefficients: tuple[float, ...], t: Any) -> Any:
    total = coefficients[0] * t + coefficients[1]
    for c in coefficients[2:]:
        total *= t
        total += c
    return total


def _each(function: Callable[[float], float], x: Any) -> Any:
    flat = x.ravel().tolist()
    return np.fromiter(map(function, flat), x.dtype, len(flat)).reshape(x.shape)
