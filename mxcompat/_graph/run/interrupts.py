"""Interrupts: what must not be cut in two.

Once an executable has written over its inputs, and until what it gave is stored, the old data are gone and the new ones
are nobody's. And JAX, interrupted while it traces, may go on tracing whatever comes next. An interrupt that comes in
between has to wait.
"""

from __future__ import annotations

import signal
import threading
from _signal import getsignal  # those of `signal` make enums of what they take and give, in 40 us instead of 2
from _signal import signal as handle
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["ANY", "uninterrupted"]

_T = TypeVar("_T")

_CTRL_C = (signal.SIGINT,)
ANY = tuple([s for s in signal.Signals if s.name in ("SIGINT", "SIGALRM", "SIGTERM", "SIGUSR1", "SIGUSR2")])
"""Those whose handlers may raise: Ctrl-C, and what limits of time are made of."""


def uninterrupted(work: Callable[[], _T], signals: tuple[signal.Signals, ...] = _CTRL_C) -> _T:
    """What the work gives; a signal that comes meanwhile interrupts what comes after it."""
    if threading.current_thread() is not threading.main_thread():
        return work()  # other threads are never interrupted
    held: dict[int, Any] = {}
    came: list[tuple[Any, ...]] = []
    try:
        for number in signals:
            handler = getsignal(number)
            if callable(handler):
                held[number] = handler
                handle(number, lambda *what: came.append(what))
        return work()
    finally:
        for number, handler in held.items():
            handle(number, handler)
        if came:
            held[came[0][0]](*came[0])
