"""Traces: the captures that are under way in this thread, and which of them a node may belong to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .node import Node

if TYPE_CHECKING:
    from .capture import Capture

__all__ = [
    "any_shape", "given", "innermost_trace", "modes_of", "oldest_trace", "readable", "transforms_of", "under_way",
]  # fmt: skip

_NO_TRACE = 1 << 62


class _Traces(threading.local):
    def __init__(self) -> None:
        self.live: list[Capture] = []
        self.valueless = 0


under_way = _Traces()


def oldest_trace() -> int:
    """The id of the outermost capture under way in this thread; larger than any id where there is none."""
    live = under_way.live
    return live[0].id if live else _NO_TRACE


def innermost_trace() -> int:
    """The id of the innermost capture under way in this thread; 0 where there is none."""
    live = under_way.live
    return live[-1].id if live else 0


def modes_of(nodes: Sequence[Node]) -> set[str]:
    """The modes of the captures under way in this thread on whose arguments these nodes may depend."""
    live = under_way.live
    if not live:
        return set()
    newest = max([n.trace for n in nodes], default=0)
    return {capture.mode for capture in live if capture.id <= newest}


def given() -> list[Node]:
    """The nodes that the functions under way in this thread were given besides placeholders."""
    return [n for capture in under_way.live for n in capture.given]


def transforms_of(nodes: Sequence[Node]) -> list[Capture]:
    """The captures under way in this thread, innermost first, that have rules for custom functions and on whose
    arguments these nodes may depend."""
    newest = max([n.trace for n in nodes], default=0)
    found: list[Capture] = []
    for capture in reversed(under_way.live):
        if capture.id <= newest and capture.mode == "plain":
            break
        if capture.id <= newest and capture.mode != "call":
            found.append(capture)
    return found


def readable() -> bool:
    """Whether every capture under way in this thread has arguments that can be evaluated."""
    return not under_way.valueless


def any_shape() -> bool:
    """Whether a capture under way in this thread is for other shapes, too, so that what has one must depend on it."""
    return any(capture.any_shape for capture in under_way.live)
