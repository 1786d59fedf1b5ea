"""The base of arrays, by which they offer their memory: to `memoryview`, to NumPy, to whatever takes a buffer.

It is written in C, since NumPy asks for the buffer before it asks for anything else, and since Python has no other way
before 3.12. Where that could not be built, Python's own way serves: slower, and not before 3.12.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Exporter"]


class _InPython:
    __slots__ = ()

    def _memory(self, flags: int) -> tuple[memoryview, str | None]:
        raise NotImplementedError

    def __buffer__(self, flags: int, /) -> memoryview:
        view, kind = self._memory(flags)
        if kind is not None:
            raise ValueError(f"{kind!r} is not a valid PEP 3118 buffer format string")
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
