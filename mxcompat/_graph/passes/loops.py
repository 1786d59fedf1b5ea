"""Loops: how long one thread takes for what XLA computes in one loop over an array.

XLA divides among its threads whatever reads and writes half a megabyte. A loop over the 65 000 weights of a layer takes
one thread 10 us; to hand the half of it to another takes 30 to 60 where that has to be woken, or has to share a core
with the thread that waits for the result.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

from mxcompat._compat.dialects import ir

from .. import policy
from .modules import FUSED

__all__ = ["longest_loop"]

_REDUCTIONS = frozenset({"stablehlo.reduce", "stablehlo.reduce_window"})


def longest_loop(module: Any) -> float:
    """About how many seconds the longest loop of a module of StableHLO takes one thread. What is fused into it is
    estimated by the longest chain of its operations."""
    chains: dict[Any, float] = {}  # the nanoseconds for each element of a value that is computed in a loop
    longest = 0.0

    def visit(op: Any) -> Any:
        nonlocal longest
        if op.name in FUSED or op.name in policy.LOOP_NANOSECONDS:
            (value,) = op.results
            count = _elements(value)
            fused = [chains.get(x, 0.0) for x in op.operands if _elements(x) == count]
            chains[value] = max(fused, default=0.0) + policy.LOOP_NANOSECONDS.get(op.name, policy.STEP_NANOSECONDS)
            longest = max(longest, count * (chains[value] + policy.MOVED_NANOSECONDS))
        elif op.name in _REDUCTIONS:
            value = op.operands[0]
            longest = max(longest, _elements(value) * (chains.get(value, 0.0) + policy.MOVED_NANOSECONDS))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return longest * 1e-9


def _elements(value: Any) -> float:
    """How many elements a value has; infinity, where that is not known."""
    kind = ir.RankedTensorType(value.type)
    return prod(kind.shape) if kind.has_static_shape else inf
