"""Liveness: find the nodes of a subgraph that something outside it refers to, by reference counts.

In an evaluation, live-out nodes are those that the user may still read, so they are computed once and kept. Buffers of
unreachable leaves can be donated.
"""

from __future__ import annotations

from collections.abc import Iterable

from mxcompat._compat.references import BY_COUNTING, of_each

from .linearize import Subgraph

__all__ = ["live_out", "unreachable_leaves"]


def live_out(subgraph: Subgraph) -> list[int]:
    """Return the slots in `subgraph.order` whose nodes are referred to from outside the graph."""
    counts = of_each(subgraph.order)
    code = subgraph.structure.code
    before, found = code.held
    if counts != before:
        found = [k for k, (count, uses) in enumerate(zip(counts, code.uses, strict=True)) if count > BY_COUNTING + uses]
        code.held = (counts, found)
    return found


def unreachable_leaves(subgraph: Subgraph, among: Iterable[int]) -> list[int]:
    """Return the positions among these in `subgraph.leaves` whose nodes and values only the graph refers to."""
    counts = of_each(subgraph.leaves)
    read = subgraph.structure.code.leaf_uses
    return [k for k in among if counts[k] <= BY_COUNTING + read[k]]
