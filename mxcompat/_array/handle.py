"""The base class of arrays: a reference to a node, and the buffer protocol.

It is written in C, because NumPy asks for a buffer first, and because Python classes cannot offer one before 3.12.
Without the C extension, a Python class is used: it is slower and needs 3.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mxcompat._graph.ir.node import Node
from mxcompat._native import native

from .errors import no_format

__all__ = ["Handle"]


class _InPython:
    __slots__ = ("_node",)

    if TYPE_CHECKING:
        _node: Node
        _memory: Callable[[int], tuple[memoryview, str | None]]

    def __buffer__(self, flags: int, /) -> memoryview:
        view, kind = self._memory(flags)
        if kind is not None:
            raise no_format(kind)
        return view

    def __release_buffer__(self, view: memoryview, /) -> None:
        """Do nothing. Because this method exists, `np.frombuffer` keeps the buffer alive while it uses it."""


Handle: Any = native.Handle if native else _InPython
