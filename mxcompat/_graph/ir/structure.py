"""Structures: a subgraph without its nodes, so that repeated work is recognised.

`linearize` finds the subgraph behind some roots and interns its structure here, as Code and as the avals of its leaves.
The same work on other shapes has the same Code. Programs are made from structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from .. import policy
from .node import SCALAR, TRACED, Node
from .op import Op
from .program import Code, Instruction, Program

__all__ = [
    "Structure", "bytes_held", "clear_structures", "clock", "forget_the_oldest", "intern", "remembers",
    "structure_count", "structure_of",
]  # fmt: skip


class _Clock:
    """Logical clock for LRU eviction. It advances when a structure is interned; a hit stamps the structure with the
    current value."""

    now = 0


clock = _Clock()


class Structure:
    """The code of a subgraph, and the avals of its leaves: everything except the nodes.

    Structures are interned, so that facts about one are stored once.

    Args:
        code: the instructions, and the kinds of the leaves.
        in_avals: the avals of the leaves.
        avals: the avals of the instructions' results.

    Attributes:
        times_seen: the number of times that the scheduler has seen it.
        last_used: the `clock` at its last use.
        nbytes: an estimate of its memory.
    """

    __slots__ = ("_last", "_programs", "avals", "code", "in_avals", "last_used", "nbytes", "times_seen")

    def __init__(self, code: Code, in_avals: tuple[Any, ...], avals: list[Any]) -> None:
        self.code = code
        self.in_avals = in_avals
        self.avals = avals
        self._last: tuple[Any, Any, Any] = (None, None, None)
        self.times_seen = 0
        self.last_used = clock.now
        self.nbytes = policy.BYTES_PER_INSTRUCTION * (10 + len(avals))
        self._programs: dict[tuple[int, ...], Program] = {}

    def program_for(self, live: list[int], roots: tuple[int, ...]) -> Program:
        """Return the Program that computes the roots and the live-out slots, in the order of the instructions."""
        if self._last[0] is not live or self._last[1] != roots:
            out_slots = tuple(sorted([k for k in {*live, *roots} if k >= 0]))
            self._last = (live, roots, self.program(out_slots))
        return self._last[2]

    def program(self, out_slots: tuple[int, ...]) -> Program:
        """Return the Program with this structure and these outputs."""
        program = self._programs.get(out_slots)
        if program is None:
            new = Program(self.code, self.in_avals, out_slots, self.avals)
            program = self._programs.setdefault(out_slots, new)
        return program


_structures: dict[tuple[Code, tuple], Structure] = {}
_codes: WeakValueDictionary[tuple, Code] = WeakValueDictionary()


def remembers(order: Sequence[Node], in_capture: bool = False) -> bool:
    """Return True if the structure of these nodes should be cached: it is not too large, and no op is uncacheable."""
    return (in_capture or len(order) <= policy.LARGE_GRAPH) and not any(
        n.op.uncacheable  # type: ignore[union-attr]
        for n in order
    )


def intern(instructions: tuple[Instruction, ...], order: list[Node], leaves: list[Node], remembered: bool) -> Structure:
    """Return the Structure of a subgraph with this code: the cached one, or a new one if it is not to be cached."""
    kinds: tuple[Op | None, ...] = tuple([n.op if n.op is SCALAR or n.op is TRACED else None for n in leaves])
    key = (instructions, kinds)
    code = _codes.get(key) if remembered else None
    if code is None:
        code = Code(instructions, kinds)
        if remembered:
            code = _codes.setdefault(key, code)
    in_avals = tuple([n.aval for n in leaves])
    return structure_of(code, in_avals, order) if remembered else Structure(code, in_avals, [n.aval for n in order])


def structure_of(code: Code, in_avals: tuple[Any, ...], order: list[Node]) -> Structure:
    """Return the cached Structure of this code for leaves of these avals. If there is none, cache a new one with the
    avals of the nodes in `order`."""
    global _held
    structure = _structures.get((code, in_avals))
    if structure is None:
        clock.now += 1
        structure = _structures.setdefault((code, in_avals), Structure(code, in_avals, [n.aval for n in order]))
        _held += structure.nbytes
    return structure


_held = 0
"""Estimated bytes of the cached structures."""


def bytes_held() -> int:
    """Return the estimated bytes of the cached structures."""
    return _held


def forget_the_oldest() -> bool:
    """Evict the least recently used structures if the cache is over its limit. Return True if it was."""
    global _held
    limit = policy.other_bytes()
    if _held <= limit:
        return False
    for key, structure in sorted(_structures.items(), key=lambda item: item[1].last_used)[:-1]:
        if _held <= policy.HELD_SHARE * limit:
            break
        if _structures.pop(key, None) is not None:
            _held -= structure.nbytes
    return True


def structure_count() -> int:
    """Return the number of cached structures."""
    return len(_structures)


def clear_structures() -> None:
    """Clear the cache of structures, and with them the Programs and executables."""
    global _held
    _structures.clear()
    _held = 0
