"""The dtypes of tangents: what `jvp` returns beside each output.

A tangent has the dtype of its value, except that of a bool, which says how the bool came about: each op has a rule for
that (`TANGENT_DTYPE`).
"""

from __future__ import annotations

from typing import Any

from mxcompat._graph.ir.aval import Aval, Dtype, aval, bool_
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import TANGENT_DTYPE

__all__ = ["tangent_avals"]


def tangent_avals(program: Program, primals: int, outputs: int) -> tuple[Aval, ...]:
    """The avals of the tangents of the first outputs, with respect to the first inputs."""
    tangents: list[Dtype | None] = []  # of each slot that is a bool; None if it does not depend on the primals

    def tangent(slot: int) -> Dtype | None:
        return tangents[slot] if slot >= 0 else program.in_avals[~slot].dtype if ~slot < primals else None

    if any(a.dtype is bool_ for a in program.out_avals[:outputs]):
        for result, (op, _, slots) in zip(program.avals, program.instructions, strict=True):
            active = [t for t in map(tangent, slots[op.smooth]) if t is not None]
            tangents.append(_passed_on(op, result, [program.aval(s) for s in slots], active))
    found = zip(program.out_avals[:outputs], program.out_slots, strict=False)
    return tuple(a if a.dtype is not bool_ else aval(a.shape, tangent(s) or bool_) for a, s in found)


def _passed_on(op: Op, result: Any, operands: list[Any], active: list[Dtype]) -> Dtype | None:
    """The dtype of the tangent of one op's result, given those of its operands."""
    if not active:
        return None
    if isinstance(result, tuple):
        return active[0]
    if result.dtype is not bool_:
        return result.dtype
    rule = TANGENT_DTYPE.get(op)
    return active[0] if rule is None else rule(active, operands, result)
