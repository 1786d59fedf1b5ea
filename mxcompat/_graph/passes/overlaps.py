"""Overlaps: on a CPU what is written into an array, and computed from that very array, is computed before.

XLA computes a slice in the loop that writes it, in place if nothing else reads the array. Where a reshape is before the
write or after it, XLA does not see that the loop reads what it writes (jaxlib 0.10 and 0.12, openxla/xla#49176): with
`x[1:] = x[:-1]` all rows became the first. A slice that is kept is not computed in that loop.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from mxcompat._compat.dialects import ir

from .barriers import require_barriers
from .modules import bodies, kept, named

__all__ = ["read_before_writing"]

_SLICE = "stablehlo.dynamic_update_slice"
_UPDATES = (_SLICE, "stablehlo.scatter")
"""What gives its first operand, written over at some places."""

_CONSTANT = ("stablehlo.constant", "stablehlo.iota")


def read_before_writing(module: Any) -> None:
    """Change a module of StableHLO in place."""
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
    """What the values of a module are computed from, as bits: one for each argument and each operation, none for a
    constant. `overlapping` are the slices whose writing may read what it writes."""

    def __init__(self, module: Any) -> None:
        self._all: dict[Any, int] = {}
        """Of all that a value is computed from."""
        self._rest: dict[Any, int] = {}
        """Without what has been written into it since: what might lie in the place that it is written to."""
        self._count = 0
        self.overlapping: list[Any] = []
        for name, block in bodies(module).items():
            outside = self._bit()  # of any function but main: two arguments of a call may be one array
            self._enter(block, [self._bit() if name == "main" else outside for _ in block.arguments])
            self._visit(block)

    def _visit(self, block: Any) -> int:
        """Look at the operations of a block in their order; all that they read."""
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
