"""Liveness: which nodes of a subgraph does anything outside it still refer to?

Asked of an evaluation, the answer is what a user may still look at (so it is computed once and kept) and which
buffers nobody can reach any more (so they can be written over). Reference counts know.
"""

from __future__ import annotations

from collections.abc import Iterable

from mxcompat._compat.references import BY_COUNTING, of_each

from .linearize import Subgraph

__all__ = ["live_out", "unreachable_leaves"]


def live_out(subgraph: Subgraph) -> list[int]:
    """The slots in `subgraph.order` whose nodes are held by something other than the graph itself."""
    counts = of_each(subgraph.order)
    code = subgraph.structure.code
    before, found = code.held
    if counts != before:
        found = [k for k, (count, uses) in enumerate(zip(counts, code.uses, strict=True)) if count > BY_COUNTING + uses]
        code.held = (counts, found)
    return found


def unreachable_leaves(subgraph: Subgraph, among: Iterable[int]) -> list[int]:
    """Those of these positions in `subgraph.leaves` whose nodes, and their values, nothing but the graph holds."""
    counts = of_each(subgraph.leaves)
    read = subgraph.structure.code.leaf_uses
    return [k for k in among if counts[k] <= BY_COUNTING + read[k]]
