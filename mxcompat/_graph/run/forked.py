"""Forked processes: a child process has none of its parent's threads, neither XLA's nor the background thread.

A call of XLA would wait for these threads forever. So a process that was forked after XLA had started computes in
NumPy, and raises an error where only XLA would do. A process that was forked before can start XLA itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["in_child", "is_cut_off", "require_threads"]

in_child: list[Callable[[], None]] = []
"""Callbacks for a forked child: they reset state that belonged to threads of the parent."""

_used = _cut_off = False


def require_threads() -> None:
    """Raise RuntimeError in a process without XLA's threads. Must be called before XLA is called."""
    global _used
    if _cut_off:
        raise RuntimeError(
            "[fork] This process was forked from one in which XLA runs, and does not have XLA's threads. Start "
            "processes by the methods 'spawn' or 'forkserver' of multiprocessing, or fork before anything is computed."
        )
    _used = True


def is_cut_off() -> bool:
    """Return True if this process was forked from one in which XLA had started."""
    return _cut_off


def _after_fork() -> None:
    global _cut_off
    _cut_off = _used
    for let_go in in_child:
        let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
