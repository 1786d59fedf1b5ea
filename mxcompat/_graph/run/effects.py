"""Effects: nodes that run alone, in the order in which the program made them.

A collective is an effect: it involves other processes, so it cannot be a part of an executable, and the order matters.
Before an effect runs, all earlier effects that are still referenced run, even if the evaluation does not need them. The
nodes between two effects are computed like any other subgraph.
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
from ..ir.rules import EFFECT
from ..ir.trace_stack import oldest_trace

__all__ = ["explained", "explanations", "lock", "number_effects", "run_effect", "segments", "sequence"]

lock = threading.RLock()
"""The lock that is held while an effect runs."""

_numbers = itertools.count()
_pending: dict[int, weakref.ref[Node]] = {}
"""The pending effects by number, without those in the body of a transform in progress."""


def number_effects() -> None:
    """Start to number effects as they are made."""
    if _number not in created:
        created.append(_number)


def _number(node: Node) -> None:
    if node.op in EFFECT and node.trace < oldest_trace():  # otherwise it is in the body of a capture in progress
        if len(_pending) > policy.MOST_PROGRAMS:
            _forget(None)
        _pending[next(_numbers)] = weakref.ref(node)


def _forget(node: Node | None) -> None:
    """Remove an effect from the pending ones, so that it runs only if its value is needed. With None, remove all
    effects whose nodes no longer exist."""
    for number, reference in list(_pending.items()):
        if reference() is node:
            _pending.pop(number, None)


explanations: list[Callable[[Exception], Exception | None]] = []
"""Callbacks that may replace an error that was raised while a value was awaited. If an effect caused the error, a
callback returns an error that says so."""


def explained(error: Exception) -> Exception:
    """Return the error to raise in place of one that was raised while a value was awaited."""
    for explain in explanations:
        better = explain(error)
        if better is not None:
            better.__cause__ = error
            return better
    return error


def sequence(subgraph: Subgraph) -> list[Node]:
    """Return the effects to run for a subgraph, in order: its own, and all earlier ones."""
    needed = dict.fromkeys([n for n in subgraph.order if n.op in EFFECT])
    pending: list[Node] = []
    last = 0
    for number, reference in list(_pending.items()):
        if not needed:
            break
        node = reference()
        if node is None or node.value is not None or node.op not in EFFECT:
            _pending.pop(number, None)
            continue
        pending.append(node)
        if node in needed:
            del needed[node]
            last = len(pending)
    return [*pending[:last], *needed]  # the unnumbered ones are in the body of a capture in progress


def segments(subgraph: Subgraph, effects: Sequence[Node], roots: Sequence[Node]) -> list[list[Node]]:
    """Return the roots of the segments of a subgraph: each effect is a segment, after a segment with its inputs.
    The inputs of consecutive independent effects share a segment."""
    place = {node: k for k, node in enumerate(effects)}
    latest: dict[Node, int] = {}  # the last effect that a node depends on
    for node in subgraph.order:
        latest[node] = max([latest.get(n, -1) for n in node.inputs] + [place.get(node, -1)])
    groups: list[list[Node]] = []
    batch: list[Node] = []

    def close() -> None:
        groups.append(unevaluated(list(dict.fromkeys([n for node in batch for n in node.inputs]))))
        groups.extend([node] for node in batch)
        batch.clear()

    for k, node in enumerate(effects):
        if batch and max([latest.get(n, -1) for n in node.inputs], default=-1) >= k - len(batch):
            close()
        batch.append(node)
    close()
    return [*groups, list(roots)]


def run_effect(node: Node) -> tuple:
    """Run an effect whose inputs have values, and return its values. An error has a note with the user's line that made
    the effect."""
    try:
        return EFFECT[node.op](node)  # type: ignore[index]
    except Exception as error:
        _forget(node)
        error.add_note(f"In the evaluation of [{node.op}], called at {location(node) or 'an unknown place'}.")
        raise
