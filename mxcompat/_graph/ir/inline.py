"""Inline: a Program with the instructions of what it calls in the place of the calls, for who runs them one by one:
what a call alone reads is written over within it, and what nothing reads any more is dropped there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from .node import ITEM
from .program import Code, Instruction, Program
from .rules import INLINE

__all__ = ["Called", "Place", "inlined"]


class Called(NamedTuple):
    """Where the results of a call are.

    Args:
        places: of each instruction of what it calls, where its result is.
        outputs: the slots of the call's results.
    """

    places: list[Place]
    outputs: tuple[int, ...]


Place = int | Called
"""Where the result of an instruction is: its slot, or those of a call."""


class _Inlined(NamedTuple):
    """A Program without calls that computes what one with them does.

    Args:
        program: that Program; its outputs are all that is read of those of the other one.
        places: of each instruction of the other one, where its result is.
        starts: the first of the instructions that each of them has become, if any.
    """

    program: Program
    places: list[Place]
    starts: list[int]

    def value(self, env: Sequence[Any], slot: int) -> Any:
        """What is in a slot of the other Program, from the environment of this one."""
        place = self.places[slot] if slot >= 0 else slot
        return tuple([env[s] for s in place.outputs]) if isinstance(place, Called) else env[place]

    def origin(self, slot: int) -> int:
        """Which instruction of the other Program this one's comes from."""
        return bisect_right(self.starts, slot) - 1


def inlined(program: Program) -> _Inlined | None:
    """A Program with its calls inlined, to any depth; None if there are none. Known from the first time on."""
    if not program.is_nested:
        return None
    if "inlined" not in program.facts:
        program.facts["inlined"] = _find(program)
    return program.facts["inlined"]


def _find(program: Program) -> _Inlined | None:
    instructions: list[Instruction] = []
    avals: list[Any] = []
    starts: list[int] = []
    inputs = [~k for k in range(len(program.in_avals))]
    places = _append(program, inputs, program.out_slots, instructions, avals, starts)
    if not any(isinstance(place, Called) for place in places):
        return None
    outputs: dict[int, None] = {}
    for slot in program.out_slots:
        place = places[slot] if slot >= 0 else slot
        outputs |= dict.fromkeys(place.outputs if isinstance(place, Called) else (place,))
    code = Code(tuple(instructions), program.code.kinds)
    return _Inlined(Program(code, program.in_avals, tuple(outputs), avals), places, starts)


def _append(
    program: Program, inputs: Sequence[int], whole: Sequence[int], instructions: list[Instruction], avals: list[Any],
    starts: list[int],
) -> list[Place]:  # fmt: skip
    """Append the instructions of a Program, whose inputs are in these slots. Returns where their results are.

    Args:
        whole: the slots of which all results together may be asked for.
        starts: has the first of the new instructions appended for each one.
    """
    places: list[Place] = []
    calls = _calls(program, whole)

    def slot_of(slot: int) -> int:
        return places[slot] if slot >= 0 else inputs[~slot]  # type: ignore[return-value]

    for k, (op, params, slots) in enumerate(program.instructions):
        starts.append(len(instructions))
        if k in calls:
            inner = params[0]
            given = [*map(slot_of, slots[: len(inner.in_avals)])]
            within = _append(inner, given, (), instructions, avals, [])
            places.append(Called(within, tuple([within[s] if s >= 0 else given[~s] for s in inner.out_slots])))
        elif op is ITEM and slots[0] in calls:
            places.append(places[slots[0]].outputs[params[0]])  # type: ignore[union-attr]
        else:
            places.append(len(instructions))
            instructions.append((op, params, (*map(slot_of, slots),)))
            avals.append(program.avals[k])
    return places


def _calls(program: Program, whole: Sequence[int]) -> set[int]:
    """The instructions to inline: calls with the very inputs that what they call is for, whose results are read one by
    one."""
    calls = {
        k
        for k, (op, params, slots) in enumerate(program.instructions)
        if op in INLINE and all(program.aval(s) == a for s, a in zip(slots, params[0].in_avals, strict=False))
    }
    for op, _, slots in program.instructions if calls else ():
        if op is not ITEM:
            calls.difference_update(slots)
    return calls.difference([s for s in program.out_slots if s not in whole])
