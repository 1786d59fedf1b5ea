"""The error function and its inverse in NumPy, for float32: the approximations that XLA uses, so that the numbers agree
to a rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["erf", "erf_inv"]


def _constants(*values: float) -> tuple[np.ndarray, ...]:
    return tuple([np.array(v, np.float32) for v in values])


_ERF_ABOVE = _constants(
    0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084
)  # fmt: skip
_ERF_BELOW = _constants(
    -1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885, 0.014070470171167667, 0.11098505178285362,
    0.49746925110067538, 1.0,
)  # fmt: skip
_ERF_IS_ONE = np.float32(3.7439211627767994)

_INVERSE_CENTRE = _constants(
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_INVERSE_TAIL = _constants(
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
_CENTRE_UNTIL, _CENTRE_MIDDLE, _TAIL_MIDDLE = _constants(5, 2.5, 3)


def erf(x: Any) -> Any:
    """The error function of float32 numbers: a rational function, odd, up to where erf is 1."""
    square = x * x
    found = x * _polynomial(square, _ERF_ABOVE) / _polynomial(square, _ERF_BELOW)
    return np.where(np.abs(x) < _ERF_IS_ONE, found, np.sign(x))


def erf_inv(x: Any) -> Any:
    """The inverse of the error function of float32 numbers: Giles' polynomials in w = -log(1 - x^2), one for the
    centre and one, in the root of w, for the tails."""
    w = -np.log1p(-x * x)
    found = _polynomial(w - _CENTRE_MIDDLE, _INVERSE_CENTRE)
    if not np.maximum.reduce(w, axis=None, initial=0) < _CENTRE_UNTIL:
        tail = _polynomial(np.sqrt(w) - _TAIL_MIDDLE, _INVERSE_TAIL)
        found = np.where(w < _CENTRE_UNTIL, found, np.where(np.isinf(w), w, tail))
    return found * x


def _polynomial(x: Any, coefficients: tuple[np.ndarray, ...]) -> Any:
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
