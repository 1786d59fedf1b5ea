"""Priority: give XLA's compiler threads a lower priority than the threads that run the program.

JAX's client starts all threads together, or some of them with the first compile, and does not name them. A thread is
taken for a compiler thread if it is busy during a compile in the background while nothing has run for some time. Only
Linux has priorities per thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf

from mxcompat._compat.xla import TASKS, compiler_threads, is_runner

from .. import policy
from .events import stats

__all__ = ["candidates", "compiler_behind", "threads"]

_GONE = (FileNotFoundError, ProcessLookupError)
"""Errors for a thread that has ended: before its file is opened, or before it is read."""

_candidates: set[int] = set()
"""The threads of JAX's client that may compile, and whose priority is not lowered yet."""

_has_started = False


def candidates(started: set[int]) -> None:
    """Add threads that a client for CPUs has started. A client for GPUs also has threads that poll for results."""
    global _has_started
    _has_started = True
    _candidates.update(t for t in started if not is_runner(_name(t)))


@contextmanager
def compiler_behind() -> Iterator[None]:
    """Make a context for a compile in the background. The threads that compile get a lower priority permanently,
    because a process may lack the permission to raise it again."""
    if not _has_started or not compiler_threads.holds:
        yield
        return
    done = threading.Event()
    threading.Thread(target=_watch, args=[done, threads()], name="mxcompat-priority", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(done: threading.Event, known: set[int]) -> None:
    """Watch the candidates until `done`, and lower the priority of those that compile. New threads that Python did not
    start become candidates, too."""
    before, since = _busy(), time.perf_counter()
    quiet_since = -inf
    while not done.wait(policy.WATCH_SECONDS):
        now_there = threads()
        candidates(now_there - known - {thread.native_id for thread in threading.enumerate()})  # type: ignore[arg-type]
        known |= now_there
        busy, now = _busy(), time.perf_counter()
        if _is_running():
            quiet_since = now
        if now - max(quiet_since, stats.last_run) > policy.QUIET_SECONDS:
            for thread in busy.keys() & before.keys():
                if busy[thread] - before[thread] > policy.BUSY_SHARE * (now - since):
                    _lower(thread)
                    _candidates.discard(thread)
        before, since = busy, now


def _is_running() -> bool:
    """Return True if the last result still exists and is not ready."""
    result = stats.last_result()
    try:
        return result is not None and not result.is_ready()
    except RuntimeError:  # the result was donated
        return False


def _busy() -> dict[int, float]:
    """Return the seconds for which each candidate has run or waited for a core."""
    seconds = {}
    for thread in [*_candidates]:
        try:
            running, waiting, _ = (TASKS / str(thread) / "schedstat").read_text().split()
        except _GONE:  # the thread has ended, or the kernel has no such file
            _candidates.discard(thread)
        else:
            seconds[thread] = 1e-9 * (int(running) + int(waiting))
    return seconds


def _lower(thread: int) -> None:
    with suppress(*_GONE):
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, niceness + policy.COMPILER_NICENESS)


def threads() -> set[int]:
    """Return the system's ids of the process's threads; none if the system has no priorities per thread."""
    return {int(name) for name in os.listdir(TASKS)} if compiler_threads.holds else set()


def _name(thread: int) -> str:
    try:
        return (TASKS / str(thread) / "comm").read_text()
    except _GONE:
        return ""
