"""Fault injection: a fault occurs at the n-th point that the engine reaches.

    with failing_at(7, interrupted) as points:
        step()

A point is an op in NumPy, forward or backward, a trace, a compile, a run of an executable, or the storing of a
value. `points.count` is the number of points reached.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

from mxcompat._graph.ir.rules import HOST, OVERWRITE, PULLBACK
from mxcompat._graph.run import compile, execute

__all__ = ["KINDS", "Alarmed", "Points", "alarming", "failing_at"]


class Alarmed(Exception):
    """The exception of the time limit's handler."""


@contextmanager
def alarming() -> Iterator[None]:
    """Return a context in which SIGALRM raises `Alarmed`."""

    def handle(*_: object) -> NoReturn:
        raise Alarmed

    before = signal.signal(signal.SIGALRM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def _broken() -> NoReturn:
    raise RuntimeError("broken here")


def _interrupted() -> None:
    signal.raise_signal(signal.SIGINT)


def _out_of_memory() -> NoReturn:
    raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 123456789 bytes.")


KINDS: dict[type[BaseException], Callable[[], None]] = {
    RuntimeError: _broken, KeyboardInterrupt: _interrupted, MemoryError: _out_of_memory,
}  # fmt: skip
"""The faults, and the function that causes each."""


class Points:
    """Counts the points that this thread reaches, and causes a fault at the n-th."""

    def __init__(self, n: int | None, happens: Callable[[], None]) -> None:
        self.count = 0
        self.name = ""
        self._n, self._happens = n, happens
        self._thread = threading.get_ident()

    def reach(self, name: str) -> None:
        """Count a point, and cause the fault if it is the n-th."""
        if threading.get_ident() != self._thread:
            return
        self.count += 1
        if self.count == self._n:
            self.name = name
            self._happens()

    def before(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a point before it."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.reach(name)
            return function(*args, **kwargs)

        return watched


@contextmanager
def failing_at(n: int | None, happens: Callable[[], None] = _broken) -> Iterator[Points]:
    """Cause a fault at the n-th point; with None, count the points only."""
    points = Points(n, happens)

    def run(executable: Any, arrays: Any, scalars: Any, counts: bool = True) -> Any:
        points.reach("run")
        out = called(executable, arrays, scalars, counts)
        if happens is _interrupted:
            points.reach("after the run")  # later failures happen within XLA
        return out

    called = compile.Executable.__call__
    with pytest.MonkeyPatch.context() as patch:
        for kind, rules in (("host", HOST), ("host", OVERWRITE), ("pullback", PULLBACK)):
            for op, rule in list(rules.items()):
                patch.setitem(rules, op, points.before(f"{kind} {op}", rule))
        patch.setattr(compile, "compile_with", points.before("compile", compile.compile_with))
        patch.setattr(compile.Executable, "_trace", points.before("trace", compile.Executable._trace))
        patch.setattr(compile.Executable, "__call__", run)
        patch.setattr(execute, "jax_value", points.before("move", execute.jax_value))
        patch.setattr(execute, "_store", points.before("store", execute._store))
        yield points
