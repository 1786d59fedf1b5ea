"""A thread that works off jobs in the background: compiling again, for speed, what has proved to return.

Its jobs are improvements that nobody waits for, so a process that ends drops those not begun, but for the short ones
that are there for the processes to come.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["settle", "submit", "wait"]

_jobs: deque[Callable[[], None]] = deque()
_lasting: deque[Callable[[], None]] = deque()
_changed = threading.Condition()
_thread: threading.Thread | None = None
_working = False
_stopping = False


def submit(job: Callable[[], None], lasting: bool = False) -> None:
    """Have a job done some time. A `lasting` one, which is short, is done before others, and when the process ends."""
    global _thread
    with _changed:
        (_lasting if lasting else _jobs).append(job)
        if _thread is None:
            # A daemon, so that the interpreter does not wait for all the jobs; `_stop` waits for the one under way.
            _thread = threading.Thread(target=_work, name="mxcompat-background", daemon=True)
            _thread.start()
            atexit.register(_stop)
        _changed.notify_all()


def settle() -> None:
    """Wait until no job is left."""
    wait(lambda: not _jobs and not _lasting and not _working)


def wait(until: Callable[[], bool]) -> None:
    """Wait until something is so that a job brings about."""
    with _changed:
        _changed.wait_for(until)


def _work() -> None:
    global _working
    while True:
        with _changed:
            _working = False
            _changed.notify_all()
            _changed.wait_for(lambda: _jobs or _lasting or _stopping)
            if _stopping and not _lasting:
                return
            job = (_lasting or _jobs).popleft()
            _working = True
        try:
            job()
        except Exception:
            logging.getLogger(__name__).exception(
                "a job in the background failed; what it was to improve stays as it is"
            )


def _stop() -> None:
    global _stopping
    with _changed:
        _stopping = True
        _changed.notify_all()
    assert _thread is not None
    _thread.join()
