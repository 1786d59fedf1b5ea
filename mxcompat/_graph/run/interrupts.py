"""Interrupts: what must not be cut in two.

Once an executable has written over its inputs, and until what it gave is stored, the old data are gone and the new ones
are nobody's. An interrupt that comes in between has to wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["uninterrupted"]


def uninterrupted(work: Callable[[], None]) -> None:
    """Do the work; whoever presses Ctrl-C meanwhile interrupts what comes after it."""
    handler: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        work()  # other threads are never interrupted
        return
    came: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        work()
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
