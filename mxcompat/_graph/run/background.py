"""A thread that works off jobs in the background: compiling, for speed, what has proved to return.

Its jobs are improvements that nobody waits for, so a process that ends drops those not begun, but for the short ones
that are there for the processes to come. The one under way is given up before the next stage of its compile. A stage is
waited for, by Python itself, before anything is torn down: JAX has finalizers that run at exit and would take the
ground from under a trace. Who ends the process without that, and need not wait, says so first (`leave_at_exit`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import forked
from .events import span
from .priority import compiler_behind

__all__ = [
    "THREAD", "behind", "finish", "give_up_at_exit", "is_busy", "leave_at_exit", "settle", "submit", "wait",
]  # fmt: skip

THREAD = "mxcompat-background"
"""The name of the thread."""

_jobs: deque[Callable[[], None]] = deque()
_lasting: deque[Callable[[], None]] = deque()
_changed = threading.Condition()
_thread: threading.Thread | None = None
_is_left = _is_over = False


def submit(job: Callable[[], None], lasting: bool = False) -> None:
    """Have a job done some time. A `lasting` one, which is short, is done before others, and when the process ends. At
    exit, from Python 3.12 on, no thread can be started any more: what comes then is not done."""
    global _thread
    if forked.is_cut_off() or (_is_left and not threading.main_thread().is_alive()):
        return
    with _changed:
        (_lasting if lasting else _jobs).append(job)
        if _thread is None:  # it lives as long as there are jobs, and Python waits for it at exit if it is no daemon
            thread = threading.Thread(target=_work, name=THREAD, daemon=_is_left)
            try:
                thread.start()
                _thread = thread
            except RuntimeError:
                _jobs.clear()
                _lasting.clear()


def is_busy() -> bool:
    """Whether a job is under way or waits."""
    return _thread is not None


def settle(seconds: float | None = None) -> None:
    """Wait until no job is left. No longer than so many seconds, if they are given."""
    wait(lambda: _thread is None, seconds)


def wait(until: Callable[[], bool], seconds: float | None = None) -> None:
    """Wait until something is so that a job brings about, or no job is left: one may never have come here, where an
    interrupt came first. No longer than so many seconds, if they are given."""
    if forked.is_cut_off():
        return
    with span("wait"), _changed:
        _changed.wait_for(lambda: until() or _thread is None, seconds)


def leave_at_exit() -> None:
    """Have the end of the process not wait for the thread. Who asks for that calls `finish`, and ends the process
    without tearing the interpreter down, if jobs are left by then."""
    global _is_left
    _is_left = True


def finish(seconds: float) -> None:
    """Drop the jobs that have not begun, wait for the one under way, no longer than so many seconds, and do those that
    are there for the processes to come."""
    global _is_over
    with _changed:
        _is_over = True
        _jobs.clear()
    settle(seconds)
    while _lasting:
        with suppress(IndexError):  # the thread has come back and taken it
            _done(_lasting.popleft())


def give_up_at_exit() -> None:
    """Raises SystemExit in the background thread if the process is ending: what it works on is not worth the wait."""
    if threading.current_thread() is _thread and _is_ending():
        raise SystemExit


@contextmanager
def behind() -> Iterator[None]:
    """A context in which XLA compiles: in the background thread it comes behind what runs, and is given up at exit."""
    if threading.current_thread() is not _thread:
        yield
        return
    give_up_at_exit()
    with compiler_behind():
        yield


def _is_ending() -> bool:
    """Whether the process waits for nobody but this thread, if for that."""
    main = threading.main_thread()
    return _is_over or (not main.is_alive() and all(t.daemon or t in (main, _thread) for t in threading.enumerate()))


def _next() -> Callable[[], None] | None:
    """The next job; None, and the end of the thread, if there is none."""
    global _thread
    with _changed:
        if _is_ending():
            _jobs.clear()
        queue = _lasting or _jobs
        if not queue:
            _thread = None
        _changed.notify_all()
        return queue.popleft() if queue else None


def _work() -> None:
    while (job := _next()) is not None:
        _done(job)


def _done(job: Callable[[], None]) -> None:
    try:
        job()
    except SystemExit:
        _log().debug("what was being compiled is given up, as the process ends")
    except Exception:
        say = _log().debug if _is_over else _log().error
        say("a job in the background failed; what it was to improve stays as it is", exc_info=True)


def _log() -> Any:
    import logging  # here, since it takes long to import

    return logging.getLogger(__name__)


def _in_child() -> None:
    """The thread is the parent's, and so are its jobs."""
    global _changed, _thread
    _changed, _thread = threading.Condition(), None
    _jobs.clear()
    _lasting.clear()


forked.in_child.append(_in_child)
