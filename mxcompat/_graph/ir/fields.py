"""Read one field of many nodes at once; several calls per evaluation do this for all roots or leaves of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._native import native

from .node import SCALAR, Node

__all__ = ["arrays_of", "avals_of", "unevaluated"]


def _unevaluated(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that have no value yet."""
    return [n for n in nodes if n.value is None]


def _avals_of(nodes: Sequence[Node]) -> tuple[Any, ...]:
    """Return the aval of each node."""
    return tuple([n.aval for n in nodes])


def _arrays_of(nodes: Sequence[Node]) -> list[Any]:
    """Return the values of all leaves that are not Python numbers."""
    return [n.value for n in nodes if n.op is not SCALAR]


unevaluated: Callable[[Sequence[Node]], list[Node]] = native.unevaluated if native else _unevaluated
avals_of: Callable[[Sequence[Node]], tuple[Any, ...]] = native.avals_of if native else _avals_of
arrays_of: Callable[[Sequence[Node]], list[Any]] = native.arrays_of if native else _arrays_of
