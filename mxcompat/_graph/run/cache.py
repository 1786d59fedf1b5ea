"""Cache: the executables of each Program, and its measured run times.

Each Program has one record. Python numbers are compiled as constants at first. A scalar that has another value in a
later run becomes an argument, so a changing number does not cause a compile for each value. Scalars that were the same
number object in every run (a learning rate) share one argument.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mxcompat._jax import import_jax

from .. import policy
from ..ir.capture import PLACEHOLDER, PROMISE
from ..ir.program import Program
from . import allocation, background, budget
from .compile import Executable, on_disk
from .compile_time import compile_seconds
from .events import notify, observers
from .interrupts import uninterrupted

__all__ = ["Record", "compile_now", "compile_soon", "find", "only", "record_of", "wait_if_hot"]


class Record:
    """The executables and statistics of one Program; an attribute of the Program.

    Attributes:
        compiled: the executables, keyed by the donated inputs.
        pending: the jobs that compile in the background, by their keys.
        failed: the keys whose compile failed.
        runs_while_compiling: the number of runs while a compile was pending.
        seen: the values of the scalars in the first run.
        varying: the scalars that had another value in a later run.
        alias_of: maps each scalar to the first scalar that was the same number in every run so far.
        lock: held by the thread that compiles the Program.
        host_runs, host_best: the number of runs in NumPy, and the shortest one, in seconds.
        kernel_seconds: the CPU time of these runs in C code which XLA's programs call, too, in this thread.
        host_seconds: their other CPU time in this thread.
        xla_runs, xla_best: the number of timed runs of the executable, and the shortest, in seconds.
        prefer_xla: True once the executable is chosen over NumPy.
        only: the executable for reproducible runs.
    """

    __slots__ = (
        "alias_of", "compiled", "failed", "host_best", "host_runs", "host_seconds", "kernel_seconds", "lock", "only",
        "pending", "prefer_xla", "runs_while_compiling", "seen", "varying", "xla_best", "xla_runs",
    )  # fmt: skip

    def __init__(self, program: Program, scalars: tuple) -> None:
        self.compiled: dict[tuple[int, ...], Executable] = {}
        self.only: Executable | None = None
        self.pending: dict[tuple[int, ...], Callable[[], None]] = {}
        self.failed: set[tuple[int, ...]] = set()
        self.runs_while_compiling = 0
        self.seen = scalars
        self.alias_of = _aliases([program.in_avals[slot].dtype for slot in program.scalars], scalars)
        self.varying: set[int] = set()
        self.lock = threading.Lock()
        self.host_runs = self.xla_runs = 0
        self.prefer_xla = False
        self.host_seconds = self.kernel_seconds = 0.0
        self.host_best = self.xla_best = float("inf")

    @property
    def age(self) -> str:
        return f"seen {self.host_runs} times before" if self.host_runs else "seen for the first time"

    def is_heavy(self, compiling: float) -> bool:
        """Return True if the Program is compiled early, because of the time of a run in NumPy that XLA may save: it is
        long compared with the compile, and a large share of the run."""
        saved = self.host_seconds / max(self.host_runs, 1)
        is_long = saved > policy.HEAVY_SECONDS and compiling < policy.HEAVY_RUNS * saved
        return is_long and self.host_seconds > policy.SAVED_SHARE * (self.host_seconds + self.kernel_seconds)

    def vary(self, scalars: tuple) -> None:
        if scalars is self.seen:
            return
        if scalars != self.seen:
            self.varying.update(k for k, (a, b) in enumerate(zip(self.seen, scalars, strict=True)) if a != b)
        self.alias_of = _aliases(self.alias_of, scalars)

    def lifted(self) -> dict[int, int]:
        """Map each scalar that will be an argument to the first scalar with which it shares the argument."""
        alias_of = self.alias_of
        return {k: alias_of[k] for k in sorted(self.varying)}


def _aliases(alike: Sequence[Any], scalars: tuple) -> Sequence[int]:
    """Map each scalar to the first scalar that is the same float object, within the groups of `alike`. Integers are
    left out, because CPython shares small ones."""
    if len(scalars) < 2:
        return range(len(scalars))
    first: dict[Any, int] = {}
    return [
        first.setdefault((kind, id(v)), k) if type(v) is float else k
        for k, (kind, v) in enumerate(zip(alike, scalars, strict=True))
    ]


def record_of(program: Program, scalars: tuple) -> Record:
    """Return the record of a Program, after it has noted which scalars differ from those of its first run."""
    record = program.record
    if record is None:
        record = program.record = Record(program, scalars)
    else:
        record.vary(scalars)
    return record


def find(program: Program, scalars: tuple, donated: tuple[int, ...]) -> Executable | None:
    """Return the executable of a Program that fits these scalar values, if there is one."""
    record = program.record
    if record is None:
        return None
    executable = record.compiled.get(donated)
    return executable if executable is not None and executable.fits(scalars) else None


def only(program: Program) -> Executable | None:
    """Return the Program's executable for reproducible runs, if it is compiled."""
    record = program.record
    return record.only if record is not None else None


