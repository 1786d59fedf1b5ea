"""The record of a profile: the cost of each line that asked for values, and its compilations.

The engine tells a `Recorder` when work begins and ends (`_graph.run.events`). Time is charged to the innermost kind of
work, and to the user's line that asked for it. The time since the previous evaluation, in which Python built the graph,
is the line's "python" time.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from mxcompat._compat.python import caller_of
from mxcompat._graph.ir.node import PACKAGE
from mxcompat._graph.run import background, events
from mxcompat._jax import jax

from .timeline import Timeline

try:
    import resource
except ImportError:  # Windows does not have this module
    resource = None

__all__ = ["KINDS", "Compile", "Line", "Profile", "recorded"]

KINDS = {
    "python": "Python, which builds the graph: the time since the last evaluation",
    "plan": "planning the evaluation",
    "host": "computing new or small graphs in NumPy",
    "compile": "XLA's compiler, while the program waits for it",
    "run": "running XLA's programs, until Python continues",
    "wait": "waiting for values, or for a compile in the background",
}

_AFTER = "after the last evaluation"
_ELSEWHERE = "in the background"
_UNKNOWN = "an unknown place"


@dataclass
class Line:
    """The cost of a line of the program: the number of evaluations, the most operations of one, and the seconds of each
    kind."""

    count: int = 0
    ops: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@dataclass
class Compile:
    """A compilation, or an executable loaded from disk: the line, the number of operations, the reason and the
    seconds."""

    place: str
    ops: int
    reason: str
    seconds: float = 0.0
    background: bool = False
    loaded: bool = False


@dataclass
class Profile:
    """A complete profile: lines by place, compilations in order, the timeline, and totals."""

    lines: dict[str, Line] = field(default_factory=lambda: defaultdict(Line))
    compiles: list[Compile] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)
    wall: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)

    def total(self, kind: str) -> float:
        return sum(line.seconds[kind] for line in self.lines.values())

    @property
    def background(self) -> float:
        return sum(c.seconds for c in self.compiles if c.background)


@contextmanager
def recorded() -> Iterator[Profile]:
    """Record within this context, in all threads. Its end waits for a running background compilation, and completes the
    profile."""
    recorder = _Recorder()
    profile = recorder.profile
    profile.memory["before"] = _peak_memory()
    events.timers.append(recorder)
    events.observers.append(recorder.observe)
    try:
        yield profile
    finally:
        recorder.finish()
        profile.memory["peak"] = _peak_memory()
        device = jax.devices()[0].memory_stats() or {}
        if "peak_bytes_in_use" in device:
            profile.memory["device"] = device["peak_bytes_in_use"]
        events.timers.remove(recorder)
        events.observers.remove(recorder.observe)
        background.wait(lambda: not recorder.compiling)
        for compile in profile.compiles:
            if not compile.seconds and not compile.loaded:
                compile.reason += ", not begun when the program ended"


def _peak_memory() -> int:
    """Return this process's peak memory in bytes, or 0 if unknown. On Linux, `getrusage` starts from the parent's peak,
    so /proc is read instead."""
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.M)):
        return int(match[1]) << 10
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


class _Work:
    """Work in progress: its kind, the time up to which it has been charged, and the tier that it ran."""

    __slots__ = ("annotation", "kind", "ran", "since", "start", "subject")

    def __init__(self, kind: str, subject: Any, since: float, place: str) -> None:
        self.kind = "plan" if kind == "evaluate" else kind
        self.subject = subject
        self.start = self.since = since
        self.ran = ""
        self.annotation = jax.profiler.TraceAnnotation(f"{kind} {place}")


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Work] = []
        self.place = _ELSEWHERE


class _Recorder:
    def __init__(self) -> None:
        self.profile = Profile()
        self._thread = _Thread()
        self._main = threading.get_ident()
        self._start = self._idle_since = perf_counter()
        self._lock = threading.Lock()
        self._asked: dict[int, Compile] = {}
        self.compiling = False
        """True while the background thread is in a recorded compilation."""

    def begin(self, kind: str, subject: Any) -> None:
        thread = self._thread
        if not thread.stack and threading.current_thread().name != background.THREAD:
            thread.place = _place()
        now = perf_counter()  # read the clock once, so that no time is lost between two charges
        if thread.stack:
            self._charge(thread.stack[-1], now)
        elif threading.get_ident() == self._main:
            self._add(thread.place, "python", self._idle_since, now)
        if kind == "evaluate":
            self.profile.lines[thread.place].count += 1
        elif thread.stack:
            thread.stack[-1].ran = kind
        if thread.place is _ELSEWHERE:
            self.compiling = True
        work = _Work(kind, subject, now, thread.place)
        work.annotation.__enter__()
        thread.stack.append(work)

    def end(self) -> None:
        now = perf_counter()
        thread = self._thread
        work = thread.stack.pop()
        work.annotation.__exit__(None, None, None)
        if work.kind == "plan" and work.ran in ("", "xla"):  # a single op ran without a plan
            work.kind = "run" if work.ran else "host"
        self._charge(work, now)
        if work.kind == "compile":
            self._compiled(work, now)
        if thread.stack:
            thread.stack[-1].since = now
        elif threading.get_ident() == self._main:
            self._idle_since = now

    def observe(self, event: str, subject: Any, reason: str) -> None:
        """Record an event about a plan or a compilation."""
        thread = self._thread
        if event == "plan" and thread.stack:
            line = self.profile.lines[thread.place]
            program = getattr(subject, "program", None)
            line.ops = max(line.ops, len(program.instructions) if program is not None else 0)
            thread.stack[-1].ran = "plan"
        elif event == "run" and thread.stack and not thread.stack[-1].ran:
            thread.stack[-1].ran = "xla"
        elif event in ("compile", "load"):
            compile = Compile(thread.place, len(subject.instructions), reason, loaded=event == "load")
            with self._lock:
                self.profile.compiles.append(compile)
                self._asked[id(subject)] = compile

    def finish(self) -> None:
        """End the recording with the program."""
        now = perf_counter()
        self._add(_AFTER, "python", self._idle_since, now)
        self.profile.wall = now - self._start

    def _charge(self, work: _Work, now: float) -> None:
        self._add(self._thread.place, work.kind, work.since, now)

    def _add(self, place: str, kind: str, start: float, end: float) -> None:
        if place is _ELSEWHERE:
            return  # the table lists background work with the compilations
        self.profile.lines[place].seconds[kind] += end - start
        if threading.get_ident() == self._main:
            self.profile.timeline.add(kind, start - self._start, end - self._start)

    def _compiled(self, work: _Work, now: float) -> None:
        program = work.subject
        with self._lock:
            compile = self._asked.pop(id(program), None)
            if compile is None:
                compile = Compile(self._thread.place, len(program.instructions), "again, for speed")
                self.profile.compiles.append(compile)
        compile.seconds = now - work.start
        if self._thread.place is _ELSEWHERE:
            compile.background = True
            self.compiling = False


def _place() -> str:
    """Return the user's line that is being executed."""
    frame = caller_of(2)
    if frame is None:
        return _UNKNOWN
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, _CONTEXTLIB)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else _ELSEWHERE


_CONTEXTLIB = contextmanager.__code__.co_filename
