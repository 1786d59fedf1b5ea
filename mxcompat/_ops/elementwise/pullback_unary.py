"""Derivatives, on the host, of the elementwise ops of one array: mostly a table of slopes, dy/dx as a function of x and
y.

They are JAX's derivatives, also where these differ from the textbook's (at kinks and poles). Half precision is computed
in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD, RESIDUALS, Residuals

from ..define import TABLE
from ..indexing import at  # noqa: F401  # its records, in TABLE
from . import unary  # noqa: F401  # and its
from .host_unary import sigmoid

__all__: list[str] = []

_SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "square": lambda x, y: x + x,
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: -0.5 * (y / x),
    "reciprocal": lambda x, y: -(y * y),
    "update_reciprocal": lambda x, y: -(y * y),
    "exp": lambda x, y: y,
    "expm1": lambda x, y: y + 1,
    "erf": lambda x, y: (2 / math.sqrt(math.pi)) * np.exp(-(x * x)),
    "erfinv": lambda x, y: (math.sqrt(math.pi) / 2) * np.exp(y * y),
    "sin": lambda x, y: np.cos(x),
    "cos": lambda x, y: -np.sin(x),
    "tan": lambda x, y: 1 + y * y,
    "arcsin": lambda x, y: 1 / np.sqrt(1 - x * x),
    "arccos": lambda x, y: -1 / np.sqrt(1 - x * x),
    "arctan": lambda x, y: 1 / (1 + x * x),
    "sinh": lambda x, y: np.cosh(x),
    "cosh": lambda x, y: np.sinh(x),
    "tanh": lambda x, y: 1 - y * y,
    "arcsinh": lambda x, y: 1 / np.sqrt(x * x + 1),
    "arccosh": lambda x, y: 1 / np.sqrt(x * x - 1),
    "arctanh": lambda x, y: 1 / (1 - x * x),
    "log": lambda x, y: 1 / x,
    "log2": lambda x, y: (1 / math.log(2)) / x,
    "log10": lambda x, y: (1 / math.log(10)) / x,
    "log1p": lambda x, y: 1 / (1 + x),
    "sigmoid": lambda x, y: y * (1 - y),
    "degrees": lambda x, y: x.dtype.type(180 / math.pi),
    "radians": lambda x, y: x.dtype.type(math.pi / 180),
}

_FORWARD_SLOPES = {"expm1": lambda x, y: np.exp(x)}
"""Slopes for forward mode, for ops whose formulas in MLX differ between forward and reverse mode."""


def _sign(x: Any) -> Any:
    """Return the sign of a real number; 0 for NaN and for -0, as in MLX."""
    return np.where(np.abs(x) > 0, np.sign(x), x.dtype.type(0))


_PULLS: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda g, x: g * (np.conj(x) / _replaced(np.abs(x)) if x.dtype.kind == "c" else _sign(x)),
    "positive": lambda g, x: g,
    "negative": lambda g, x: -g,
    "update_negative": lambda g, x: -g,
    "real": lambda g, x: g,
    "imag": lambda g, x: g * np.complex64(-1j) if x.dtype.kind == "c" else None,
    "conj": lambda g, x: np.conj(g) if x.dtype.kind == "c" else g,
}
"""Functions for the cotangents of ops that are linear or not holomorphic."""

_PUSHES: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda t, x: (t * (np.conj(x) / _replaced(np.abs(x)))).real if x.dtype.kind == "c" else t * _sign(x),
    "positive": lambda t, x: t,
    "negative": lambda t, x: -t,
    "update_negative": lambda t, x: -t,
    "real": lambda t, x: t.real,
    "imag": lambda t, x: t.imag,
    "conj": lambda t, x: np.conj(t) if x.dtype.kind == "c" else t,
}
"""Functions for the tangents of the same ops."""

_STEPS = ("sign", "round", "trunc", "floor", "ceil")

_OF_RESULT = ("exp", "expm1", "sqrt", "reciprocal", "update_reciprocal", "tan", "tanh", "erfinv")
_OF_BOTH = ("rsqrt", "sigmoid")
_OF_NEITHER = ("degrees", "radians", *(name for name in _PULLS if name != "abs"), *_STEPS)
"""Ops whose derivatives are computed from the result, from argument and result, or from neither.

Other ops need only the argument.
"""


def _replaced(x: Any) -> Any:
    """Return x with 1 in place of 0."""
    return np.where(x == 0, x.dtype.type(1), x)


def _slope_rules(name: str, back: Callable[[Any, Any], Any], forth: Callable[[Any, Any], Any]) -> None:
    def slope_at(slope: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        if x.dtype.itemsize == 2:
            x = x.astype(np.float32)
            # XLA does not round the result of sigmoid first
            y = sigmoid(x) if name == "sigmoid" else y.astype(np.float32)
        return slope(x, y)

    PULLBACK.of(TABLE[name])(lambda g, y, params, needs_grad, x: (g * slope_at(back, x, y),))
    PUSHFORWARD.of(TABLE[name])(lambda tangents, y, params, x: tangents[0] * slope_at(forth, x, y))


def _linear_rules(name: str, pull: Callable[[Any, Any], Any], push: Callable[[Any, Any], Any]) -> None:
    PULLBACK.of(TABLE[name])(lambda g, y, params, needs_grad, x: (pull(g, x),))
    PUSHFORWARD.of(TABLE[name])(lambda tangents, y, params, x: push(tangents[0], x))


for _name, _slope in _SLOPES.items():
    _slope_rules(_name, _slope, _FORWARD_SLOPES.get(_name, _slope))
for _name, _pull in _PULLS.items():
    _linear_rules(_name, _pull, _PUSHES[_name])
for _name in {*_SLOPES, *_PULLS, *_STEPS}.difference(_OF_BOTH):
    _argument = slice(0) if _name in _OF_RESULT or _name in _OF_NEITHER else slice(None)
    RESIDUALS[TABLE[_name]] = Residuals(_argument, _name in _OF_RESULT)
for _name in _STEPS:
    PULLBACK.of(TABLE[_name])(lambda g, y, params, needs_grad, x: (None,))
    PUSHFORWARD.of(TABLE[_name])(lambda tangents, y, params, x: np.zeros((), y.dtype))


@PULLBACK.of(TABLE["nan_to_num"])
def _pull_nan_to_num(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], x: Any, *values: Any) -> tuple:
    zero = g.dtype.type(0)
    chosen = (np.isfinite(x), x != x, x == x.dtype.type(math.inf), x == x.dtype.type(-math.inf))
    return tuple([np.where(c, g, zero) if w else None for c, w in zip(chosen, needs_grad, strict=True)])


@PUSHFORWARD.of(TABLE["nan_to_num"])
def _push_nan_to_num(tangents: Sequence[Any], y: Any, params: tuple, x: Any, *values: Any) -> Any:
    zero = y.dtype.type(0)
    t, nan, posinf, neginf = (zero if t is None else t for t in tangents)
    return np.where(np.isfinite(x), t, np.where(x != x, nan, np.where(x > 0, posinf, neginf)))
