"""Tables of one-line expressions, run on both sides. `A` is short for `mx.array`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle import check, ours, real, run

__all__ = ["cases", "check_derivatives", "evaluate", "jvp", "vjp"]


def cases(table: str) -> list[str]:
    """Return the lines of a table."""
    return table.strip().splitlines()


def _names(mx: Any) -> dict[str, Any]:
    return {"mx": mx, "A": mx.array, "np": np, "nan": float("nan"), "inf": float("inf")}


def evaluate(expression: str) -> Callable[[Any], Any]:
    """Return the function of mx that an expression stands for."""
    return lambda mx: eval(expression, _names(mx))


def _function(mx: Any, expression: str) -> Callable[..., Any]:
    return lambda *xs: eval(expression, _names(mx) | dict(zip("xyz", xs, strict=False)))


def _counting(mx: Any, like: Any) -> Any:
    """Return 1, 2, 3, … in the shape and dtype of an array: a direction that distinguishes its elements."""
    return mx.arange(1, like.size + 1).reshape(like.shape).astype(like.dtype)


def vjp(expression: str) -> Callable[..., Any]:
    """Return the gradients of an expression of `x`, `y`, `z`, weighted by 1, 2, 3, …"""

    def pull(mx: Any, *xs: Any) -> Any:
        function = _function(mx, expression)
        return mx.vjp(function, list(xs), [_counting(mx, function(*xs))])[1]

    return pull


def jvp(expression: str) -> Callable[..., Any]:
    """Return the derivative of an expression of `x`, `y`, `z` in the direction 1, 2, 3, …"""
    return lambda mx, *xs: mx.jvp(_function(mx, expression), list(xs), [_counting(mx, x) for x in xs])


def check_derivatives(expression: str, *arrays: np.ndarray) -> None:
    """Compare both derivatives with real MLX's. If that has no jvp, mxcompat's must agree with its own vjp instead."""
    check(vjp(expression), *arrays)
    if not isinstance(run(real, jvp(expression), arrays), Exception):
        check(jvp(expression), *arrays)
        return
    xs = [ours.array(x) for x in arrays]
    tangents = jvp(expression)(ours, *xs)[1]
    cotangents = vjp(expression)(ours, *xs)
    out = [_counting(ours, t) for t in tangents]
    pushed = sum(ours.sum(t * c).item() for t, c in zip(tangents, out, strict=True))
    pulled = sum(ours.sum(g * _counting(ours, x)).item() for g, x in zip(cotangents, xs, strict=True))
    assert abs(pushed - pulled) <= 1e-5 * abs(pushed), f"{expression}: jvp gives {pushed}, vjp {pulled}"
