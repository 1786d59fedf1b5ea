"""Notice: a message in the terminal if the user waits for a long compile. It is shown once per process."""

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
    """Make a context for the compile of a program of `count` operations. It shows the notice if the compile takes long,
    unless the compile is in the background thread."""
    waits = threading.current_thread().name != background.THREAD
    if _said.is_set() or not waits or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(policy.NOTICE_SECONDS, _say, [count])
    timer.daemon = True
    with suppress(RuntimeError):  # from Python 3.12 on, no thread can be started at exit
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
