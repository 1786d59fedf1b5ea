"""Cache: what has been made of each Program so far, and what is known of how long it takes.

Each Program keeps its own record. Python numbers in a program are baked in at first; a place where another value shows
up becomes an argument, so that no number costs a compile each time it changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from .. import policy
from ..ir.capture import PLACEHOLDER, PROMISE
from ..ir.program import Program
from . import allocation, background, budget
from .compile import Executable, on_disk
from .events import notify, observers
from .interrupts import ANY, uninterrupted

__all__ = ["Record", "compile_now", "compile_soon", "find", "only", "record_of", "wait_if_sure"]


class Record:
    """What is known of one Program; kept at the Program.

    compiled: its executables, by the buffers that may be written over. pending: what is being compiled in the
    background. failed: what could not be. meanwhile: how often it has run while something was. seen: the values that
    the scalars had at first. varying: the scalars that had others since. lock: held by the thread that compiles it.
    host_runs, host_seconds: how often it has run op by op, and for how long its threads computed then; host_best: the
    shortest time it took. xla_runs, xla_best: the same for its executable, where it was timed. only: the one executable
    for runs that are to be reproducible.
    """

    __slots__ = (
        "compiled", "failed", "host_best", "host_runs", "host_seconds", "lock", "meanwhile", "only", "pending", "seen",
        "varying", "xla_best", "xla_runs",
    )  # fmt: skip

    def __init__(self, scalars: tuple) -> None:
        self.compiled: dict[tuple[int, ...], Executable] = {}
        self.only: Executable | None = None
        self.pending: set[tuple[int, ...]] = set()
        self.failed: set[tuple[int, ...]] = set()
        self.meanwhile = 0
        self.seen = scalars
        self.varying: set[int] = set()
        self.lock = threading.Lock()
        self.host_runs = self.xla_runs = 0
        self.host_seconds = 0.0
        self.host_best = self.xla_best = float("inf")

    def vary(self, scalars: tuple) -> None:
        if scalars != self.seen:
            self.varying.update(k for k, (a, b) in enumerate(zip(self.seen, scalars, strict=True)) if a != b)


def record_of(program: Program, scalars: tuple) -> Record:
    """The record of a Program, which is being run with these values."""
    record = program.record
    if record is None:
        record = program.record = Record(scalars)
    else:
        record.vary(scalars)
    return record


def find(program: Program, scalars: tuple, donated: tuple[int, ...]) -> Executable | None:
    """The executable of a Program that fits these scalar values, if there is one."""
    record = program.record
    if record is None:
        return None
    found = record.compiled.get(donated)
    return found if found is not None and found.fits(scalars) else None


def only(program: Program) -> Executable | None:
    """The executable that a Program always runs with where runs are to be reproducible, if there is one by now."""
    record = program.record
    return record.only if record is not None else None


def compile_now(program: Program, scalars: tuple, donated: tuple[int, ...], reproducible: bool = False) -> Executable:
    """Compile a Program in a hurry; numbers that are known to vary become arguments. Of several threads that ask for
    the same, one compiles.

    Args:
        reproducible: whether it is to be the `only` one: compiled for speed at once, and every number is an argument,
            as XLA computes with what is constant.
    """
    record = record_of(program, scalars)
    with record.lock:
        found = record.only if reproducible else find(program, scalars, donated)
        if found is None:
            lifted = range(len(scalars)) if reproducible else record.varying
            _explain(record, program, scalars, donated, lifted, reproducible)

            def made() -> Executable:
                new = Executable(program, scalars, lifted, donated, hurry=not reproducible, reproducible=reproducible)
                if reproducible:
                    record.only = new
                else:
                    record.compiled[donated] = new
                budget.enter(new)
                return new

            found = uninterrupted(made, ANY)
    return found


_WITHOUT_VALUE = (PLACEHOLDER, PROMISE)


def compile_soon(program: Program, scalars: tuple, donated: tuple[int, ...]) -> None:
    """Compile a Program for speed, in the background. Until it is there, `find` does not find it. What has failed once
    is not tried again, unless memory had run out."""
    record = record_of(program, scalars)
    if donated in record.failed:
        return
    if donated in record.pending:
        record.meanwhile += 1
        return
    if any(op in _WITHOUT_VALUE for op, _, _ in program.instructions):
        return  # it raises whenever it runs
    _explain(record, program, scalars, donated, record.varying)

    def job() -> None:
        try:
            varying = frozenset(record.varying)
            found = Executable(program, scalars, varying, donated, hurry=False)
            record.compiled[donated] = found
            budget.enter(found)
        except Exception as error:
            if allocation.out_of_memory(error) is None:
                record.failed.add(donated)
            raise
        finally:
            record.pending.discard(donated)

    try:
        record.pending.add(donated)
        background.submit(job)
    except BaseException:
        record.pending.discard(donated)  # nobody is to wait for what never comes
        raise


def wait_if_sure(program: Program, donated: tuple[int, ...]) -> None:
    """Wait for what is being compiled in the background if the Program has run often enough meanwhile."""
    record = program.record
    if record is None or donated not in record.pending:
        return
    if record.host_runs:
        sure = record.host_best > policy.WORTH_WAITING * policy.compile_seconds(program.weight)
    else:
        sure = record.meanwhile and record.meanwhile % policy.ENOUGH == 0
    if sure:
        background.wait(lambda: donated not in record.pending)


def _explain(
    record: Record, program: Program, scalars: tuple, donated: tuple[int, ...], lifted: Iterable[int],
    reproducible: bool = False,
) -> None:  # fmt: skip
    if not observers:
        return
    found = record.compiled.get(donated) if not reproducible else None
    reason = "other buffers can be written over" if record.compiled else "a new structure"
    if reproducible:
        reason = "for reproducible runs"
    elif found is not None or record.varying:
        was = record.seen if found is None else found.baked
        changed = [f"{was[k]!r} is now {v!r}" for k, v in enumerate(scalars) if was[k] not in (None, v)]
        reason = "a number changed: " + ", ".join(changed)
    notify("load" if on_disk(program, scalars, lifted, donated, reproducible) else "compile", program, reason)
