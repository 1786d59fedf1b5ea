"""Estimate how long XLA takes to compile a Program, from its numbers of ops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import policy
from ..ir.analyses import analysis
from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Program, programs_in
from ..ir.rules import CALLS, CONSTANT, OVERWRITE

__all__ = ["compile_seconds"]


class _Counts(NamedTuple):
    """Numbers of ops in a Program: of different ones, of those that are not elementwise, and of random draws."""

    kinds: int
    compound: int
    draws: int


def compile_seconds(program: Program) -> float:
    """Return the estimated seconds to trace, lower and quickly compile a Program."""
    return policy.compile_seconds(program.weight, *_counts(program))


@analysis
def _counts(program: Program) -> _Counts:
    """Count a Program's ops. Equal ops are one kind, as XLA compiles them once. In a derivative each op is a kind,
    because XLA fuses it with others."""
    return _counted(program, set())


def _counted(program: Program, called: set[Program]) -> _Counts:
    """Count the ops, except in the Programs in `called`. Programs that are called are added to `called`."""
    kinds: set[tuple[Any, ...]] = set()
    nested: list[_Counts] = []
    compound = draws = 0
    for (op, params, _), out in zip(program.instructions, program.avals, strict=True):
        if inner := programs_in(params):
            if op not in CALLS:
                nested += map(_each, inner)
            else:
                new = [one for one in inner if one not in called]
                called.update(new)
                nested += [_counted(one, called) for one in new]
        elif op is not ITEM:
            kinds.add((op, params, out))
            compound += _is_compound(op)
            draws += op.draws
    return _sum([_Counts(len(kinds), compound, draws), *nested])


@analysis
def _each(program: Program) -> _Counts:
    """Count the ops, equal ones included."""
    nested: list[_Counts] = []
    ops = compound = draws = 0
    for op, params, _ in program.instructions:
        if inner := programs_in(params):
            nested += map(_each, inner)
        elif op is not ITEM:
            ops += 1
            compound += _is_compound(op)
            draws += op.draws
    return _sum([_Counts(ops, compound, draws), *nested])


def _is_compound(op: Op) -> bool:
    return op not in OVERWRITE and op not in CONSTANT


def _sum(counts: Iterable[_Counts]) -> _Counts:
    return _Counts(*map(sum, zip(*counts, strict=True)))
