"""The base of arrays, by which they offer their memory: to `memoryview`, to NumPy, to whatever takes a buffer.

It is written in C, since NumPy asks for the buffer before it asks for anything else, and since Python has no other way
before 3.12. Where that could not be built, Python's own way serves: slower, and not before 3.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import no_format

__all__ = ["Exporter"]


class _InPython:
    __slots__ = ()

    _memory: Callable[[int], tuple[memoryview, str | None]]

    def __buffer__(self, flags: int, /) -> memoryview:
        view, kind = self._memory(flags)
        if kind is not None:
            raise no_format(kind)
        return view

    def __release_buffer__(self, view: memoryview, /) -> None:
        """Nothing to do; that there is one makes `np.frombuffer` hold what `__buffer__` gave, as long as it uses it."""


def _base() -> type:
    try:
        from ._buffer import Exporter  # type: ignore[import-not-found]
    except ImportError:
        return _InPython
    return Exporter


Exporter: Any = _base()
