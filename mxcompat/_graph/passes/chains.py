"""Chains: on a CPU long chains of elementwise operations, of which several values are wanted, are cut.

XLA computes what it fuses again for each value that is wanted of it: of a recurrence of 200 steps, whose states are all
results, the first step 200 times. To compile that took minutes and gigabytes. A call that XLA is told not to inline it
does not fuse (`kept`): what is read after a cut comes from memory.
"""

from __future__ import annotations

from typing import Any

from mxcompat._compat.dialects import ir

from .. import policy
from .modules import COSTLY, FUSED, bodies, called, keep

__all__ = ["cut_chains"]

_JOINS = "stablehlo.concatenate"
"""What XLA fuses with each of its operands apart."""


def cut_chains(module: Any) -> None:
    """Change a module of StableHLO, for one device, in place."""
    functions = bodies(module)
    block = functions["main"]
    fused = _Fused(functions)
    operations = [op.operation for op in block.operations]
    if len(operations) < policy.CHAIN:
        return
    wanted = {v for op in operations if op.name == _JOINS or not fused.holds(op) for v in op.operands}
    if not _is_computed_often(operations, wanted, fused):
        return
    cuts = _cuts(operations, wanted, fused)
    with module.context, ir.Location.unknown():
        for values in cuts:
            for value, after in values:
                keep(module, value, after)


class _Fused:
    """Which operations XLA fuses with what reads them; calls, too, of functions that hold nothing else."""

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
    """The operations behind operation k, itself included, which are computed along with it: a bit for each."""
    reach = 1 << k
    for operand in op.operands:
        reach |= reaches.get(operand, 0)
    return reach


def _is_computed_often(operations: list[Any], wanted: set[Any], fused: _Fused) -> bool:
    """Whether XLA would compute the operations many times over, and many of them."""
    reaches: dict[Any, int] = {}
    count = 0
    for k, op in enumerate(operations):
        if fused.holds(op):
            reach = _reach(op, k, reaches)
            for value in op.results:
                reaches[value] = reach
                count += reach.bit_count() if value in wanted else 0
    return count > max(policy.RECOMPUTED, policy.RECOMPUTED_TIMES * len(operations))


def _cuts(operations: list[Any], wanted: set[Any], fused: _Fused) -> list[list[tuple[Any, Any]]]:
    """Where to cut: of each cut the values from which others are computed behind it, with the operation that it comes
    after. There is one wherever a value is wanted that is the end of a chain."""
    readers = [(k, op) for k, op in enumerate(operations) if op.name != _JOINS and fused.holds(op)]
    last = {value: k for k, op in readers for value in op.operands}
    reaches: dict[Any, int] = {}
    cuts = []
    for k, op in enumerate(operations):
        if not fused.holds(op):
            continue
        reach = _reach(op, k, reaches)
        reaches.update(dict.fromkeys(op.results, reach))
        if reach.bit_count() >= policy.CHAIN and not wanted.isdisjoint(op.results):
            near = {value: r for value, r in reaches.items() if r.bit_count() <= policy.NEAR}
            cuts.append([(value, op) for value in reaches if value not in near and last.get(value, -1) > k])
            reaches = near
    return cuts
