"""Structures: a subgraph but for its nodes, so that the same work done again is known to be the same.

`linearize` finds the subgraph behind some roots and has its structure interned here. Programs are made from structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import policy
from .node import SCALAR, TRACED, Node
from .op import Op
from .program import Instruction, Program
from .rules import SPECIALIZE, STEP

__all__ = [
    "Structure", "bytes_held", "clear_structures", "clock", "forget_the_oldest", "intern", "remembers",
    "structure_count",
]  # fmt: skip


class _Clock:
    """What time is here: it goes on whenever something new is remembered; what is found again need but note it."""

    now = 0


clock = _Clock()


class Structure:
    """The instructions of a subgraph and what is known of its leaves: all but the nodes.

    Structures are interned, so that one holds the facts known of it. Instruction k writes slot k; slot ~k (negative) is
    leaf k.

    Args:
        instructions: op, params and input slots, inputs before consumers.
        in_avals: the avals of the leaves.
        kinds: what the leaves are.
        avals: the avals of the instructions' results.

    `kinds` has SCALAR for a leaf that is a Python number and TRACED for one whose value is a JAX tracer, `traced` says
    whether there is one of these; `stepped`, whether an op runs by itself. `uses` and `leaf_uses` say how often results
    and leaves are read, `written` which leaves an op writes over, `times_seen` how often the scheduler has seen it,
    `seen_before` whether it was walked before; `last_used` when it was found last, by the `clock`, and `nbytes` about
    how much memory it takes.
    """

    __slots__ = (
        "_last", "_programs", "avals", "held", "in_avals", "instructions", "kinds", "last_used", "leaf_uses",
        "nbytes", "scalars", "seen_before", "specialized", "stepped", "times_seen", "traced", "uses", "written",
    )  # fmt: skip

    def __init__(
        self, instructions: tuple[Instruction, ...], in_avals: tuple[Any, ...], kinds: tuple[Op | None, ...],
        avals: list[Any],
    ) -> None:  # fmt: skip
        self.instructions = instructions
        self.in_avals = in_avals
        self.kinds = kinds
        self.scalars = tuple([k for k, kind in enumerate(kinds) if kind is SCALAR])
        self.traced = TRACED in kinds
        self.uses = [0] * len(instructions)
        self.leaf_uses = [0] * len(in_avals)
        self.stepped = any(op in STEP for op, _, _ in instructions)
        self.specialized = self.stepped or any(op in SPECIALIZE for op, _, _ in instructions)
        self.written = {~slots[0] for op, _, slots in instructions if op.in_place and slots[0] < 0}
        for _, _, slots in instructions:
            for s in slots:
                if s >= 0:
                    self.uses[s] += 1
                else:
                    self.leaf_uses[~s] += 1
        self.held: tuple[list[int], list[int]] = ([], [])  # see `liveness.live_out`
        self._last: tuple[Any, Any, Any] = (None, None, None)
        self.avals = avals
        self.times_seen = 0
        self.seen_before = False
        self.last_used = clock.now
        self.nbytes = policy.BYTES_PER_STRUCTURE + policy.BYTES_PER_INSTRUCTION * len(instructions)
        self._programs: dict[tuple[int, ...], Program] = {}

    def program_for(self, live: list[int], roots: tuple[int, ...]) -> Program:
        """The Program that computes the roots and what else is live out, in the order of the instructions."""
        if self._last[0] is not live or self._last[1] != roots:
            out_slots = tuple(sorted([k for k in {*live, *roots} if k >= 0]))
            self._last = (live, roots, self.program(out_slots))
        return self._last[2]

    def program(self, out_slots: tuple[int, ...]) -> Program:
        """The one Program with this structure and these outputs."""
        found = self._programs.get(out_slots)
        if found is None:
            made = Program(self.instructions, self.in_avals, self.scalars, out_slots, self.avals)
            found = self._programs.setdefault(out_slots, made)
        return found


_structures: dict[tuple, Structure] = {}


def remembers(order: Sequence[Node], in_capture: bool = False) -> bool:
    """Whether to remember the structure of these nodes: not if it is too large, or holds what never comes again."""
    return (in_capture or len(order) <= policy.LARGE_GRAPH) and not any(
        n.op.uncacheable  # type: ignore[union-attr]
        for n in order
    )


def intern(
    code: list[Any], order: list[Node], leaves: list[Node], slots: dict[Node, int], remembered: bool
) -> Structure:
    """The one Structure of this subgraph. One that is not to be remembered is made afresh.

    Args:
        code: op, params and slots of each node, flat: what distinguishes subgraphs with leaves of the same avals.
    """
    global _held
    avals: list[Any] = []
    kinds: list[Op | None] = []
    for node in leaves:
        avals.append(node.aval)
        kinds.append(node.op if node.op is SCALAR or node.op is TRACED else None)
    key = (tuple(code), tuple(avals), tuple(kinds))
    found = _structures.get(key) if remembered else None
    if found is None:
        instructions = tuple([(n.op, n.params, tuple([slots[i] for i in n.inputs])) for n in order])
        found = Structure(instructions, key[1], key[2], [n.aval for n in order])  # type: ignore[arg-type]
        if remembered:
            clock.now += 1
            found = _structures.setdefault(key, found)
            _held += found.nbytes
    return found


_held = 0
"""The bytes of the structures that are remembered."""


def bytes_held() -> int:
    """The bytes that the structures which are remembered take, by their estimates."""
    return _held


def forget_the_oldest() -> bool:
    """Make room if structures hold more than they may. Those found least recently go first. Says whether any did."""
    global _held
    limit = policy.structure_bytes()
    if _held <= limit:
        return False
    for key, structure in sorted(_structures.items(), key=lambda item: item[1].last_used)[:-1]:
        if _held <= policy.HELD_SHARE * limit:
            break
        if _structures.pop(key, None) is not None:
            _held -= structure.nbytes
    return True


def structure_count() -> int:
    """How many structures are remembered, each with its programs."""
    return len(_structures)


def clear_structures() -> None:
    """Forget the structures, and with them the programs and their executables."""
    global _held
    _structures.clear()
    _held = 0
