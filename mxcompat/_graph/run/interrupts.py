"""Interrupts: what must not be cut in two.

Once an executable has written over its inputs, and until what it gave is stored, the old data are gone and the new ones
are nobody's. And JAX, interrupted while it traces, may go on tracing whatever comes next. An interrupt that comes in
between has to wait.
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
"""Those whose handlers may raise: Ctrl-C, and what limits of time are made of."""


_within = False
"""Whether the main thread is at such work."""


def uninterrupted(work: Callable[[], _T]) -> _T:
    """What the work gives; a signal that comes meanwhile interrupts what comes after it."""
    global _within
    if _within or threading.current_thread() is not threading.main_thread():
        return work()  # other threads are never interrupted
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
    """Call the handlers of the signals that came, each of them, whatever the others raise."""
    number, frame = came.popitem()
    try:
        if came:
            _answer(came, held)
    finally:
        held[number](number, frame)
