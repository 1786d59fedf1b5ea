"""Liveness: find the nodes of a subgraph that something outside it refers to, by reference counts; and an order of its
ops in which values are held briefly.

In an evaluation, live-out nodes are those that the user may still read, so they are computed once and kept. Buffers of
unreachable leaves can be donated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mxcompat._compat.references import BY_COUNTING, of_each

from .linearize import Subgraph

__all__ = ["leaves_late", "live_out", "unreachable_leaves"]


def live_out(subgraph: Subgraph) -> list[int]:
    """Return the slots in `subgraph.order` whose nodes are referred to from outside the graph."""
    counts = of_each(subgraph.order)
    code = subgraph.structure.code
    before, live = code.held
    if counts != before:
        live = [k for k, (count, uses) in enumerate(zip(counts, code.uses, strict=True)) if count > BY_COUNTING + uses]
        code.held = (counts, live)
    return live


def unreachable_leaves(subgraph: Subgraph, among: Iterable[int]) -> list[int]:
    """Return those of the positions `among` in `subgraph.leaves` whose nodes and values only the graph refers to."""
    counts = of_each(subgraph.leaves)
    read = subgraph.structure.code.leaf_uses
    return [k for k in among if counts[k] <= BY_COUNTING + read[k]]


def leaves_late(instructions: Sequence[Any]) -> list[int]:
    """Return the slots in an order for one executable per op: ops that read only leaves come right before their first
    use. Transposed weights, for instance, are copies here, and would otherwise all be held at once (ViT-B, the peak of
    the first step: 1 160 MB, now 750)."""
    waiting = {slot for slot, (_, _, slots) in enumerate(instructions) if all(s < 0 for s in slots)}
    order: list[int] = []
    for slot, (_, _, slots) in enumerate(instructions):
        if slot not in waiting:
            for s in dict.fromkeys(slots):
                if s in waiting:
                    waiting.remove(s)
                    order.append(s)
            order.append(slot)
    return order + sorted(waiting)
