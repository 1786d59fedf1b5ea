"""Steps: nodes that run by themselves, in the order in which the program made them.

A collective is one: what it computes is not up to this process alone, so that it belongs into no executable of it, and
the order matters. Before a step is taken, those made before it are, so far as anything still refers to them, whatever
was asked for. What lies between two steps is computed as any other subgraph.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence

from .. import policy
from ..ir.fields import unevaluated
from ..ir.linearize import Subgraph
from ..ir.node import Node, created, location
from ..ir.rules import STEP
from ..ir.traces import oldest_trace

__all__ = ["count", "explained", "explanations", "lock", "segments", "sequence", "take"]

lock = threading.RLock()
"""Held while a step is taken."""

_numbers = itertools.count()
_pending: dict[int, weakref.ref[Node]] = {}
"""The steps not taken yet, by number; not those of which a transform under way makes its body."""


def count() -> None:
    """Number steps as they are made, from now on."""
    if _number not in created:
        created.append(_number)


def _number(node: Node) -> None:
    if node.op in STEP and node.trace < oldest_trace():  # else it is part of the body of a capture under way
        if len(_pending) > policy.MOST_FLYING:
            _forget(None)
        _pending[next(_numbers)] = weakref.ref(node)


def _forget(node: Node | None) -> None:
    """Forget a step, which then is only taken if it is asked for; None: those that are gone."""
    for number, reference in list(_pending.items()):
        if reference() is node:
            _pending.pop(number, None)


explanations: list[Callable[[Exception], Exception | None]] = []
"""What is asked for the error to raise when a value does not come: some step may be under way that has failed."""


def explained(error: Exception) -> Exception:
    """The error to raise for one that came with a value."""
    for explain in explanations:
        found = explain(error)
        if found is not None:
            found.__cause__ = error
            return found
    return error


def sequence(subgraph: Subgraph) -> list[Node]:
    """The steps to take for a subgraph, in order: its own, and those made before."""
    wanted = dict.fromkeys([n for n in subgraph.order if n.op in STEP])
    found: list[Node] = []
    last = 0
    for number, reference in list(_pending.items()):
        if not wanted:
            break
        node = reference()
        if node is None or node.value is not None or node.op not in STEP:
            _pending.pop(number, None)
            continue
        found.append(node)
        if node in wanted:
            del wanted[node]
            last = len(found)
    return [*found[:last], *wanted]  # the others are of the body of a capture under way


def segments(subgraph: Subgraph, steps: Sequence[Node], roots: Sequence[Node]) -> list[list[Node]]:
    """The segments of a subgraph, each by its roots: steps one by one, and before them what they read. What several
    read that do not depend on each other is computed at once."""
    place = {node: k for k, node in enumerate(steps)}
    latest: dict[Node, int] = {}  # the last step that a node depends on
    for node in subgraph.order:
        latest[node] = max([latest.get(n, -1) for n in node.inputs] + [place.get(node, -1)])
    found: list[list[Node]] = []
    batch: list[Node] = []

    def close() -> None:
        found.append(unevaluated(list(dict.fromkeys([n for node in batch for n in node.inputs]))))
        found.extend([node] for node in batch)
        batch.clear()

    for k, node in enumerate(steps):
        if batch and max([latest.get(n, -1) for n in node.inputs], default=-1) >= k - len(batch):
            close()
        batch.append(node)
    close()
    return [*found, list(roots)]


def take(node: Node) -> tuple:
    """The values of a step whose inputs have theirs. An error has a note of the line of the user's that made it."""
    try:
        return STEP[node.op](node)  # type: ignore[index]
    except Exception as error:
        _forget(node)
        error.add_note(f"In the evaluation of [{node.op}], called at {location(node) or 'an unknown place'}.")
        raise
