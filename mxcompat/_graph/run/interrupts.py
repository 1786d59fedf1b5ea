"""Interrupts: delay signals during work that must not be interrupted.

Between an executable's in-place update of its inputs and the storing of its results, an exception would lose both. An
exception while JAX traces may leave JAX in its tracing state, so that it also traces later computations.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from mxcompat._compat.python import getsignal, setsignal

__all__ = ["uninterrupted"]

_T = TypeVar("_T")

_SIGNALS = tuple([s for s in signal.Signals if s.name in ("SIGINT", "SIGALRM", "SIGTERM", "SIGUSR1", "SIGUSR2")])
"""Signals whose handlers may raise: Ctrl-C, and those used for time limits."""


_within = False
"""True while the main thread runs work that signals must not interrupt."""


def uninterrupted(work: Callable[[], _T]) -> _T:
    """Return `work()`. Signal handlers are delayed until the work is done."""
    global _within
    if _within or threading.current_thread() is not threading.main_thread():
        return work()  # Python runs signal handlers only in the main thread
    held: dict[int, Any] = {}
    came: list[tuple[int, Any]] = []
    try:
        _within = True
        for number in _SIGNALS:
            handler = getsignal(number)
            if callable(handler):
                held[number] = handler
                setsignal(number, lambda *what: came.append(what))
        return work()
    finally:
        _within = False
        for number, handler in held.items():
            setsignal(number, handler)
        if came:
            _answer(dict(came), held)


def _answer(came: dict[int, Any], held: dict[int, Any]) -> None:
    """Call the handlers of all signals that came, even if some of them raise."""
    number, frame = came.popitem()
    try:
        if came:
            _answer(came, held)
    finally:
        held[number](number, frame)
