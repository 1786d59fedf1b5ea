"""Budget: how many bytes the executables may hold, and which of them are given up.

XLA does not say how much memory an executable takes on a CPU, but what it serializes to is in proportion (`policy`).
Those used least recently go first; what the allocator keeps of them is given back to the system. A Program whose
executable is gone is compiled again, or loaded from the disk, when it is next met. That says that the limit is too
small: a loop whose steps need more than that would find none of its executables, as each makes room for the next. So
the limit is raised by as much, unless somebody has set it. What JAX keeps of what it traced is bounded beside them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from .. import policy
from ..ir.program import Program
from ..ir.structure import clock
from . import background, heap, traces

__all__ = ["clear", "count", "enter", "forgotten", "held", "make_room"]


class _Held(Protocol):
    """What the budget needs of an executable: what it was made of, its size, and when it was last used by
    `ir.structure.clock`."""

    program: Program
    nbytes: int
    last_used: int

    def forget(self) -> None:
        """Let nothing find it any more."""

    def __hash__(self) -> int: ...


_held: WeakSet[Any] = WeakSet()
_lock = threading.Lock()

_missing: WeakKeyDictionary[Program, int] = WeakKeyDictionary()
"""How many bytes the executable of a Program held that was given up to make room."""

forgotten: list[Callable[[set[Any]], None]] = []
"""Called with the executables that are given up."""


def held() -> int:
    """The bytes that executables hold, by their estimates."""
    with _lock:
        return sum([e.nbytes for e in _held])


def count() -> int:
    """How many executables there are."""
    return len(_held)


def enter(executable: _Held) -> None:
    """Count an executable, which is being used, and make room for it."""
    clock.now += 1
    executable.last_used = clock.now
    with _lock:
        _held.add(executable)
        policy.raise_limit(_missing.pop(executable.program, 0))
    make_room()


def make_room() -> None:
    """Give up executables if they hold more than they may: enough of them that it is not done at each compile. The one
    used last stays, however large. And JAX's traces, if they do."""
    traces.make_room()
    limit = policy.executable_bytes()
    with _lock:
        in_use = sum([e.nbytes for e in _held])
        if in_use <= limit:
            return
        gone = set()
        for executable in sorted(_held, key=lambda e: e.last_used)[:-1]:
            if in_use <= policy.HELD_SHARE * limit:
                break
            in_use -= executable.nbytes
            gone.add(executable)
            _missing[executable.program] = executable.nbytes
        _held.difference_update(gone)
    if _give_up(gone):
        background.submit(_trim)


def clear() -> None:
    """Give up all executables."""
    with _lock:
        gone = set(_held)
        _held.clear()
        _missing.clear()
    traces.clear()
    if _give_up(gone):
        _trim()


def _give_up(gone: set[Any]) -> bool:
    """Let nothing find these any more. Returns whether so much has been given up that it is time to `_trim`."""
    global _given_up
    for executable in gone:
        executable.forget()
        _given_up += executable.nbytes
    for tell in forgotten:
        tell(gone)
    if _given_up < policy.TRIMMED_BYTES:
        return False
    _given_up = 0
    return True


_given_up = 0


def _trim() -> None:
    """Give back to the system what nobody needs any more: most of what executables held.

    What JAX makes of one refers to itself, so that only a collection frees it.
    """
    gc.collect()
    heap.give_back()
