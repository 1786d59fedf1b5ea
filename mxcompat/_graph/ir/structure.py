"""Structures: a stretch of graph but for its nodes, so that the same work done again is known to be the same.

`linearize` finds the stretch behind some roots. A stretch like one met before is recognised by following that one's
instructions back from the roots; only another is walked, hashed and interned. Programs are made from structures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .node import ITEM, SCALAR, Node
from .program import Instruction, Program
from .rules import SPECIALIZE

__all__ = ["LARGE", "Structure", "Subgraph", "alone", "clear_programs", "linearize", "program_count"]

LARGE = 2000
"""The number of nodes up to which a stretch is evaluated at once: XLA's compile time is superlinear."""

_LIMIT = 4096
"""The number of structures, and of kinds of roots, to remember at most."""

_MOST_INSTRUCTIONS = 1 << 17
"""The number of instructions that remembered structures have in all, at most. It takes some eighty megabytes."""

_MOST = 4
"""The number of structures to try for roots of a kind."""


class Structure:
    """The instructions of a stretch of graph and what is known of its leaves: all but the nodes.

    Structures are interned, so that one holds what has been learnt of it. Instruction k writes slot k; slot ~k
    (negative) is leaf k.

    Args:
        instructions: op, params and input slots, inputs before consumers.
        in_avals: the avals of the leaves.
        scalars: which leaves are Python numbers.
        avals: the avals of the instructions' results.

    `uses` and `leaf_uses` say how often results and leaves are read, `written` which leaves an op writes over, `met`
    how often it has been met, as far as anyone counts (see `moving`), `returned` whether it was walked before.
    """

    __slots__ = (
        "_last", "_programs", "avals", "held", "in_avals", "instructions", "leaf_uses", "met", "returned", "scalars",
        "specialized", "uses", "written",
    )  # fmt: skip

    def __init__(
        self, instructions: tuple[Instruction, ...], in_avals: tuple[Any, ...], scalars: tuple[int, ...],
        avals: list[Any],
    ) -> None:  # fmt: skip
        self.instructions = instructions
        self.in_avals = in_avals
        self.scalars = scalars
        self.uses = [0] * len(instructions)
        self.leaf_uses = [0] * len(in_avals)
        self.specialized = any(op in SPECIALIZE for op, _, _ in instructions)
        self.written = {~slots[0] for op, _, slots in instructions if op.in_place and slots[0] < 0}
        for _, _, slots in instructions:
            for s in slots:
                if s >= 0:
                    self.uses[s] += 1
                else:
                    self.leaf_uses[~s] += 1
        self.held: tuple[list[int], list[int]] = ([], [])  # see `liveness.shown`
        self._last: tuple[Any, Any, Any] = (None, None, None)
        self.avals = avals
        self.met = 0
        self.returned = False
        self._programs: dict[tuple[int, ...], Program] = {}

    def program_for(self, shown: list[int], roots: tuple[int, ...]) -> Program:
        """The Program that computes the roots and what else is shown, in the order of the instructions."""
        if self._last[0] is not shown or self._last[1] != roots:
            out_slots = tuple(sorted([k for k in {*shown, *roots} if k >= 0]))
            self._last = (shown, roots, self.program(out_slots))
        return self._last[2]

    def program(self, out_slots: tuple[int, ...]) -> Program:
        """The one Program with this structure and these outputs."""
        found = self._programs.get(out_slots)
        if found is None:
            made = Program(self.instructions, self.in_avals, self.scalars, out_slots, self.avals)
            found = self._programs.setdefault(out_slots, made)
        return found


class Subgraph(NamedTuple):
    """A stretch of graph in execution order.

    Args:
        structure: all that does not depend on which nodes they are.
        roots: the slots of the nodes it was asked for.
        order: the nodes to compute, inputs before consumers.
        leaves: the nodes it reads but does not compute.
    """

    structure: Structure
    roots: tuple[int, ...]
    order: list[Node]
    leaves: list[Node]


