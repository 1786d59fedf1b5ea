"""Priority: of XLA's threads, those that compile come behind those that run the program.

JAX's client starts them all together, or some of them with the first compile, and without names. Those that compile are
the ones that are busy while something is compiled in the background and nothing has run for a while. Only Linux gives
threads priorities of their own.
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
"""What is raised for a thread that has ended: before its file is opened, or between that and reading it."""

_candidates: set[int] = set()
"""The threads of JAX's client that have not been seen compiling."""

_has_started = False


def candidates(started: set[int]) -> None:
    """Take note of threads that a client for CPUs has started. (One for GPUs has some that look for results.)"""
    global _has_started
    _has_started = True
    _candidates.update(t for t in started if not is_runner(_name(t)))


@contextmanager
def compiler_behind() -> Iterator[None]:
    """A context in which something is compiled in the background: the threads that do it get a lower priority, for
    good, as who has lowered it need not be allowed to raise it."""
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
    """Look what the candidates do, and lower the priority of those that compile, until it is done. New threads that are
    not Python's are candidates, too."""
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
    """Whether the last run is still under way, as far as its result tells, which may be gone."""
    result = stats.last_result()
    try:
        return result is not None and not result.is_ready()
    except RuntimeError:  # it has been donated
        return False


def _busy() -> dict[int, float]:
    """For how many seconds each candidate has run, or waited for a core to run on."""
    found = {}
    for thread in [*_candidates]:
        try:
            running, waiting, _ = (TASKS / str(thread) / "schedstat").read_text().split()
        except _GONE:  # or the kernel does not tell
            _candidates.discard(thread)
        else:
            found[thread] = 1e-9 * (int(running) + int(waiting))
    return found


def _lower(thread: int) -> None:
    with suppress(*_GONE):
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, niceness + policy.COMPILER_NICENESS)


def threads() -> set[int]:
    """The process's threads, as the system knows them; none where it has no priorities for them."""
    return {int(name) for name in os.listdir(TASKS)} if compiler_threads.holds else set()


def _name(thread: int) -> str:
    try:
        return (TASKS / str(thread) / "comm").read_text()
    except _GONE:
        return ""
