"""Unrolled reductions: on a CPU windows of few elements are reduced in turn, one element of all of them at once.

XLA unrolls what is reduced over one axis. Over several, as pooling does, it makes loops of them, inside which nothing
is vectorized.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from mxcompat._compat.dialects import stablehlo

from .. import policy
from .modules import COMBINE, reduction, replace

__all__ = ["unroll_reductions"]


def unroll_reductions(module: Any) -> None:
    """Change a module of StableHLO in place."""
    replace(module, "stablehlo.reduce", _is_short, _unrolled)


def _is_short(op: Any) -> bool:
    """Whether it reduces few elements, over several axes, of a large array of floats."""
    found = reduction(op)
    if found is None or found.combine not in COMBINE or len(found.axes) < 2:
        return False
    shape = found.kind.shape
    return 1 < prod(shape[axis] for axis in found.axes) <= policy.UNROLLED and prod(shape) >= policy.UNROLLED_ELEMENTS


def _unrolled(op: Any) -> Any:
    """What a reduction gives, its elements taken in order."""
    value, start = op.operands
    kind, axes, name = reduction(op)
    result = op.results[0].type
    total = stablehlo.broadcast_in_dim(result, start, [])
    for place in product(*(range(kind.shape[axis]) for axis in axes)):
        low, high = [0] * kind.rank, list(kind.shape)
        for axis, k in zip(axes, place, strict=True):
            low[axis], high[axis] = k, k + 1
        part = stablehlo.slice(value, low, high, [1] * kind.rank)
        total = COMBINE[name](total, stablehlo.reshape(result, part))
    return total
