"""Segments: cut a graph that should not be compiled as a whole. Each segment is given by its roots.

Very large graphs are cut into segments of equal size. In other graphs, random draws and the programs of transforms run
separately until the whole is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import policy
from ..ir.analyses import analysis
from ..ir.fields import unevaluated
from ..ir.linearize import Subgraph
from ..ir.node import ITEM, Node
from ..ir.program import Code, programs_in
from ..ir.rules import SEGMENTS

__all__ = ["even_segments", "is_heavy_node", "is_huge", "nested_apart", "segments_of"]


def segments_of(subgraph: Subgraph, roots: Sequence[Node]) -> list[list[Node]]:
    """Return the roots of each segment, with the roots of the whole last. Return [] if the subgraph should run whole.

    Random draws come first, then the transform nodes. A transform node holds a Program that takes long to compile and
    often occurs again in other graphs; if it runs alone, it is compiled once.
    """
    draws = _draws(subgraph)
    nested = [n for n in subgraph.order if _weight(n.params) > policy.FEW_INSTRUCTIONS]
    others = sum(n.op is not ITEM for n in subgraph.order) - len(nested)
    if not any(map(is_heavy_node, nested)) and not (nested and others) and len(draws) in (0, len(subgraph.order)):
        return []
    segments = [draws]
    for node in nested:
        if is_heavy_node(node):  # its inputs come first, so that the node alone can be split further
            segments.append(unevaluated(node.inputs))
        segments.append([node])
    return [*segments, list(roots)]


def nested_apart(subgraph: Subgraph, roots: Sequence[Node]) -> list[list[Node]]:
    """Return the roots of segments in which each node with a nested program is alone."""
    nested = [n for n in subgraph.order if _weight(n.params)]
    return [*[segment for n in nested for segment in (unevaluated(n.inputs), [n])], list(roots)]


def _draws(subgraph: Subgraph) -> list[Node]:
    """Return the nodes that draw random numbers from values that are already computed."""
    early: dict[Node, bool] = {}  # nodes that can run early, with True for draws
    pending = set(subgraph.order)
    for node in subgraph.order:
        if (node.op.draws or node.op is ITEM) and all(i in early or i not in pending for i in node.inputs):  # type: ignore[union-attr]
            early[node] = node.op is not ITEM and not isinstance(node.aval, tuple)
    return [n for n, is_draw in early.items() if is_draw]


def _weight(params: tuple) -> int:
    """Return the number of instructions in the programs among an op's params."""
    return sum([p.weight for p in programs_in(params)])


def is_heavy_node(node: Node) -> bool:
    """Return True if the programs of a node are so long that it may have to run in segments."""
    return _weight(node.params) > policy.LARGE_PROGRAM


@analysis
def is_huge(code: Code) -> bool:
    """Return True if a node must always run in segments, so that the whole never is one executable."""
    return any(op in SEGMENTS and _weight(params) > policy.HUGE_NESTED for op, params, _ in code.instructions)


def even_segments(subgraph: Subgraph, compiled: bool) -> list[list[Node]]:
    """Return the roots of the segments of a large graph: the nodes that later segments read, and the roots of the
    whole. With `compiled`, segments with a few random draws each come first."""
    order = subgraph.order
    places = _places(subgraph)
    segments: list[dict[Node, None]] = [{} for _ in range(places[-1] + 1)]
    for k, (_, _, slots) in enumerate(subgraph.structure.code.instructions):
        for slot in slots:
            if slot >= 0 and places[slot] < places[k]:
                segments[places[slot]][order[slot]] = None
    for slot in subgraph.roots:
        if slot >= 0:
            segments[places[slot]][order[slot]] = None
    draws, few = _draws(subgraph) if compiled else [], policy.DRAWS_AT_ONCE
    if len(draws) <= few and {order[slot] for slot in subgraph.roots if slot >= 0}.issubset(draws):
        draws = []  # the draws themselves are the large graph
    return [*[draws[k : k + few] for k in range(0, len(draws), few)], *map(list, segments)]


def _places(subgraph: Subgraph) -> list[int]:
    """Return the number of the segment of each node of a large graph. All segments but the last have the maximal
    length."""
    places, full, length = [], 0, 0
    for node in subgraph.order:
        weight = 1 + _weight(node.params)
        if length and length + weight > policy.LARGE_GRAPH:
            full, length = full + 1, 0
        length += weight
        places.append(full)
    return places
