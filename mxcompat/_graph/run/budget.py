"""Budget: LRU eviction of executables, bounded in bytes.

XLA does not report the memory of an executable on a CPU, but it is proportional to the executable's serialized size
(`policy`). The least recently used executables are evicted first, and the allocator returns their memory to the system.
If a Program's executable was evicted, it is compiled again, or loaded from the disk, at the next run. Then the limit
was too small: in a loop that needs more, each executable would evict the next one. So the limit rises by the
executable's size, unless the user has set it. JAX's caches of traces are bounded here, too.
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
from . import background, heap, jax_traces

__all__ = ["clear", "count", "enter", "forgotten", "held", "make_room"]


class _Held(Protocol):
    """The interface of an executable that the budget needs: its Program, its size, and its last use by
    `ir.structure.clock`."""

    program: Program
    nbytes: int
    last_used: int

    def forget(self) -> None:
        """Remove it from all caches."""

    def __hash__(self) -> int: ...


_held: WeakSet[Any] = WeakSet()
_lock = threading.Lock()

_missing: WeakKeyDictionary[Program, int] = WeakKeyDictionary()
"""Maps each Program whose executable was evicted to the size of that executable."""

forgotten: list[Callable[[set[Any]], None]] = []
"""Callbacks for eviction: called with the evicted executables."""


def held() -> int:
    """Return the estimated size in bytes of all executables."""
    with _lock:
        return sum([e.nbytes for e in _held])


def count() -> int:
    """Return the number of executables."""
    return len(_held)


def enter(executable: _Held) -> None:
    """Add an executable, mark it as just used, and make room for it."""
    clock.now += 1
    executable.last_used = clock.now
    with _lock:
        _held.add(executable)
        policy.raise_limit(_missing.pop(executable.program, 0))
    make_room()


def make_room() -> None:
    """Evict executables if they exceed the limit, down to a share of it, so that this does not happen at each compile.
    The most recently used one always stays. JAX's traces are dropped if they exceed their own limit."""
    jax_traces.make_room()
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
    """Evict all executables."""
    with _lock:
        gone = set(_held)
        _held.clear()
        _missing.clear()
    jax_traces.clear()
    if _give_up(gone):
        _trim()


def _give_up(gone: set[Any]) -> bool:
    """Remove these executables from all caches. Return True if enough memory was evicted for a call of `_trim`."""
    global _given_up
    for executable in gone:
        executable.forget()
        _given_up += executable.nbytes
    for tell in forgotten:
        tell(gone)
    if _given_up < policy.FREED_BYTES:
        return False
    _given_up = 0
    return True


_given_up = 0


def _trim() -> None:
    """Return the memory of evicted executables to the system.

    JAX's objects for an executable are in reference cycles, so they need the garbage collector first.
    """
    gc.collect()
    heap.give_back()