_linear: Callable[[tuple], Subgraph] = partial(tuple.__new__, Subgraph)  # half of what calling the class costs


class _Path:
    """How to follow a structure back from its roots.

    Each step names a slot whose node is known by then, what op and params it must have, and the slots of its inputs;
    apart, if it has but one, or two of which neither has been met before (which most ops have).
    """

    __slots__ = ("_in_avals", "_is_scalar", "_roots", "_steps", "_structure")

    def __init__(self, structure: Structure, roots: tuple[int, ...], placeholders: int) -> None:
        self._structure = structure
        self._roots = roots
        self._in_avals = list(structure.in_avals)
        self._is_scalar = [k in structure.scalars for k in range(len(structure.in_avals))]
        self._steps = []
        met = {*roots, *[~k for k in range(placeholders)]}
        for k, (op, params, slots) in reversed([*enumerate(structure.instructions)]):
            pair = slots if len({*slots} - met) == len(slots) == 2 else (None, None)
            self._steps.append((k, op, params, slots, slots[0] if len(slots) == 1 else None, *pair))
            met.update(slots)

    def follow(self, roots: Sequence[Node], trace: int, placeholders: Sequence[Node]) -> Subgraph | None:
        """The stretch behind `roots` if it has this structure, else None."""
        count = len(self._steps)
        env: list[Any] = [None] * (count + len(self._in_avals))  # leaf k is at ~k, counted from the end
        for k, node in enumerate(placeholders):
            env[~k] = node
        for slot, node in zip(self._roots, roots, strict=True):
            if env[slot] is None:
                env[slot] = node
            elif env[slot] is not node:
                return None
        try:
            for slot, op, params, reads, only, first, second in self._steps:
                node = env[slot]
                if (
                    node.op is not op
                    or (node.params is not params and node.params != params)
                    or (node.value is not None and not trace)
                ):
                    return None
                if first is not None:
                    env[first], env[second] = node.inputs
                    continue
                if only is not None:
                    (i,) = node.inputs
                    if env[only] is not i:
                        if env[only] is not None:
                            return None
                        env[only] = i
                    continue
                for s, i in zip(reads, node.inputs, strict=True):
                    there = env[s]
                    if there is None:
                        env[s] = i
                    elif there is not i:
                        return None
        except ValueError:  # another number of inputs
            return None
        leaves = env[: count - 1 : -1] if count else env[::-1]
        if [n.aval for n in leaves] != self._in_avals or [n.op is SCALAR for n in leaves] != self._is_scalar:
            return None
        for node in leaves[len(placeholders) :]:
            if node.trace >= trace if trace else node.value is None:
                return None
        return _linear((self._structure, self._roots, env[:count], leaves))


_structures: dict[tuple, Structure] = {}

_paths: dict[tuple, tuple[_Path, ...]] = {}
"""What roots of a kind had behind them, most recent first."""


def linearize(roots: Sequence[Node], trace: int = 0, placeholders: Sequence[Node] = ()) -> Subgraph:
    """The graph behind `roots`, in execution order.

    Outside a capture (`trace` 0) it ends at nodes that have a value. Inside, it ends at the placeholders, which
    become the first leaves, and at every node older than the trace.
    """
    last = roots[-1] if roots else None
    kind = (len(roots), len(placeholders), trace == 0, *((last.op, last.params, last.aval) if last is not None else ()))
    paths = _paths.get(kind, ())
    for path in paths:
        found = path.follow(roots, trace, placeholders)
        if found is not None:
            if path is not paths[0]:
                _paths[kind] = (path, *[p for p in paths if p is not path])
            return found
    found = _walk(roots, trace, placeholders)
    structure = found.structure
    if not structure.returned:
        structure.returned = True  # and so may well return again
    elif len(found.order) <= LARGE and not any(op.uncacheable for op, _, _ in structure.instructions):
        while len(_paths) >= _LIMIT:
            _paths.pop(next(iter(_paths)), None)
        _paths[kind] = (_Path(structure, found.roots, len(placeholders)), *paths[: _MOST - 1])
    return found


