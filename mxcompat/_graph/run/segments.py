"""Segments: the parts of a graph that had better not be compiled as a whole, each given by its roots.

Very large graphs have segments of one size; random draws and the programs of transforms run on their own until the
whole has been compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import policy
from ..ir.fields import unevaluated
from ..ir.linearize import Subgraph
from ..ir.node import ITEM, Node
from ..ir.program import programs_in
from ..ir.rules import SEGMENTS

__all__ = ["even_segments", "is_heavy_node", "is_huge", "nested_apart", "segments_of"]


def segments_of(subgraph: Subgraph, roots: Sequence[Node]) -> list[list[Node]]:
    """The roots of each segment, those of the whole last; nothing if a subgraph had better run whole.

    First come random draws. Then one after the other the transform nodes, which hold whole programs: these take long to
    compile and often meet again in other company, so that, run on their own, they are compiled once.
    """
    draws = _draws(subgraph)
    nested = [n for n in subgraph.order if _weight(n.params) > policy.FEW_NESTED]
    others = sum(n.op is not ITEM for n in subgraph.order) - len(nested)
    if not any(map(is_heavy_node, nested)) and not (nested and others) and len(draws) in (0, len(subgraph.order)):
        return []
    segments = [draws]
    for node in nested:
        if is_heavy_node(node):  # by itself, so that it can be run in segments
            segments.append(unevaluated(node.inputs))
        segments.append([node])
    return [*segments, list(roots)]


def nested_apart(subgraph: Subgraph, roots: Sequence[Node]) -> list[list[Node]]:
    """The roots of segments in which each node with a program of its own is by itself."""
    nested = [n for n in subgraph.order if _weight(n.params)]
    return [*[segment for n in nested for segment in (unevaluated(n.inputs), [n])], list(roots)]


def _draws(subgraph: Subgraph) -> list[Node]:
    """The nodes of a subgraph that draw random numbers from what is already there."""
    found: dict[Node, bool] = {}  # whether a node that can run early is a draw
    pending = set(subgraph.order)
    for node in subgraph.order:
        if (node.op.draws or node.op is ITEM) and all(i in found or i not in pending for i in node.inputs):  # type: ignore[union-attr]
            found[node] = node.op is not ITEM and not isinstance(node.aval, tuple)
    return [n for n, is_draw in found.items() if is_draw]


def _weight(params: tuple) -> int:
    """The number of instructions in the programs among an op's params."""
    return sum([p.weight for p in programs_in(params)])


def is_heavy_node(node: Node) -> bool:
    """Whether the programs of a node are so long that it may have to run in segments."""
    return _weight(node.params) > policy.HEAVY_NESTED


def is_huge(subgraph: Subgraph) -> bool:
    """Whether a node of a subgraph always has to run in segments, so that the whole never runs as one."""
    instructions = subgraph.structure.code.instructions
    return any(op in SEGMENTS and _weight(params) > policy.HUGE_NESTED for op, params, _ in instructions)


def even_segments(subgraph: Subgraph, compiled: bool) -> list[list[Node]]:
    """The roots of the segments of a large graph: the nodes that later segments read, or the whole's own. What is to be
    compiled has its random draws before them, a few at a time."""
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
        draws = []  # it is they that are large
    return [*[draws[k : k + few] for k in range(0, len(draws), few)], *map(list, segments)]


def _places(subgraph: Subgraph) -> list[int]:
    """Which segment each node of a large graph is in: those before it are as long as a graph may be."""
    found, full, length = [], 0, 0
    for node in subgraph.order:
        weight = 1 + _weight(node.params)
        if length and length + weight > policy.LARGE_GRAPH:
            full, length = full + 1, 0
        length += weight
        found.append(full)
    return found
