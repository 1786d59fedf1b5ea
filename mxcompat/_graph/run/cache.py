"""Cache: what has been made of each Program so far, and what is known of how long it takes.

Each Program keeps its own record. Python numbers in a program are baked in at first; a place where another value shows
up becomes an argument, so that no number costs a compile each time it changes. Places where it was one number each
time, a learning rate say, are one argument.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mxcompat._jax import import_jax

from .. import policy
from ..ir.capture import PLACEHOLDER, PROMISE
from ..ir.program import Program
from . import allocation, background, budget
from .compile import Executable, on_disk
from .events import notify, observers
from .interrupts import uninterrupted

__all__ = ["Record", "compile_now", "compile_soon", "find", "only", "record_of", "wait_if_sure"]


class Record:
    """What is known of one Program; kept at the Program.

    compiled: its executables, by the buffers that may be written over. pending: what is being compiled in the
    background. failed: what could not be. meanwhile: how often it has run while something was. seen: the values that
    the scalars had at first. varying: the scalars that had others since. same: of each scalar, the first that has been
    the very same number each time. lock: held by the thread that compiles it.
    host_runs, host_seconds: how often it has run op by op, and for how long its threads computed then; host_best: the
    shortest time it took. xla_runs, xla_best: the same for its executable, where it was timed. settled: whether that is
    to run from now on. only: the one executable for runs that are to be reproducible.
    """

    __slots__ = (
        "compiled", "failed", "host_best", "host_runs", "host_seconds", "lock", "meanwhile", "only", "pending", "same",
        "seen", "settled", "varying", "xla_best", "xla_runs",
    )  # fmt: skip

    def __init__(self, program: Program, scalars: tuple) -> None:
        self.compiled: dict[tuple[int, ...], Executable] = {}
        self.only: Executable | None = None
        self.pending: set[tuple[int, ...]] = set()
        self.failed: set[tuple[int, ...]] = set()
        self.meanwhile = 0
        self.seen = scalars
        self.same = _same([program.in_avals[slot].dtype for slot in program.scalars], scalars)
        self.varying: set[int] = set()
        self.lock = threading.Lock()
        self.host_runs = self.xla_runs = 0
        self.settled = False
        self.host_seconds = 0.0
        self.host_best = self.xla_best = float("inf")

    def vary(self, scalars: tuple) -> None:
        if scalars is self.seen:
            return
        if scalars != self.seen:
            self.varying.update(k for k, (a, b) in enumerate(zip(self.seen, scalars, strict=True)) if a != b)
        self.same = _same(self.same, scalars)

    def lifted(self) -> dict[int, int]:
        """The scalars that are to be arguments, and of each the first that is the same."""
        same = self.same
        return {k: same[k] for k in sorted(self.varying)}


def _same(alike: Sequence[Any], scalars: tuple) -> Sequence[int]:
    """Of each scalar, the first that is the very same number, among those that were `alike`. Small integers are the
    same object by chance."""
    if len(scalars) < 2:
        return range(len(scalars))
    first: dict[Any, int] = {}
    return [
        first.setdefault((kind, id(v)), k) if type(v) is float else k
        for k, (kind, v) in enumerate(zip(alike, scalars, strict=True))
    ]


def record_of(program: Program, scalars: tuple) -> Record:
    """The record of a Program, which is being run with these values."""
    record = program.record
    if record is None:
        record = program.record = Record(program, scalars)
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
            lifted = {k: k for k in range(len(scalars))} if reproducible else record.lifted()
            _explain(record, program, scalars, donated, lifted, reproducible)

            def made() -> Executable:
                new = Executable(program, scalars, lifted, donated, hurry=not reproducible, reproducible=reproducible)
                if reproducible:
                    record.only = new
                else:
                    record.compiled[donated] = new
                budget.enter(new)
                return new

            found = uninterrupted(made)
    return found


_WITHOUT_VALUE = (PLACEHOLDER, PROMISE)


def compile_soon(program: Program, scalars: tuple, donated: tuple[int, ...]) -> None:
    """Compile a Program for speed, in the background. Until it is there, `find` does not find it. What has failed once
    is not tried again, unless memory had run out.

    If need be JAX is imported first, here: in the background that took 0.6 s instead of 0.33, and the program got half
    as much done meanwhile, as both are Python."""
    record = record_of(program, scalars)
    if donated in record.failed:
        return
    if donated in record.pending:
        record.meanwhile += 1
        return
    if any(op in _WITHOUT_VALUE for op, _, _ in program.instructions):
        return  # it raises whenever it runs
    import_jax()
    _explain(record, program, scalars, donated, record.lifted())

    def job() -> None:
        try:
            found = Executable(program, scalars, record.lifted(), donated, hurry=False)
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
    """Wait for what is being compiled in the background if the Program has run often enough meanwhile; where it runs in
    NumPy, the first time, and no longer than that takes: what the compile takes then is longer than expected."""
    record = program.record
    if record is None or donated not in record.pending:
        return
    if record.host_runs:
        longest = record.host_best
        sure = not record.meanwhile and longest > policy.WORTH_WAITING * policy.compile_seconds(program.weight)
    else:
        longest = None
        sure = record.meanwhile and record.meanwhile % policy.ENOUGH == 0
    if sure:
        background.wait(lambda: donated not in record.pending, longest)


def _explain(
    record: Record, program: Program, scalars: tuple, donated: tuple[int, ...], lifted: Mapping[int, int],
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
        reason = "a number changed: " + (", ".join(changed) or "what was one is two")
    notify("load" if on_disk(program, scalars, lifted, donated, reproducible) else "compile", program, reason)
