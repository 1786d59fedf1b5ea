"""The base of arrays: a reference to a node, and what offers their memory to whatever takes a buffer.

It is written in C, since NumPy asks for the buffer before it asks for anything else, and since Python has no other way
before 3.12. Where that could not be built, Python's own way serves: slower, and not before 3.12.
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
        """Nothing to do; that there is one makes `np.frombuffer` hold what `__buffer__` gave, as long as it uses it."""


Handle: Any = native.Handle if native else _InPython
