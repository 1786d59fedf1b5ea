"""Liveness: which nodes of a subgraph does anything outside it still refer to?

Asked of an evaluation, the answer is what a user may still look at (so it is computed once and kept) and which
buffers nobody can reach any more (so they can be written over). Reference counts know.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getrefcount

from .linearize import Subgraph, linearize
from .node import SCALAR, Node

__all__ = ["live_out", "unreachable_leaves"]


def live_out(subgraph: Subgraph) -> list[int]:
    """The slots in `subgraph.order` whose nodes are held by something other than the graph itself."""
    counts = list(map(getrefcount, subgraph.order))
    code = subgraph.structure.code
    before, found = code.held
    if counts != before:
        found = [k for k, (count, uses) in enumerate(zip(counts, code.uses, strict=True)) if count > _OWN + uses]
        code.held = (counts, found)
    return found


def unreachable_leaves(subgraph: Subgraph, among: Iterable[int]) -> list[int]:
    """Those of these positions in `subgraph.leaves` whose nodes, and their values, nothing but the graph holds."""
    counts = list(map(getrefcount, subgraph.leaves))
    read = subgraph.structure.code.leaf_uses
    return [k for k in among if counts[k] <= _OWN + read[k]]


def _references_held() -> int:
    """What `linearize` and `map(getrefcount, …)` themselves hold of a node, in this version of Python."""
    subgraph = linearize([Node(SCALAR, (), (), None, 0)])
    return max(map(getrefcount, subgraph.order))


_OWN = _references_held()
