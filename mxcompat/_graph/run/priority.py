"""Priority: of XLA's threads, those that compile come behind those that run the program.

JAX's client starts them all together, and without names. Those that compile are the ones that are busy while something
is compiled in the background and nothing runs. Only Linux gives threads priorities of their own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import ref

from .. import policy
from .events import stats

__all__ = ["compiler_behind", "running", "threads_of_client"]

_TASKS = Path("/proc/self/task")
_HAS_PRIORITIES = sys.platform == "linux" and _TASKS.is_dir()

_candidates: set[int] = set()
"""The threads of JAX's client that have not been seen compiling."""

_latest: tuple[int, Any] = (0, None)
"""How many executions there had been when the last one was called, and a weak reference to a result of it."""


def running(values: list[Any]) -> None:
    """Note what is being run, by a result of it."""
    global _latest
    last = values[-1] if values else None
    _latest = stats.executions, ref(last) if last is not None and type(last) is not tuple else None


@contextmanager
def threads_of_client() -> Iterator[None]:
    """A context in which JAX's client is started."""
    before = _threads()
    try:
        yield
    finally:
        _candidates.update(t for t in _threads() - before if not _name(t).startswith("tf_"))  # those have names


@contextmanager
def compiler_behind() -> Iterator[None]:
    """A context in which something is compiled in the background: the threads that do it get a lower priority, for
    good, as who has lowered it need not be allowed to raise it."""
    if not _HAS_PRIORITIES:
        yield
        return
    done = threading.Event()
    threading.Thread(target=_watch, args=[done], name="mxcompat-priority", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(done: threading.Event) -> None:
    """Look what the candidates do, and lower the priority of those that compile, until it is done."""
    runs, idle, before, since = stats.executions, _is_idle(), _busy(), time.perf_counter_ns()
    while not done.wait(policy.WATCH_SECONDS):
        busy, now = _busy(), time.perf_counter_ns()
        if idle and stats.executions == runs:
            for thread in busy.keys() & before.keys():
                if busy[thread] - before[thread] > policy.BUSY_SHARE * (now - since):
                    os.setpriority(os.PRIO_PROCESS, thread, _niceness(thread) + policy.COMPILER_NICENESS)
                    _candidates.discard(thread)
        runs, idle, before, since = stats.executions, _is_idle(), busy, now


def _is_idle() -> bool:
    """Whether nothing runs, as far as is known: one run may take longer than it is between two looks."""
    count, result = _latest
    value = result() if result is not None else None
    try:
        return count == stats.executions and (value is None or value.is_ready())
    except RuntimeError:  # it has been written over by a later run
        return True


def _busy() -> dict[int, int]:
    """For how many nanoseconds each candidate has run, or waited for a core to run on."""
    found = {}
    for thread in [*_candidates]:
        try:
            running, waiting, _ = (_TASKS / str(thread) / "schedstat").read_text().split()
        except FileNotFoundError:  # it has ended, or the kernel does not tell
            _candidates.discard(thread)
        else:
            found[thread] = int(running) + int(waiting)
    return found


def _niceness(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)


def _threads() -> set[int]:
    return {int(name) for name in os.listdir(_TASKS)} if _HAS_PRIORITIES else set()


def _name(thread: int) -> str:
    try:
        return (_TASKS / str(thread) / "comm").read_text()
    except FileNotFoundError:  # it has ended
        return ""
