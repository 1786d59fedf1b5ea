"""Host derivatives of elementwise ops of two arrays: for each operand, a map from its tangent to the result's.

This map multiplies each element by a number, so it is its own transpose. One table thus serves pullbacks and
pushforwards. Ties and kinks are JAX's. Half precision is computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD, READS_INPUTS, READS_NOTHING, RESIDUALS, Residuals

from ..define import TABLE
from .host_binary import larger, real_power
from .select import select

__all__: list[str] = []

Partial = Callable[[Any, Any, Any, Any], Any]
"""A function of `(change, a, b, y)` that returns the change of `y` for this change of one operand."""


def _chosen(mask: Any, change: Any) -> Any:
    return select(mask, change, change.dtype.type(0))


def _first_is_max(a: Any, b: Any) -> Any:
    return larger(a, b) | (a != a) if a.dtype.kind == "c" else a > b


def _first_is_min(a: Any, b: Any) -> Any:
    return larger(b, a) | (a != a) if a.dtype.kind == "c" else a < b


def _second_is_max(a: Any, b: Any) -> Any:
    # of two real numbers, neither is chosen if one is NaN
    return ~_first_is_max(a, b) if a.dtype.kind == "c" else a <= b


def _second_is_min(a: Any, b: Any) -> Any:
    return ~_first_is_min(a, b) if a.dtype.kind == "c" else a >= b


def _vanishing(a: Any, b: Any) -> Any:
    return (a == 0) & (b.real > 0)


def _by_base(t: Any, a: Any, b: Any, y: Any) -> Any:
    if b.ndim == 0 and b == 2:
        return t * (a + a)
    if a.dtype.kind != "c":
        return t * (b * real_power(a, b - 1))
    return _chosen(~_vanishing(a, b), t * (b * np.power(a, b - 1)))


def _by_exponent(t: Any, a: Any, b: Any, y: Any) -> Any:
    if a.dtype.kind == "c":
        return _chosen(~_vanishing(a, b), t * (np.log(np.where(a == 0, a.dtype.type(1), a)) * y))
    return t * _chosen(y != 0, np.log(a) * y)


def _share(t: Any, a: Any, b: Any, y: Any) -> Any:
    """Return the change of y = log(exp(a) + exp(b)) for the change `t` of its first operand."""
    return t * (np.exp(a - y) if a.dtype.kind == "c" else 1 / (1 + np.exp(b - a)))


_PARTIALS: dict[str, tuple[Partial, Partial]] = {
    "add": (lambda t, a, b, y: t, lambda t, a, b, y: t),
    "subtract": (lambda t, a, b, y: t, lambda t, a, b, y: -t),
    "multiply": (lambda t, a, b, y: t * b, lambda t, a, b, y: t * a),
    "divide": (lambda t, a, b, y: t / b, lambda t, a, b, y: -t * (y / b)),
    "maximum": (
        lambda t, a, b, y: _chosen(_first_is_max(a, b), t),
        lambda t, a, b, y: _chosen(_second_is_max(a, b), t),
    ),
    "minimum": (
        lambda t, a, b, y: _chosen(_first_is_min(a, b), t),
        lambda t, a, b, y: _chosen(_second_is_min(a, b), t),
    ),
    "remainder": (lambda t, a, b, y: t, lambda t, a, b, y: -t * np.floor(a / b)),
    "power": (_by_base, _by_exponent),
    "logaddexp": (_share, lambda t, a, b, y: _share(t, b, a, y)),
    "arctan2": (
        lambda t, a, b, y: t * (b / (a * a + b * b)),
        lambda t, a, b, y: t * (-a / (a * a + b * b)),
    ),
}


_ROUNDED = {"remainder"}
"""Ops that are not widened for half precision: as in MLX, the quotient is rounded before it is rounded down."""


def _cast(x: Any, y: Any, widen: bool = True) -> Any:
    """Return an operand in the dtype of the result, or in float32 for half precision."""
    dtype = y.dtype
    if widen and dtype.itemsize == 2:
        return x.astype(np.float32) if x.dtype == dtype else _cast(converted_on_host(x, from_numpy(dtype)), y)  # type: ignore[arg-type]
    return x if x.dtype is dtype else converted_on_host(x, from_numpy(dtype))  # type: ignore[arg-type]


def _rules(name: str, first: Partial, second: Partial) -> None:
    widen = name not in _ROUNDED

    @PULLBACK.of(TABLE[name])
    def pull(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], a: Any, b: Any) -> tuple:
        a, b = _cast(a, y, widen), _cast(b, y, widen)
        if widen and y.dtype.itemsize == 2:
            g, y = g.astype(np.float32), y.astype(np.float32)
        return first(g, a, b, y) if needs_grad[0] else None, second(g, a, b, y) if needs_grad[1] else None

    @PUSHFORWARD.of(TABLE[name])
    def push(tangents: Sequence[Any], y: Any, params: tuple, a: Any, b: Any) -> Any:
        da, db = (t if t is None else _cast(t, y, widen) for t in tangents)
        a, b = _cast(a, y, widen), _cast(b, y, widen)
        if widen and y.dtype.itemsize == 2:
            y = y.astype(np.float32)
        if db is None:
            return first(da, a, b, y)
        if da is None:
            return second(db, a, b, y)
        return first(da, a, b, y) + second(db, a, b, y)


for _name, _pair in _PARTIALS.items():
    _rules(_name, *_pair)

RESIDUALS.update({
    **dict.fromkeys([TABLE[name] for name in ("add", "subtract", "floor_divide")], READS_NOTHING),
    **dict.fromkeys(
        [TABLE[name] for name in ("multiply", "maximum", "minimum", "remainder", "arctan2")],
        READS_INPUTS,
    ),
    TABLE["divide"]: Residuals(slice(1, None)),
    TABLE["where"]: Residuals(slice(1), False),
})  # fmt: skip

PULLBACK.of(TABLE["floor_divide"])(lambda g, y, params, needs_grad, a, b: (None, None))
PUSHFORWARD.of(TABLE["floor_divide"])(lambda tangents, y, params, a, b: np.zeros((), y.dtype))


@PULLBACK.of(TABLE["where"])
def _pull_where(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], condition: Any, a: Any, b: Any) -> tuple:
    first = condition != 0
    return None, _chosen(first, g) if needs_grad[1] else None, _chosen(~first, g) if needs_grad[2] else None


@PUSHFORWARD.of(TABLE["where"])
def _push_where(tangents: Sequence[Any], y: Any, params: tuple, condition: Any, a: Any, b: Any) -> Any:
    zero = y.dtype.type(0)
    _, da, db = tangents
    if da is None and db is None:
        return zero
    # MLX multiplies by a number, so a NaN tangent appears even if its operand is not chosen
    chosen = (condition != 0).astype(y.dtype)
    moved = zero if da is None else chosen * _cast(da, y)
    return moved if db is None else moved + (1 - chosen) * _cast(db, y)
