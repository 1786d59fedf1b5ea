"""Notice: a word in a terminal to whoever waits for a long compile; once, for who has seen it knows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import policy
from . import background

__all__ = ["if_long"]

_said = threading.Event()


@contextmanager
def if_long(count: int) -> Iterator[None]:
    """A context for compiling a program of so many operations, which says so if it takes long and somebody waits."""
    waits = threading.current_thread().name != background.THREAD
    if _said.is_set() or not waits or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(policy.NOTICE_SECONDS, _say, [count])
    timer.daemon = True
    with suppress(RuntimeError):  # none can be started at exit, from Python 3.12 on
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(count: int) -> None:
    if not _said.is_set():
        _said.set()
        sys.stderr.write(f"mxcompat: XLA is compiling a program of {count} operations; the next run will not wait.\n")
        sys.stderr.flush()
