"""Estimate how long XLA takes to compile a Program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import policy
from ..ir.analyses import analysis
from ..ir.node import ITEM
from ..ir.program import Program, programs_in
from ..ir.rules import CALLS

__all__ = ["compile_seconds"]


def compile_seconds(program: Program) -> float:
    """Return the estimated seconds to trace, lower and quickly compile a Program."""
    return policy.compile_seconds(program.weight, *_kinds(program))


@analysis
def _kinds(program: Program) -> tuple[int, int]:
    """Return the number of different ops and the number of random draws. XLA compiles equal ops once, but in a
    derivative it fuses each of them with others."""
    return _counted(program, set())


def _counted(program: Program, called: set[Program]) -> tuple[int, int]:
    """Count the ops and draws, except in the Programs in `called`. Programs that are called are added to `called`."""
    kinds: set[tuple[Any, ...]] = set()
    nested: list[tuple[int, int]] = []
    draws = 0
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
            draws += op.draws
    return _sum([(len(kinds), draws), *nested])


@analysis
def _each(program: Program) -> tuple[int, int]:
    """Return the number of ops, equal ones included, and the number of random draws."""
    counts = [(0, 0)]
    for op, params, _ in program.instructions:
        if inner := programs_in(params):
            counts += map(_each, inner)
        elif op is not ITEM:
            counts.append((1, int(op.draws)))
    return _sum(counts)


def _sum(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    ops, draws = zip(*counts, strict=True)
    return sum(ops), sum(draws)
