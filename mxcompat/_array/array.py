"""The array handle: what a user holds.

A handle is one reference to a Node. `x += 1` and `x[i] = v` point the same handle at a new node, so every alias of the
handle sees the change and everything computed before keeps the old value. The methods that are ops are attached by
`_ops`, from the op table.
"""

from __future__ import annotations

from typing import Any

from mxcompat._graph.aval import Dtype
from mxcompat._graph.node import Node

__all__ = ["array", "wrap"]


class array:
    """An N-dimensional array, evaluated when its value is needed."""

    __slots__ = ("__weakref__", "_node")

    _node: Node

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self._node.aval.shape

    @property
    def dtype(self) -> Dtype:
        """The type of the elements."""
        return self._node.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._node.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._node.aval.size


_new = array.__new__


def wrap(node: Node) -> Any:
    """A new handle onto a node."""
    out = _new(array)
    out._node = node
    return out
