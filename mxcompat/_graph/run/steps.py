"""Steps: nodes that run alone, in the order in which the program made them.

A collective is a step: it involves other processes, so it cannot be a part of an executable, and the order matters.
Before a step is taken, all earlier steps that are still referenced are taken, even if the evaluation does not need
them. The nodes between two steps are computed like any other subgraph.
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
"""The lock that is held while a step is taken."""

_numbers = itertools.count()
_pending: dict[int, weakref.ref[Node]] = {}
"""The pending steps by number, without those in the body of a transform in progress."""


def count() -> None:
    """Start to number steps as they are made."""
    if _number not in created:
        created.append(_number)


def _number(node: Node) -> None:
    if node.op in STEP and node.trace < oldest_trace():  # otherwise it is in the body of a capture in progress
        if len(_pending) > policy.MOST_FLYING:
            _forget(None)
        _pending[next(_numbers)] = weakref.ref(node)


def _forget(node: Node | None) -> None:
    """Remove a step from the pending ones, so that it is taken only if its value is needed. With None, remove all steps
    whose nodes no longer exist."""
    for number, reference in list(_pending.items()):
        if reference() is node:
            _pending.pop(number, None)


explanations: list[Callable[[Exception], Exception | None]] = []
"""Callbacks that may return a better error for one that came with a value, because a step in progress has failed."""


def explained(error: Exception) -> Exception:
    """Return the error to raise for an error that came with a value."""
    for explain in explanations:
        found = explain(error)
        if found is not None:
            found.__cause__ = error
            return found
    return error


def sequence(subgraph: Subgraph) -> list[Node]:
    """Return the steps to take for a subgraph, in order: its own, and all earlier ones."""
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
    return [*found[:last], *wanted]  # the unnumbered ones are in the body of a capture in progress


def segments(subgraph: Subgraph, steps: Sequence[Node], roots: Sequence[Node]) -> list[list[Node]]:
    """Return the roots of the segments of a subgraph: each step is a segment, after a segment with its inputs. The
    inputs of consecutive independent steps share a segment."""
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
    """Run a step whose inputs have values, and return its values. An error has a note with the user's line that made
    the step."""
    try:
        return STEP[node.op](node)  # type: ignore[index]
    except Exception as error:
        _forget(node)
        error.add_note(f"In the evaluation of [{node.op}], called at {location(node) or 'an unknown place'}.")
        raise
