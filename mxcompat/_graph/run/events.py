"""Events: what the engine tells of itself, to counters and to whoever observes (`ext.debug`) or takes the time (the
profiler)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from typing import Any, Protocol

from mxcompat._jax import jax

__all__ = ["notify", "observers", "span", "stats", "timers"]


class Stats:
    """Counts of what the library did, for tests and for `ext.debug`.

    compiles: programs compiled for the first time, with the numbers then baked in. loaded: those that were found on the
    disk instead. optimised: programs compiled again for speed, in the background. executions: programs that XLA has
    run. last_run: when the last of them began, in seconds. last_result: a weak reference to what it computes.
    """

    def __init__(self) -> None:
        self.compiles = 0
        self.loaded = 0
        self.optimised = 0
        self.executions = 0
        self.last_run = -inf
        self.last_result: Callable[[], jax.Array | None] = lambda: None


stats = Stats()

observers: list[Callable[[str, Any, str], None]] = []
"""Called with what happened ("plan", "run", "compile", "load", "optimise", "partition"), to which Plan or Program, and
why."""


class Timer(Protocol):
    """Takes the time of kinds of work: "evaluate", and within it "host", "run" and "compile"; "wait" for values that
    are on their way. Work of one kind may be part of another's. Both are called in the thread that does the work."""

    def begin(self, kind: str, subject: Any) -> None: ...

    def end(self) -> None: ...


timers: list[Timer] = []
"""Told when work of a kind begins and ends."""


def span(kind: str, subject: Any = None) -> AbstractContextManager[None]:
    """A context for work of a kind; `subject` is the Program of a compile."""
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
