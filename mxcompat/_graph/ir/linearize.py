"""Linearize: order the subgraph behind some roots for execution, and find its Structure.

A subgraph with the same code as an earlier one is recognised by following that code back from the roots. Only a new one
is walked, hashed and interned. The shapes need not be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import invert
from typing import Any, NamedTuple

from mxcompat._native import native

from .. import policy
from .node import ITEM, SCALAR, TRACED, Node
from .op import Op
from .outputs import try_resolve_item
from .program import Code, Instruction
from .structure import Structure, clock, forget_the_oldest, intern, remembers, structure_of

__all__ = ["Subgraph", "clear_seen", "linearize", "single_node"]


class Subgraph(NamedTuple):
    """A subgraph in execution order.

    Args:
        structure: the subgraph without its nodes.
        roots: the slots of the root nodes.
        order: the nodes to compute, inputs before consumers.
        leaves: the nodes that it reads but does not compute.
    """

    structure: Structure
    roots: tuple[int, ...]
    order: list[Node]
    leaves: list[Node]


# this takes half the time of calling the class
_subgraph: Callable[[tuple], Subgraph] = partial(tuple.__new__, Subgraph)


def _kind_of_leaf(leaf: Node) -> Op | None:
    """Return the op of a leaf that holds a Python number or a JAX tracer, or None for a leaf that holds data."""
    return leaf.op if leaf.op is SCALAR or leaf.op is TRACED else None


class _PathInPython:
    """Follows code back from its roots, given the roots' slots."""

    def __init__(
        self, instructions: tuple[Instruction, ...], kinds: tuple[Op | None, ...], roots: tuple[int, ...]
    ) -> None:
        self._instructions, self._kinds, self._roots = instructions, kinds, roots
        size = len(instructions) + len(kinds)
        for slots in (roots, *[slots for _, _, slots in instructions]):
            if not all(-size <= slot < size for slot in slots):
                raise ValueError(f"Path: no such slot: {slots}")

    def follow(
        self, roots: Sequence[Node], placeholders: Sequence[Node], trace: int
    ) -> tuple[list[Node], list[Node], list[Any]] | None:
        """Return the order, the leaves and their avals of the graph behind `roots`, or None if the graph has other
        code."""
        count = len(self._instructions)
        env: list[Any] = [None] * (count + len(self._kinds))

        def put(slot: int, node: Node) -> bool:
            if env[slot] is None:
                env[slot] = node
            return env[slot] is node

        if len(roots) != len(self._roots) or len(placeholders) > len(self._kinds):
            return None
        known = [*map(invert, range(len(placeholders))), *self._roots]
        if not all(map(put, known, [*placeholders, *roots])):
            return None
        for slot in reversed(range(count)):
            op, params, reads = self._instructions[slot]
            node = env[slot]
            if node is None or node.op is not op or node.params != params or (node.value is not None and not trace):
                return None
            if len(node.inputs) != len(reads) or not all(map(put, reads, node.inputs)):
                return None
        leaves = env[: count - 1 : -1] if count else env[::-1]
        if None in leaves or tuple(map(_kind_of_leaf, leaves)) != self._kinds:
            return None
        for node in leaves[len(placeholders) :]:
            if node.trace >= trace if trace else _is_pending(node):
                return None
        return env[:count], leaves, [n.aval for n in leaves]


def _is_pending(node: Node) -> bool:
    """Return True if a node has no value yet. An output of an evaluated node gets its value here."""
    return node.value is None and not (node.op is ITEM and try_resolve_item(node))


if native:
    native.connect_code(SCALAR, TRACED, ITEM, try_resolve_item)
Path: Any = native.Path if native else _PathInPython


