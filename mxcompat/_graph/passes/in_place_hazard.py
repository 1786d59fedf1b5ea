"""Prevent a read-after-write hazard of XLA:CPU in in-place updates.

If the operand of a `dynamic_update_slice` is computed from the array that is updated, XLA may fuse the read into the
in-place write. If a reshape comes before or after the update, XLA does not see that the loop reads elements that it has
overwritten (jaxlib 0.10 and 0.12, openxla/xla#49176): `x[1:] = x[:-1]` set all rows to the first. This pass computes
the operand in a call that is not inlined, so that it is materialized before the write.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from mxcompat._compat.dialects import ir

from .barriers import require_barriers
from .modules import bodies, kept, named

__all__ = ["materialize_operands"]

_SLICE = "stablehlo.dynamic_update_slice"
_UPDATES = (_SLICE, "stablehlo.scatter")
"""Operations whose result is their first operand with some elements replaced."""

_CONSTANT = ("stablehlo.constant", "stablehlo.iota")


def materialize_operands(module: Any) -> None:
    """Materialize operands that overlap with their update, in place in a StableHLO module."""
    if not named(module, _SLICE):
        return
    overlapping = _Origins(module).overlapping
    if overlapping:
        require_barriers()
    with module.context, ir.Location.unknown():
        for op in overlapping:
            with ir.InsertionPoint(op):
                op.operands[1] = kept(module, op.operands[1])


class _Origins:
    """Find the values from which each value of a module is computed, as bitmasks.

    Each argument and operation has one bit; constants have none. `overlapping` lists the slice updates that may read
    elements that they write.
    """

    def __init__(self, module: Any) -> None:
        self._all: dict[Any, int] = {}
        """Maps each value to the set of values that it is computed from."""
        self._rest: dict[Any, int] = {}
        """A second such map, in which an update depends only on the updated array, whose buffer it may share."""
        self._count = 0
        self.overlapping: list[Any] = []
        for name, block in bodies(module).items():
            # arguments of functions other than main share a bit, because a call may pass one array twice
            outside = self._bit()
            self._enter(block, [self._bit() if name == "main" else outside for _ in block.arguments])
            self._visit(block)

    def _visit(self, block: Any) -> int:
        """Visit the operations of a block in order. Return all values that they read."""
        read = 0
        for op in block.operations:
            within = 0
            for region in op.regions:
                for inner in region.blocks:
                    self._enter(inner, [self._bit() for _ in inner.arguments])
                    within |= self._visit(inner)
            every = self._union(self._all, op.operands) | within
            rest = self._union(self._rest, op.operands[:1]) if op.name in _UPDATES else every
            if op.name == _SLICE and rest & self._all[op.operands[1]]:
                self.overlapping.append(op.operation)
            own = 0 if op.name in _CONSTANT else self._bit()
            for value in op.results:
                self._all[value], self._rest[value] = every | own, rest | own
            read |= every
        return read

    def _enter(self, block: Any, bits: list[int]) -> None:
        for value, bit in zip(block.arguments, bits, strict=True):
            self._all[value] = self._rest[value] = bit

    def _bit(self) -> int:
        self._count += 1
        return 1 << (self._count - 1)

    @staticmethod
    def _union(bits: dict[Any, int], values: Any) -> int:
        return reduce(or_, (bits[value] for value in values), 0)
