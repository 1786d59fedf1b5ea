"""Parts: where to stop on the way through a graph that had better not be compiled as a whole.

Very large graphs are cut evenly; random draws and the programs of transforms run on their own until the whole has been
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import ITEM, Node
from ..ir.program import Program
from ..ir.rules import SEGMENTS
from ..ir.structure import LARGE, Subgraph

__all__ = ["cut", "is_heavy", "is_huge", "stops_of", "unevaluated", "weight"]

_FEW = 30
"""A nested program of no more instructions is compiled with what is around it, not on its own first."""

_HEAVY = 300
"""A nested program of more instructions may be run in pieces."""

_HUGE = 800
"""One of more instructions always is: compiling it would take minutes."""


def stops_of(subgraph: Subgraph, roots: Sequence[Node]) -> list[list[Node]]:
    """The nodes at which to stop on the way to the roots, which come last; nothing if a stretch had better run whole.

    First come random draws. Then one after the other the transform nodes, which hold whole programs: these take long to
    compile and often meet again in other company, so that, run on their own, they are compiled once.
    """
    draws = _draws(subgraph)
    nested = [n for n in subgraph.order if weight(n.params) > _FEW]
    others = sum(n.op is not ITEM for n in subgraph.order) - len(nested)
    if not any(map(is_heavy, nested)) and not (nested and others) and len(draws) in (0, len(subgraph.order)):
        return []
    stops = [draws]
    for node in nested:
        if is_heavy(node):  # alone, so that it can be run in pieces
            stops.append(unevaluated(node.inputs))
        stops.append([node])
    return [*stops, list(roots)]


def _draws(subgraph: Subgraph) -> list[Node]:
    """The nodes of a stretch that draw random numbers from what is already there."""
    found: dict[Node, bool] = {}  # whether a node that can run early is a draw
    pending = set(subgraph.order)
    for node in subgraph.order:
        if (node.op.draws or node.op is ITEM) and all(i in found or i not in pending for i in node.inputs):  # type: ignore[union-attr]
            found[node] = node.op is not ITEM and not isinstance(node.aval, tuple)
    return [n for n, is_draw in found.items() if is_draw]


def weight(params: tuple) -> int:
    """The number of instructions in the programs among an op's params."""
    return sum([p.weight for p in params if isinstance(p, Program)])


def is_heavy(node: Node) -> bool:
    """Whether the programs of a node are so long that it may have to run in pieces."""
    return weight(node.params) > _HEAVY


def is_huge(subgraph: Subgraph) -> bool:
    """Whether a node of a stretch always has to run in pieces, so that the whole never runs as one."""
    return any(op in SEGMENTS and weight(params) > _HUGE for op, params, _ in subgraph.structure.instructions)


def unevaluated(nodes: Sequence[Node]) -> list[Node]:
    """Those of the nodes that have no value yet."""
    return [n for n in nodes if n.value is None]


def cut(subgraph: Subgraph) -> list[list[Node]]:
    """The nodes at which to evaluate a large graph one after the other: for each piece, those that later ones read."""
    order = subgraph.order
    pieces: list[dict[Node, None]] = [{} for _ in range(0, len(order), LARGE)]
    for k, (_, _, slots) in enumerate(subgraph.structure.instructions):
        for slot in slots:
            if slot >= 0 and slot // LARGE < k // LARGE:
                pieces[slot // LARGE][order[slot]] = None
    for slot in subgraph.roots:
        if slot >= 0:
            pieces[slot // LARGE][order[slot]] = None
    return [list(piece) for piece in pieces]
