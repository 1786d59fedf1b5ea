"""Cut long chains of elementwise operations of which several values are read, on CPUs.

XLA's fusion recomputes the shared operations for each value that is read. If all states of a recurrence of 200 steps
are results, the first step is computed 200 times. Compiling that took minutes and gigabytes. A call that XLA must not
inline prevents the fusion (`kept`): values before a cut are then read from memory.
"""

from __future__ import annotations

from typing import Any

from mxcompat._compat.dialects import ir

from .. import policy
from .modules import COSTLY, FUSED, bodies, called, keep

__all__ = ["cut_chains"]

_JOINS = "stablehlo.concatenate"
"""An operation that XLA fuses with each of its operands separately."""


def cut_chains(module: Any) -> None:
    """Cut chains, in place in a StableHLO module for one device."""
    functions = bodies(module)
    block = functions["main"]
    fused = _Fused(functions)
    operations = [op.operation for op in block.operations]
    if len(operations) < policy.FEW_INSTRUCTIONS:
        return
    materialized = {v for op in operations if op.name == _JOINS or not fused.holds(op) for v in op.operands}
    if not _is_computed_often(operations, materialized, fused):
        return
    cuts = _cuts(operations, materialized, fused)
    with module.context, ir.Location.unknown():
        for values in cuts:
            for value, after in values:
                keep(module, value, after)


class _Fused:
    """Tells which operations XLA fuses with their consumers, including calls of functions that contain only such
    operations."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions
        self._known: dict[str, bool] = {}

    def holds(self, op: Any) -> bool:
        name = called(op)
        if name is None:
            return op.name in FUSED or op.name in COSTLY or op.name == "stablehlo.constant"
        if name not in self._known:
            *inner, _ = self._functions[name].operations
            self._known[name] = all(self.holds(o.operation) for o in inner)
        return self._known[name]


def _reach(op: Any, k: int, reaches: dict[Any, int]) -> int:
    """Return a bitmask of the operations that are computed together with operation k, including k."""
    reach = 1 << k
    for operand in op.operands:
        reach |= reaches.get(operand, 0)
    return reach


def _is_computed_often(operations: list[Any], materialized: set[Any], fused: _Fused) -> bool:
    """Return True if fusion would recompute many operations many times."""
    reaches: dict[Any, int] = {}
    count = 0
    for k, op in enumerate(operations):
        if fused.holds(op):
            reach = _reach(op, k, reaches)
            for value in op.results:
                reaches[value] = reach
                count += reach.bit_count() if value in materialized else 0
    return count > max(policy.MANY_ELEMENTS, policy.REPEATED_TIMES * len(operations))


def _cuts(operations: list[Any], materialized: set[Any], fused: _Fused) -> list[list[tuple[Any, Any]]]:
    """Return the cuts, one where a chain's last value is read. A cut lists (value, operation) pairs: each value that
    later operations need, and the operation after which the chain is cut."""
    readers = [(k, op) for k, op in enumerate(operations) if op.name != _JOINS and fused.holds(op)]
    last = {value: k for k, op in readers for value in op.operands}
    reaches: dict[Any, int] = {}
    cuts = []
    for k, op in enumerate(operations):
        if not fused.holds(op):
            continue
        reach = _reach(op, k, reaches)
        reaches.update(dict.fromkeys(op.results, reach))
        if reach.bit_count() >= policy.FEW_INSTRUCTIONS and not materialized.isdisjoint(op.results):
            near = {value: r for value, r in reaches.items() if r.bit_count() <= policy.REPEATED_TIMES}
            cuts.append([(value, op) for value in reaches if value not in near and last.get(value, -1) > k])
            reaches = near
    return cuts
