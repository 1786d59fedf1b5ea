"""Chains: elementwise instructions on large float32 arrays, which C computes together.

NumPy computes each op on whole arrays, so it reads and writes memory for each. C takes a block of the arrays through
all ops of a chain while it is in a cache, in several threads. The results have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxcompat._native import native

from .. import policy
from ..ir import buffers
from ..ir.analyses import analysis
from ..ir.aval import Aval, float32
from ..ir.program import Program
from ..ir.rules import CHAINED
from .interrupts import uninterrupted
from .reuse import drop, last_uses, reused

__all__ = ["chains", "memory_order", "run"]

_MOST_ARRAYS, _TEMPORARIES = 32, 16
"""The limits of `_native/elementwise.c` for the inputs of a chain, and for the results of which it has a block at the
same time, among them those that are read after the chain."""


class Chain(NamedTuple):
    """Elementwise instructions whose results have one shape. Between them there may be instructions that compute single
    numbers and do not read the chain's results. The chain runs in place of its last instruction.

    Args:
        slots: the slots of all results.
        last: the last of these slots.
        arguments: the slots that the chain reads from outside.
        dying: those whose last use is in the chain.
        results: the slots that are read after the chain.
        code: the chain in the form that C reads.
    """

    slots: frozenset[int]
    last: int
    arguments: tuple[int, ...]
    dying: tuple[int, ...]
    results: tuple[int, ...]
    code: bytes


@analysis
def chains(program: Program, kept: frozenset[int]) -> dict[int, Chain]:
    """Return the chains of a Program, by their first slots; none without C. `kept` are slots that are read after the
    Program."""
    if native is None:
        return {}
    _, dropped = last_uses(program, kept)
    last_reads = {s: k for k, (_, _, slots) in enumerate(program.instructions) for s in slots}
    found = {}
    start = 0
    while start < len(program.instructions):
        members = _members(program, start, dropped, last_reads) if _fits(program, start, start) else [start]
        if len(members) > 1:
            found[start] = _chain(program, members, dropped)
        start = members[-1] + 1
    return found


def _members(
    program: Program, start: int, dropped: Sequence[Sequence[int]], last_reads: Mapping[int, int]
) -> list[int]:
    """Return the slots of a chain that begins with this instruction. It ends where no later instruction reads its
    results, or where C can take no more arrays or values."""
    members: list[int] = []
    inside: set[int] = set()
    arguments: set[int] = set()
    values, last_read = 0, start
    for slot in range(start, len(program.instructions)):
        reads = {*program.instructions[slot][2]}
        if last_read < slot:
            break
        if _fits(program, slot, start):
            arguments |= reads - inside
            if len(arguments) > _MOST_ARRAYS or values == _TEMPORARIES:
                break
            members.append(slot)
            inside.add(slot)
            values += 1 - len(inside.intersection(dropped[slot]))
            last_read = max(last_read, last_reads.get(slot, -1))
        elif not (_is_number(program.avals[slot]) and inside.isdisjoint(reads) and arguments.isdisjoint(dropped[slot])):
            break
    return members


def _is_number(out: Any) -> bool:
    return isinstance(out, Aval) and out.size == 1


def _fits(program: Program, slot: int, start: int) -> bool:
    """Return True if C can compute an instruction, and its result has the shape of that of `start`."""
    out = program.avals[slot]
    op, _, slots = program.instructions[slot]
    if op not in CHAINED or not isinstance(out, Aval) or out.dtype is not float32 or out.size < policy.LARGE_ELEMENTS:
        return False
    inputs = [program.aval(s) for s in slots]
    alike = all(a.dtype is float32 and (a.shape == out.shape or a.size == 1) for a in inputs)
    return alike and out.shape == program.avals[start].shape


def _chain(program: Program, members: list[int], dropped: Sequence[Sequence[int]]) -> Chain:
    inside = frozenset(members)
    arguments = [*dict.fromkeys([s for m in members for s in program.instructions[m][2] if s not in inside])]
    ended = {s for m in members for s in dropped[m]}
    results = [m for m in members if m not in ended]
    registers = {s: k for k, s in enumerate(arguments)}
    unused = [*range(len(arguments) + _TEMPORARIES - 1, len(arguments) - 1, -1)]
    instructions: list[int] = []
    for m in members:
        op, _, slots = program.instructions[m]
        registers[m] = unused.pop()  # before those of the operands are unused: a result is not written over them
        instructions += [CHAINED[op], registers[slots[0]], registers[slots[-1]], registers[m]]
        unused += [registers[s] for s in dropped[m] if s in inside]
    code = [len(arguments), len(results), len(members), *instructions, *[registers[s] for s in results]]
    dying = tuple([s for s in arguments if s in ended])
    return Chain(inside, members[-1], tuple(arguments), dying, tuple(results), np.array(code, np.int32).tobytes())


def memory_order(chain: Chain, program: Program, env: Sequence[Any]) -> str | None:
    """Return the memory order of all arrays that a chain reads: "C", "F", or None if they have no common one. Single
    numbers have both orders, and need not be computed yet."""
    arrays = [env[s] for s in chain.arguments if program.aval(s).size > 1]
    if all(x.flags.c_contiguous for x in arrays):
        return "C"
    return "F" if all(x.flags.f_contiguous for x in arrays) else None


def run(chain: Chain, order: str, program: Program, env: list[Any], free: set[int], mine: frozenset[int]) -> None:
    """Run a chain whose arrays have this memory order, and store its results in the environment. See
    `interpret.run_instructions` for `free` and `mine`."""
    inputs = [env[s] for s in chain.arguments]
    places = [chain.arguments.index(s) for s in chain.dying]
    targets = []
    for s in chain.results:
        out = program.avals[s]
        place = reused(out, chain.arguments, places, inputs, free, mine)
        if place is None:
            targets.append(np.empty(out.shape, np.float32, order))
        else:
            places.remove(place)
            targets.append(inputs[place])
    overwritten = [s for s in chain.dying if chain.arguments.index(s) not in places]

    def compute() -> None:
        native.run_chain(chain.code, *inputs, *targets)
        for s in overwritten:
            env[s] = None
        for s, target in zip(chain.results, targets, strict=True):
            env[s] = target

    if free and overwritten:  # an interrupt must not leave a node with an overwritten value
        uninterrupted(compute)
    else:
        compute()
    buffers.track_temporary(targets)
    targets.clear()
    drop(env, chain.dying, inputs, free, mine)
