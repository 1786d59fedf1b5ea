"""The error function and its inverse on NumPy arrays, which NumPy lacks.

There are two of the error function: `erf` is exact to a rounding, as MLX's users see it. `erf_as_xla` has XLA's own
approximation for float32, so that a random number is the same whether NumPy draws it or XLA does. The inverse is XLA's
in both uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.policy import CACHED_ELEMENTS, LOOPED_ERF

__all__ = ["erf", "erf_as_xla", "erfinv"]

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
    return _blockwise(_fitted_erf, x)


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
    """The error function of float32 numbers, as XLA has it: a rational function, odd, up to where erf is 1."""
    square = x * x
    found = x * _polynomial(square, _XLA_ABOVE) / _polynomial(square, _XLA_BELOW)
    return np.where(np.abs(x) < _XLA_IS_ONE, found, np.sign(x))


_CENTRE = _float32(
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = _float32(
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
_CENTRE_UNTIL, _CENTRE_MIDDLE, _TAIL_MIDDLE = _float32(5, 2.5, 3)
"""M. Giles, "Approximating the erfinv function" (2010)."""


def erfinv(x: Any) -> Any:
    """The inverse of the error function: of float32 within 4e-7, as XLA has it; of float64 within a few roundings."""
    if x.dtype != np.float64:
        return _giles(x) if x.size <= CACHED_ELEMENTS else _blockwise(_giles, x)
    y = _giles(x)
    inside = np.isfinite(y)
    for _ in range(2):  # Newton's steps; by the complement, where what is near 1 would lose its digits
        size, goal = np.abs(y), np.abs(x)
        excess = np.where(goal < 0.5, goal - _each(math.erf, size), _each(math.erfc, size) - (1.0 - goal))
        step = excess * (0.5 * math.sqrt(math.pi)) * np.exp(size * size)
        y = np.where(inside, y + np.copysign(1.0, x) * step, y)
    return y


def _giles(x: Any) -> Any:
    """Polynomials in w = -log(1 - x^2), one for the centre and one, in the root of w, for the tails."""
    w = -np.log1p(-x * x)
    found = _polynomial(w - _CENTRE_MIDDLE, _CENTRE)
    if not np.maximum.reduce(w, axis=None, initial=0) < _CENTRE_UNTIL:
        tail = _polynomial(np.sqrt(w) - _TAIL_MIDDLE, _TAIL)
        found = np.where(w < _CENTRE_UNTIL, found, np.where(np.isinf(w), w, tail))
    return found * x


def _blockwise(function: Callable[[Any], Any], x: Any) -> Any:
    """A function with results that are float32, or are rounded to it."""
    if x.size <= CACHED_ELEMENTS:
        return function(x).astype(np.float32)
    flat = x.ravel()
    out = np.empty(flat.shape, np.float32)
    for start in range(0, flat.size, CACHED_ELEMENTS):
        out[start : start + CACHED_ELEMENTS] = function(flat[start : start + CACHED_ELEMENTS])
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
