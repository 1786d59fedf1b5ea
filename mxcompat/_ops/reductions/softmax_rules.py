"""Rules of softmax. Half precision is widened to float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._graph.run.values import in_order

from ..define import TABLE
from .axes import over_axes
from .blocks import widened
from .precision import inexact, narrowed

__all__ = ["powers_and_sum", "shifted_powers"]


@HOST.of(TABLE["softmax"])
def _softmax(out: Aval, params: tuple, x: Any) -> Any:
    if not out.size:
        return x
    powers, total = powers_and_sum(inexact(x), params[0])
    powers /= total
    return narrowed(powers, out)


def powers_and_sum(x: Any, axes: Any) -> tuple[Any, Any]:
    """Return `exp(x - shift)` and its sum, with the axes kept. `shift` is the largest element along the axes."""
    powers = shifted_powers(x, np.maximum.reduce(x.real if x.dtype.kind == "c" else x, axes, None, None, True))
    return powers, np.add.reduce(powers, axes, None, None, True)


def shifted_powers(x: Any, shift: Any) -> Any:
    """Return `exp(x - shift)`, in float32 at least."""
    x = inexact(x)
    # `out` makes an array, also where NumPy would make a scalar
    powers = np.subtract(x, shift, out=np.empty(x.shape, x.dtype))
    return np.exp(powers, powers)


@PULLBACK.of(TABLE["softmax"])
def _softmax_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    y, g = in_order(_softmax_of(x, y, params)), in_order(widened(g))
    axes = params[0]
    if axes == (x.ndim - 1,) and y.dtype.kind != "c":
        mean = np.vecdot(y, g)[..., None]
    else:
        mean = np.add.reduce(y * g, axes, None, None, True)
    slopes = g - mean
    slopes *= y
    return (slopes,)


@PUSHFORWARD.of(TABLE["softmax"])
def _softmax_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _softmax_back(widened(tangents[0]), y, params, None, x)[0]


def _softmax_of(x: Any, y: Any, params: tuple) -> Any:
    """Return the result without rounding to half precision."""
    if y.dtype.itemsize != 2 or not y.size:
        return y
    powers, total = powers_and_sum(inexact(x), params[0])
    return powers / total


BATCH[TABLE["softmax"]] = over_axes