def _walk(roots: Sequence[Node], trace: int, placeholders: Sequence[Node]) -> Subgraph:
    slots: dict[Node, int] = {}
    leaves: list[Node] = list(placeholders)
    order: list[Node] = []
    code: list[Any] = []
    slot_of = slots.get
    for k, node in enumerate(placeholders):
        slots[node] = ~k
    for root in roots:
        if root in slots:
            continue
        if root.trace < trace if trace else root.value is not None:
            slots[root] = ~len(leaves)
            leaves.append(root)
            continue
        stack = [root]
        while stack:
            node = stack[-1]
            if node in slots:
                stack.pop()
                continue
            if node.op is ITEM and node.inputs[0].value is not None and not trace:
                node.value = node.inputs[0].value[node.params[0]]
                stack.pop()
                slots[node] = ~len(leaves)
                leaves.append(node)
                continue
            reads = []
            ready = True
            for i in node.inputs:
                slot = slot_of(i)
                if slot is None:
                    if i.trace < trace if trace else i.value is not None:
                        slot = slots[i] = ~len(leaves)
                        leaves.append(i)
                    else:
                        stack.append(i)
                        ready = False
                reads.append(slot)
            if not ready:
                continue
            stack.pop()
            slots[node] = len(order)
            order.append(node)
            code += (node.op, node.params, *reads)
    remembered = (trace > 0 or len(order) <= LARGE) and not any(n.op.uncacheable for n in order)  # type: ignore[union-attr]
    structure = _intern(code, order, leaves, slots, remembered)
    return _linear((structure, tuple([slots[r] for r in roots]), order, leaves))


def alone(node: Node) -> Subgraph:
    """The stretch of graph that is this node, with its inputs, computed or not, for leaves."""
    leaves = list(dict.fromkeys(node.inputs))
    slots = {n: ~k for k, n in enumerate(leaves)}
    code = [node.op, node.params, *[slots[i] for i in node.inputs]]
    return Subgraph(_intern(code, [node], leaves, slots), (0,), [node], leaves)


def _intern(
    code: list[Any], order: list[Node], leaves: list[Node], slots: dict[Node, int], remembered: bool = True
) -> Structure:
    """The one Structure of this stretch. One that is not to be remembered is made afresh."""
    avals: list[Any] = []
    scalars: list[int] = []
    for k, node in enumerate(leaves):
        avals.append(node.aval)
        if node.op is SCALAR:
            scalars.append(k)
    key = (tuple(code), tuple(avals), tuple(scalars))
    found = _structures.get(key) if remembered else None
    if found is None:
        instructions = tuple([(n.op, n.params, tuple([slots[i] for i in n.inputs])) for n in order])
        found = Structure(instructions, key[1], key[2], [n.aval for n in order])  # type: ignore[arg-type]
        if remembered:
            found = _structures.setdefault(key, found)
            _forget_the_oldest(len(order))
    return found


_instructions = 0
"""The number of instructions of the structures that are remembered."""


def _forget_the_oldest(added: int) -> None:
    """Make room for a structure that has been added."""
    global _instructions
    _instructions += added
    while len(_structures) > _LIMIT or (_instructions > _MOST_INSTRUCTIONS and len(_structures) > 1):
        oldest = _structures.pop(next(iter(_structures)), None)
        _instructions -= len(oldest.instructions) if oldest is not None else 0


def program_count() -> int:
    """How many structures are remembered, each with its programs."""
    return len(_structures)


def clear_programs() -> None:
    """Forget the structures, and with them the programs and their executables."""
    global _instructions
    _structures.clear()
    _instructions = 0
    _paths.clear()
