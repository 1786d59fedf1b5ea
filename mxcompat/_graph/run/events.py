"""Events: the engine reports its work to counters, to observers (`ext.debug`) and to timers (the profiler)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from typing import Any, Protocol

from mxcompat._jax import jax

__all__ = ["notify", "observers", "span", "stats", "timers"]


class Stats:
    """Counts of compiles and runs, for tests and for `ext.debug`.

    compiles: number of executables compiled when they were first needed. loaded: number loaded from the disk instead.
    optimised: number compiled again for speed, in the background. executions: number of runs by XLA. last_run: start of
    the last of them, in seconds. last_result: a weak reference to its result. host_seconds: thread time of all graphs
    in NumPy, without that in C code which XLA's programs call, too.
    """

    def __init__(self) -> None:
        self.compiles = 0
        self.loaded = 0
        self.optimised = 0
        self.executions = 0
        self.host_seconds = 0.0
        self.last_run = -inf
        self.last_result: Callable[[], jax.Array | None] = lambda: None


stats = Stats()

observers: list[Callable[[str, Any, str], None]] = []
"""Callbacks: called with the event ("plan", "run", "compile", "load", "optimise", "partition"), its Plan or Program,
and the reason."""


class Timer(Protocol):
    """Measures the time of kinds of work: "evaluate", within it "host", "run" and "compile", and "wait" for values that
    are not ready. Kinds may be nested. Both methods are called in the thread that does the work."""

    def begin(self, kind: str, subject: Any) -> None: ...

    def end(self) -> None: ...


timers: list[Timer] = []
"""The timers that are called when work begins and ends."""


def span(kind: str, subject: Any = None) -> AbstractContextManager[None]:
    """Make a context for work of a kind; `subject` is the Program of a compile."""
    return _timed(kind, subject) if timers else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def _timed(kind: str, subject: Any) -> Iterator[None]:
    told = list(timers)
    for timer in told:
        timer.begin(kind, subject)
    try:
        yield
    finally:
        for timer in told:
            timer.end()


def notify(event: str, subject: Any, reason: str = "") -> None:
    for observer in observers:
        observer(event, subject, reason)
