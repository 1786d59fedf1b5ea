"""The background thread, which runs jobs such as compiling hot structures for speed.

At exit, jobs that have not begun are dropped, except the short ones that store data for later processes. A running
compile is abandoned before its next stage. Python waits for the current stage before it tears the interpreter down,
because JAX's finalizers at exit would break a trace. Callers that skip this teardown call `leave_at_exit` first.
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
    "THREAD", "behind", "finish", "give_up_at_exit", "is_busy", "is_next", "leave_at_exit", "settle", "submit", "wait",
]  # fmt: skip

THREAD = "mxcompat-background"
"""Name of the thread."""

_jobs: deque[Callable[[], None]] = deque()
_lasting: deque[Callable[[], None]] = deque()
_changed = threading.Condition()
_thread: threading.Thread | None = None
_running: Callable[[], None] | None = None
_is_left = _is_over = False


def submit(job: Callable[[], None], lasting: bool = False) -> None:
    """Queue a job. A `lasting` job must be short: it runs before other jobs, and also when the process ends. From
    Python 3.12 on, no thread can be started at exit, so jobs submitted then are dropped."""
    global _thread
    if forked.is_cut_off() or (_is_left and not threading.main_thread().is_alive()):
        return
    with _changed:
        (_lasting if lasting else _jobs).append(job)
        if _thread is None:  # the thread ends when no job is left; at exit, Python waits for it unless it is a daemon
            thread = threading.Thread(target=_work, name=THREAD, daemon=_is_left)
            try:
                thread.start()
                _thread = thread
            except RuntimeError:
                _jobs.clear()
                _lasting.clear()


def is_busy() -> bool:
    """Return True if a job is running or queued."""
    return _thread is not None


def is_next(job: Callable[[], None]) -> bool:
    """Move a queued job to the front. Return True if it is running, or no other job is running before it."""
    with _changed:
        if job in _jobs:
            _jobs.remove(job)
            _jobs.appendleft(job)
        return _running is None or _running == job


def settle(seconds: float | None = None) -> None:
    """Wait until no job is left, or until the `seconds` are over."""
    wait(lambda: _thread is None, seconds)


def wait(until: Callable[[], bool], seconds: float | None = None) -> None:
    """Wait until `until()` is true, no job is left, or the `seconds` are over. The awaited job may be missing, if an
    interrupt came before it was submitted."""
    if forked.is_cut_off():
        return
    with span("wait"), _changed:
        _changed.wait_for(lambda: until() or _thread is None, seconds)


def leave_at_exit() -> None:
    """Let the process end without waiting for the thread. The caller must call `finish`, and must end the process
    without tearing the interpreter down if jobs are left then."""
    global _is_left
    _is_left = True


def finish(seconds: float) -> None:
    """Drop the jobs that have not begun, wait at most `seconds` for the running one, and run the lasting jobs."""
    global _is_over
    with _changed:
        _is_over = True
        _jobs.clear()
    settle(seconds)
    while _lasting:
        with suppress(IndexError):  # the thread may have taken the last job since the test
            _done(_lasting.popleft())


def give_up_at_exit() -> None:
    """Raise SystemExit in the background thread if the process is ending, to abandon the running job."""
    if threading.current_thread() is _thread and _is_ending():
        raise SystemExit


@contextmanager
def behind() -> Iterator[None]:
    """Make a context for a compile by XLA. In the background thread, the compile gets a lower priority than the
    program, and is abandoned at exit."""
    if threading.current_thread() is not _thread:
        yield
        return
    give_up_at_exit()
    with compiler_behind():
        yield


def _is_ending() -> bool:
    """Return True if the process is ending: the main thread has finished, and at most the background thread delays the
    exit."""
    main = threading.main_thread()
    return _is_over or (not main.is_alive() and all(t.daemon or t in (main, _thread) for t in threading.enumerate()))


def _next() -> Callable[[], None] | None:
    """Return the next job. If there is none, return None and mark the thread as ended."""
    global _thread, _running
    with _changed:
        if _is_ending():
            _jobs.clear()
        job = _lasting.popleft() if _lasting else None
        _running = _jobs.popleft() if _jobs and job is None else None
        job = job or _running
        if job is None:
            _thread = None
        _changed.notify_all()
        return job


def _work() -> None:
    while (job := _next()) is not None:
        _done(job)


def _done(job: Callable[[], None]) -> None:
    try:
        job()
    except SystemExit:
        _log().debug("a compile in the background is abandoned, because the process ends")
    except Exception:
        say = _log().debug if _is_over else _log().error
        say("a job in the background failed; the program continues without its result", exc_info=True)


def _log() -> Any:
    import logging  # imported here because the import is slow

    return logging.getLogger(__name__)


def _in_child() -> None:
    """Reset the state in a forked child: the thread and its jobs belong to the parent."""
    global _changed, _thread, _running
    _changed, _thread, _running = threading.Condition(), None, None
    _jobs.clear()
    _lasting.clear()


forked.in_child.append(_in_child)
