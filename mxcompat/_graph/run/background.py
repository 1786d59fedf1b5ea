"""A thread that works off jobs in the background: compiling, for speed, what has proved to return.

Its jobs are improvements that nobody waits for, so a process that ends drops those not begun, but for the short ones
that are there for the processes to come. The one under way is waited for, by Python itself, before anything is torn
down: JAX has finalizers that run at exit and would take the ground from under a trace.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from . import forked
from .events import span

__all__ = ["THREAD", "settle", "submit", "wait"]

THREAD = "mxcompat-background"
"""The name of the thread."""

_jobs: deque[Callable[[], None]] = deque()
_lasting: deque[Callable[[], None]] = deque()
_changed = threading.Condition()
_thread: threading.Thread | None = None


def submit(job: Callable[[], None], lasting: bool = False) -> None:
    """Have a job done some time. A `lasting` one, which is short, is done before others, and when the process ends."""
    global _thread
    if forked.is_cut_off():
        return
    with _changed:
        (_lasting if lasting else _jobs).append(job)
        if _thread is None:  # it lives as long as there are jobs, and is no daemon: Python waits for it at exit
            thread = threading.Thread(target=_work, name=THREAD, daemon=False)
            thread.start()
            _thread = thread


def settle() -> None:
    """Wait until no job is left."""
    wait(lambda: _thread is None)


def wait(until: Callable[[], bool]) -> None:
    """Wait until something is so that a job brings about, or no job is left: one may never have come here, where an
    interrupt came first."""
    if forked.is_cut_off():
        return
    with span("wait"), _changed:
        _changed.wait_for(lambda: until() or _thread is None)


def _next() -> Callable[[], None] | None:
    """The next job; None, and the end of the thread, if there is none."""
    global _thread
    with _changed:
        if not threading.main_thread().is_alive():
            _jobs.clear()  # the process is ending
        queue = _lasting or _jobs
        if not queue:
            _thread = None
        _changed.notify_all()
        return queue.popleft() if queue else None


def _work() -> None:
    while (job := _next()) is not None:
        try:
            job()
        except Exception:
            logging.getLogger(__name__).exception(
                "a job in the background failed; what it was to improve stays as it is"
            )


def _in_child() -> None:
    """The thread is the parent's, and so are its jobs."""
    global _changed, _thread
    _changed, _thread = threading.Condition(), None
    _jobs.clear()
    _lasting.clear()


forked.in_child.append(_in_child)