class _Seen:
    """Code that was seen before, with a path to follow it back and the Structure of its last use."""

    __slots__ = ("_code", "_last", "_path", "_roots")

    def __init__(self, structure: Structure, roots: tuple[int, ...]) -> None:
        self._code: Code = structure.code
        self._last = ([*structure.in_avals], structure)
        self._roots = roots
        self._path = Path(structure.code.instructions, structure.code.kinds, roots)

    def follow(self, roots: Sequence[Node], trace: int, placeholders: Sequence[Node]) -> Subgraph | None:
        """Return the subgraph behind `roots` if it has this code, else None."""
        path = self._path.follow(roots, placeholders, trace)
        if path is None:
            return None
        order, leaves, in_avals = path
        before, structure = self._last
        if in_avals != before:
            structure = structure_of(self._code, tuple(in_avals), order)
            self._last = (in_avals, structure)
        return _subgraph((structure, self._roots, order, leaves))


_seen: dict[tuple, tuple[_Seen, ...]] = {}
"""The code seen behind roots of each kind, most recent first."""


def linearize(roots: Sequence[Node], trace: int = 0, placeholders: Sequence[Node] = ()) -> Subgraph:
    """Return the subgraph behind `roots`, in execution order.

    Outside a capture (`trace` 0) it ends at nodes that have a value. Inside, it ends at the placeholders, which become
    the first leaves, and at nodes older than the trace.
    """
    before = clock.now
    kind = (len(roots), len(placeholders), trace == 0, *(_kind_of_root(roots[-1]) if roots else ()))
    seen = _seen.get(kind, ())
    for one in seen:
        subgraph = one.follow(roots, trace, placeholders)
        if subgraph is not None:
            if one is not seen[0]:
                _seen[kind] = (one, *[other for other in seen if other is not one])
            break
    else:
        subgraph = _walk(roots, trace, placeholders)
        code = subgraph.structure.code
        if not code.seen_before:
            code.seen_before = True  # only code that returns is worth a path
        elif remembers(subgraph.order):
            while len(_seen) >= policy.MOST_ENTRIES:
                _seen.pop(next(iter(_seen)), None)
            _seen[kind] = (_Seen(subgraph.structure, subgraph.roots), *seen[: policy.TRIES - 1])
    subgraph.structure.last_used = clock.now
    if clock.now != before and forget_the_oldest():
        clear_seen()  # `_seen` keeps structures alive; code in use will be entered again
    return subgraph


def _kind_of_root(root: Node) -> tuple:
    """Return a key of quick-to-read features that tell code apart. It is stored, so it must not refer to data of one
    call."""
    if root.op is None or root.op.uncacheable:
        return (root.op,)
    return (root.op, root.params, *[n.op for n in root.inputs])


def _walk(roots: Sequence[Node], trace: int, placeholders: Sequence[Node]) -> Subgraph:
    instructions, slots, order, leaves = walk(roots, trace, placeholders)
    structure = intern(instructions, order, leaves, remembers(order, in_capture=trace > 0))
    return _subgraph((structure, slots, order, leaves))


def _walk_in_python(
    roots: Sequence[Node], trace: int, placeholders: Sequence[Node]
) -> tuple[tuple[Instruction, ...], tuple[int, ...], list[Node], list[Node]]:
    """Return the instructions behind `roots`, the roots' slots, the nodes to compute in order, and the leaves."""
    slots: dict[Node, int] = {}
    leaves: list[Node] = list(placeholders)
    order: list[Node] = []
    instructions: list[Instruction] = []
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
            if node.op is ITEM and not trace and try_resolve_item(node):
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
            instructions.append((node.op, node.params, tuple(reads)))  # type: ignore[arg-type]
    return tuple(instructions), tuple([slots[r] for r in roots]), order, leaves


walk: Any = native.walk if native else _walk_in_python


def single_node(node: Node) -> Subgraph:
    """Return the subgraph of one node, whose inputs are its leaves, computed or not."""
    leaves = list(dict.fromkeys(node.inputs))
    slots = {n: ~k for k, n in enumerate(leaves)}
    instruction: Instruction = (node.op, node.params, tuple([slots[i] for i in node.inputs]))  # type: ignore[assignment]
    return Subgraph(intern((instruction,), [node], leaves, remembers([node])), (0,), [node], leaves)


def clear_seen() -> None:
    """Forget all code that was seen behind roots."""
    _seen.clear()
