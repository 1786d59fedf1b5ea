"""Traces: the captures that are in progress in this thread, and those to which a node may belong."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .node import Node

if TYPE_CHECKING:
    from .capture import Capture

__all__ = [
    "any_shape", "innermost_trace", "modes_of", "oldest_trace", "other_arguments", "readable", "transforms_of",
    "under_way",
]  # fmt: skip

_NO_TRACE = 1 << 62


class _Traces(threading.local):
    def __init__(self) -> None:
        self.live: list[Capture] = []
        self.valueless = 0


under_way = _Traces()


def oldest_trace() -> int:
    """Return the id of the outermost capture in this thread, or a number larger than any id if there is none."""
    live = under_way.live
    return live[0].id if live else _NO_TRACE


def innermost_trace() -> int:
    """Return the id of the innermost capture in this thread, or 0 if there is none."""
    live = under_way.live
    return live[-1].id if live else 0


def modes_of(nodes: Sequence[Node]) -> set[str]:
    """Return the modes of the captures in this thread whose arguments these nodes may depend on."""
    live = under_way.live
    if not live:
        return set()
    newest = max([n.trace for n in nodes], default=0)
    return {capture.mode for capture in live if capture.id <= newest}


def other_arguments() -> list[Node]:
    """Return the nodes of the arguments that have no placeholder, for all captured functions in this thread."""
    return [n for capture in under_way.live for n in capture.other_arguments]


def transforms_of(nodes: Sequence[Node]) -> list[Capture]:
    """Return the captures in this thread, innermost first, that these nodes may depend on and that have rules for
    custom functions."""
    newest = max([n.trace for n in nodes], default=0)
    captures: list[Capture] = []
    for capture in reversed(under_way.live):
        if capture.id <= newest and capture.mode == "plain":
            break
        if capture.id <= newest and capture.mode != "call":
            captures.append(capture)
    return captures


def readable() -> bool:
    """Return True if the arguments of all captures in this thread can be evaluated."""
    return not under_way.valueless


def any_shape() -> bool:
    """Return True if a capture in this thread is for other shapes, too. Values that depend on a shape must then depend
    on the array."""
    return any(capture.any_shape for capture in under_way.live)
