"""Estimate how long one thread takes for the longest loop of a program.

The estimate decides whether XLA divides loops among threads, as it does with every loop over half a megabyte. Dividing
may cost more than it saves: the other thread may have to be woken, or shares a core with the thread that waits (loop
over the 65 000 weights of a layer: 10 us in one thread; handing over half of it: 30 to 60 us).
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
    """Return the estimated seconds of the longest loop of a StableHLO module in one thread. For fused operations, the
    longest chain counts."""
    chains: dict[Any, float] = {}  # nanoseconds for each element of a value computed in a loop
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
    """Return the number of elements of a value, or infinity if it is unknown."""
    kind = ir.RankedTensorType(value.type)
    return prod(kind.shape) if kind.has_static_shape else inf