def compile_now(
    program: Program, scalars: tuple, donated: tuple[int, ...], reproducible: bool = False, hurry: bool = True
) -> Executable:
    """Compile a Program, with varying numbers as arguments. If several threads ask for the same executable, one
    of them compiles it.

    Args:
        reproducible: compile the Program's `only` executable: for speed at once, and with every number as an argument,
            because XLA folds constants.
        hurry: compile quickly, and for speed later.
    """
    record = record_of(program, scalars)
    with record.lock:
        executable = record.only if reproducible else find(program, scalars, donated)
        if executable is None:
            lifted = {k: k for k in range(len(scalars))} if reproducible else record.lifted()
            _explain(record, program, scalars, donated, lifted, reproducible)

            def compile() -> Executable:
                new = Executable(program, scalars, lifted, donated, hurry=hurry, reproducible=reproducible)
                if reproducible:
                    record.only = new
                else:
                    record.compiled[donated] = new
                budget.enter(new)
                return new

            executable = uninterrupted(compile)
    return executable


_WITHOUT_VALUE = (PLACEHOLDER, PROMISE)


def compile_soon(program: Program, scalars: tuple, donated: tuple[int, ...]) -> None:
    """Compile a Program for speed, in the background. `find` returns the executable once it is ready. A failed compile
    is not tried again, unless memory had run out.

    If JAX is not imported yet, this thread imports it first: in the background, the two Python threads slow each other
    down (import: 0.33 s here, 0.6 s in the background, with the program at half its speed)."""
    record = record_of(program, scalars)
    if donated in record.failed:
        return
    if donated in record.pending:
        record.runs_while_compiling += 1
        return
    if any(op in _WITHOUT_VALUE for op, _, _ in program.instructions):
        return  # each run of this Program raises an error
    import_jax()
    _explain(record, program, scalars, donated, record.lifted())

    def job() -> None:
        try:
            executable = Executable(program, scalars, record.lifted(), donated, hurry=False)
            record.compiled[donated] = executable
            budget.enter(executable)
        except Exception as error:
            if allocation.out_of_memory(error) is None:
                record.failed.add(donated)
            raise
        finally:
            record.pending.pop(donated, None)

    try:
        record.pending[donated] = job
        background.submit(job)
    except BaseException:
        record.pending.pop(donated, None)  # otherwise a thread would wait for this job
        raise


def wait_if_hot(program: Program, donated: tuple[int, ...]) -> None:
    """Wait for a compile in the background if the Program has run often enough since it began. A Program with slow runs
    in NumPy waits only after the run that began the compile, and at most for the time of such a run. None waits while
    another compile must end first."""
    record = program.record
    job = record.pending.get(donated) if record is not None else None
    if record is None or job is None:
        return
    if record.host_runs:
        longest = record.host_best
        compiling = compile_seconds(program)
        waits = not record.runs_while_compiling and longest > policy.WORTH_WAITING * compiling
    else:
        longest = None
        waits = record.runs_while_compiling and record.runs_while_compiling % policy.LIKELY_MIN_RUNS == 0
    if waits and background.is_next(job):
        background.wait(lambda: donated not in record.pending, longest)


def _explain(
    record: Record, program: Program, scalars: tuple, donated: tuple[int, ...], lifted: Mapping[int, int],
    reproducible: bool = False,
) -> None:  # fmt: skip
    if not observers:
        return
    executable = record.compiled.get(donated) if not reproducible else None
    reason = "other buffers can be written over" if record.compiled else "a new structure"
    if reproducible:
        reason = "for reproducible runs"
    elif executable is not None or record.varying:
        was = record.seen if executable is None else executable.baked
        changed = [f"{was[k]!r} is now {v!r}" for k, v in enumerate(scalars) if was[k] not in (None, v)]
        reason = "a number changed: " + (", ".join(changed) or "equal numbers differ now")
    notify("load" if on_disk(program, scalars, lifted, donated, reproducible) else "compile", program, reason)
