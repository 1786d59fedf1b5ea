"""Forked processes: a child has none of the threads that XLA, or the compiler in the background, had in its parent.

To ask one of them for something would be to wait for ever. So a child of a process in which XLA runs computes in NumPy,
and where only XLA would do it raises. A child of one in which XLA does not run yet starts afresh.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["in_child", "is_cut_off", "require_threads"]

in_child: list[Callable[[], None]] = []
"""Called in a child once it has been forked: to let go of what a thread held that is no more."""

_used = _cut_off = False


def require_threads() -> None:
    """Called before XLA is. Raises RuntimeError in a process that has lost XLA's threads."""
    global _used
    if _cut_off:
        raise RuntimeError(
            "[fork] This process was forked from one in which XLA runs, whose threads it has not got. Start processes "
            "by the methods 'spawn' or 'forkserver' of multiprocessing, or fork before anything is computed."
        )
    _used = True


def is_cut_off() -> bool:
    """Whether this process has lost XLA's threads."""
    return _cut_off


def _after_fork() -> None:
    global _cut_off
    _cut_off = _used
    for let_go in in_child:
        let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
