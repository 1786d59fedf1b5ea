"""Linearize: the subgraph behind some roots, in execution order, with its structure.

A subgraph like one seen before, of whatever shapes, is recognised by following that one's instructions back from the
roots; only another is walked, hashed and interned.
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
from .outputs import taken
from .program import Code
from .structure import Structure, clock, forget_the_oldest, intern, remembers, structure_of

__all__ = ["Subgraph", "clear_paths", "linearize", "single_node"]


class Subgraph(NamedTuple):
    """A subgraph in execution order.

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


_subgraph: Callable[[tuple], Subgraph] = partial(tuple.__new__, Subgraph)  # half of what calling the class costs


def _kind_of_leaf(leaf: Node) -> Op | None:
    """What distinguishes leaves of one aval: whether it is a Python number, or a JAX tracer."""
    return leaf.op if leaf.op is SCALAR or leaf.op is TRACED else None


_Step = tuple[int, Op, tuple, tuple[int, ...]]


def _follow(
    steps: Sequence[_Step], kinds: Sequence[Op | None], slots: Sequence[int], roots: Sequence[Node],
    placeholders: Sequence[Node], trace: int,
) -> tuple[list[Node], list[Node], list[Any]] | None:  # fmt: skip
    """Follow code back from `roots`, which have these slots: each step names a slot whose node is known by then, what
    op and params it must have, and the slots of its inputs. The last leaves are found first, at ~k the one at k.

    Returns:
        The order, the leaves and their avals; None if something is not as the steps say.
    """
    count = len(steps)
    env: list[Any] = [None] * (count + len(kinds))

    def put(slot: int, node: Node) -> bool:
        if env[slot] is None:
            env[slot] = node
        return env[slot] is node

    if not all(map(put, map(invert, range(len(placeholders))), placeholders)) or not all(map(put, slots, roots)):
        return None
    for slot, op, params, reads in steps:
        node = env[slot]
        if node.op is not op or node.params != params or (node.value is not None and not trace):
            return None
        if len(node.inputs) != len(reads) or not all(map(put, reads, node.inputs)):
            return None
    leaves = env[: count - 1 : -1] if count else env[::-1]
    if [*map(_kind_of_leaf, leaves)] != kinds:
        return None
    for node in leaves[len(placeholders) :]:
        if node.trace >= trace if trace else (node.value is None and not (node.op is ITEM and taken(node))):
            return None
    return env[:count], leaves, [n.aval for n in leaves]


if native:
    native.connect_code(SCALAR, TRACED, ITEM, taken)
follow: Callable[..., tuple[list[Node], list[Node], list[Any]] | None] = native.follow if native else _follow


class _Path:
    """How to follow code back from its roots."""

    __slots__ = ("_code", "_kinds", "_last", "_roots", "_steps")

    def __init__(self, structure: Structure, roots: tuple[int, ...]) -> None:
        self._code: Code = structure.code
        self._last = ([*structure.in_avals], structure)
        self._roots = roots
        self._kinds = list(structure.code.kinds)
        self._steps = [(k, *instruction) for k, instruction in reversed([*enumerate(structure.code.instructions)])]

    def follow(self, roots: Sequence[Node], trace: int, placeholders: Sequence[Node]) -> Subgraph | None:
        """The subgraph behind `roots` if it has this code, else None."""
        found = follow(self._steps, self._kinds, self._roots, roots, placeholders, trace)
        if found is None:
            return None
        order, leaves, in_avals = found
        before, structure = self._last
        if in_avals != before:
            structure = structure_of(self._code, tuple(in_avals), order)
            self._last = (in_avals, structure)
        return _subgraph((structure, self._roots, order, leaves))


_paths: dict[tuple, tuple[_Path, ...]] = {}
"""What roots of a kind had behind them, most recent first."""


def linearize(roots: Sequence[Node], trace: int = 0, placeholders: Sequence[Node] = ()) -> Subgraph:
    """The graph behind `roots`, in execution order.

    Outside a capture (`trace` 0) it ends at nodes that have a value. Inside, it ends at the placeholders, which
    become the first leaves, and at every node older than the trace.
    """
    before = clock.now
    kind = (len(roots), len(placeholders), trace == 0, *(_kind_of_root(roots[-1]) if roots else ()))
    paths = _paths.get(kind, ())
    for path in paths:
        found = path.follow(roots, trace, placeholders)
        if found is not None:
            if path is not paths[0]:
                _paths[kind] = (path, *[p for p in paths if p is not path])
            break
    else:
        found = _walk(roots, trace, placeholders)
        code = found.structure.code
        if not code.seen_before:
            code.seen_before = True  # and so may well return again
        elif remembers(found.order):
            while len(_paths) >= policy.MOST_KINDS_OF_ROOTS:
                _paths.pop(next(iter(_paths)), None)
            _paths[kind] = (_Path(found.structure, found.roots), *paths[: policy.TRIES - 1])
    found.structure.last_used = clock.now
    if clock.now != before and forget_the_oldest():
        clear_paths()  # which hold structures; those in use are found again
    return found


def _kind_of_root(root: Node) -> tuple:
    """What tells code apart at first sight."""
    return (root.op, root.params, *[n.op for n in root.inputs])


def _walk(roots: Sequence[Node], trace: int, placeholders: Sequence[Node]) -> Subgraph:
    slots: dict[Node, int] = {}
    leaves: list[Node] = list(placeholders)
    order: list[Node] = []
    flat: list[Any] = []
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
            if node.op is ITEM and not trace and taken(node):
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
            flat += (node.op, node.params, *reads)
    structure = intern(flat, order, leaves, slots, remembers(order, in_capture=trace > 0))
    return _subgraph((structure, tuple([slots[r] for r in roots]), order, leaves))


def single_node(node: Node) -> Subgraph:
    """The subgraph that is this node, with its inputs, computed or not, for leaves."""
    leaves = list(dict.fromkeys(node.inputs))
    slots = {n: ~k for k, n in enumerate(leaves)}
    flat = [node.op, node.params, *[slots[i] for i in node.inputs]]
    return Subgraph(intern(flat, [node], leaves, slots, remembers([node])), (0,), [node], leaves)


def clear_paths() -> None:
    """Forget what roots had behind them."""
    _paths.clear()
