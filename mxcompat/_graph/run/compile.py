"""Compile: turn a Program into an XLA executable.

The Program's replay is traced, lowered and compiled, either quickly or for speed. A quickly compiled executable counts
its runs; once it has run often, it is compiled again for speed in the background. An executable that an earlier process
stored is loaded from the disk instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any
from weakref import ref

from mxcompat._jax import jax

from .. import policy
from ..ir import buffers
from ..ir.program import Program
from ..ir.structure import clock
from . import allocation, background, budget, disk, heap, notice
from .arguments import baked, check_results, function, packed, vectors
from .events import notify, span, stats
from .forked import require_threads
from .lowering import Lowered, lower
from .options import FAST, QUICK, REPRODUCIBLE, compile_with, has_divided_loops
from .partition import calling, out_shardings
from .platform import on_cpu

__all__ = ["Executable", "on_disk"]


def _is_heavy(program: Program) -> bool:
    """Return True if a run of the Program takes much longer than the overhead of a call."""
    return (
        len(program.instructions) > policy.FEW_INSTRUCTIONS
        or program.is_nested
        or any(a.nbytes > policy.CALL_BYTES for a in jax.tree.leaves((program.in_avals, program.out_avals)))
    )


class Executable:
    """A compiled Program, which can be called.

    Args:
        program: the Program to compile.
        scalars: the value of each scalar of the program.
        lifted: maps each scalar that is an argument to the first scalar that shares the argument. The others are
            constants.
        donated: the positions of donated buffers, among the inputs that are not scalars.
        hurry: compile quickly now and for speed later; if False, compile for speed at once.
        reproducible: compile so that each run in each process gives the same bits.

    `transient` and `needs` are the bytes that a run allocates (`allocation.needs`). `started` is the time of the last
    call, and `seconds` how long its results took, if they were waited for.
    """

    __slots__ = (
        "__weakref__", "_divided", "_entry", "_improving", "_lowered", "_patience", "_runs", "_vectors", "baked",
        "call", "donated", "last_used", "lifted", "nbytes", "needs", "program", "seconds", "started", "transient",
    )  # fmt: skip

    def __init__(
        self, program: Program, scalars: tuple, lifted: Mapping[int, int], donated: tuple[int, ...], *, hurry: bool,
        reproducible: bool = False,
    ) -> None:  # fmt: skip
        require_threads()
        self.program = program
        self.donated = donated
        self._runs = 0
        self._improving = False
        self._lowered: Any = None
        self.last_used = clock.now
        self.started = self.seconds = 0.0
        self.nbytes = policy.BYTES_PER_EXECUTABLE + policy.COMPILED_PER_INSTRUCTION * program.weight
        quick = hurry and on_cpu() and program.placement is None  # processes that share a mesh run the same code
        options = REPRODUCIBLE if reproducible else QUICK if quick else FAST
        if on_cpu():
            allocation.require(allocation.results(program))
        self._entry, stored_options, compiled = _stored(program, scalars, lifted, donated, options)
        self.lifted = self._entry.lifted
        self.baked, self._vectors = baked(scalars, self.lifted), vectors(program, self.lifted)
        patience = policy.KNOWN_MIN_RUNS if _is_heavy(program) else policy.LIKELY_MIN_RUNS
        self._patience = patience if stored_options is QUICK else 0
        if compiled is None:
            with span("compile", program), notice.if_long(len(program.instructions)):
                compiled = self._compile(options)
            stats.compiles += 1
        else:
            stats.loaded += 1
            self._weigh(self._entry.loaded_bytes)
        self._take(compiled)

    def _take(self, compiled: jax.stages.Compiled) -> None:
        """Use this executable for later calls."""
        self.call = calling(self.program, compiled)
        self.transient, self.needs = allocation.needs(compiled)
        self._divided = has_divided_loops(compiled)

    @property
    def should_spin(self) -> bool:
        """Return True if the caller should spin on the result before blocking: not if the run may take long, or if
        spinning takes a core from XLA's threads."""
        return not self._divided and self.seconds < policy.SPIN_SECONDS

    def __call__(self, arrays: Sequence[Any], scalars: tuple, counts: bool = True) -> list[Any]:
        """Run the executable on `arrays`, the inputs that are not scalars, in order. Runs with `counts` count towards a
        compile for speed."""
        require_threads()
        if counts and (self._runs < self._patience or self._improving):
            self._promote()
        notify("run", self.program)
        if self.transient:
            buffers.record_transient(self.transient)
        self.last_used = clock.now
        self.started = stats.last_run = perf_counter()
        if self.lifted:
            with jax.enable_x64(True):
                results = self.call(*arrays, *packed(scalars, self._vectors))
        else:
            results = self.call(*arrays)
        # for a tuple of results, refer to the first
        stats.last_result = ref(results[0][0] if type(results[0]) is tuple else results[0])
        return results

    def fits(self, scalars: tuple) -> bool:
        """Return True if the executable can run with these values: constants are equal, and scalars that share an
        argument are the same number."""
        return self.baked == scalars or all(
            scalars[self.lifted[k]] is new if k in self.lifted else old == new
            for k, (old, new) in enumerate(zip(self.baked, scalars, strict=True))
        )

    def _compile(self, options: dict[str, Any]) -> jax.stages.Compiled:
        start = perf_counter()
        with jax.enable_x64(True):
            traced = self._trace()
            check_results(self.program, traced.out_info)
            allocation.require_possible(traced.jaxpr.jaxpr)
            lowered = lower(traced, self._trace)
            compiled = compile_with(lowered, options)
        if perf_counter() - start >= policy.TRIMMED_SECONDS:
            heap.give_back()
        if self._patience == policy.KNOWN_MIN_RUNS:
            _keep_lowered(self, lowered)
        self._entry.store_soon(options, compiled, _worth(lowered, perf_counter() - start), self._weigh)
        return compiled

    def _weigh(self, serialized: int) -> None:
        """Estimate the memory of the executable from its serialized size, unless that is 0 (unknown)."""
        if serialized:
            self.nbytes = policy.BYTES_PER_EXECUTABLE + policy.BYTES_PER_SERIALIZED * serialized
            budget.make_room()

    def forget(self) -> None:
        """Remove the executable from the Program's record. Existing references can still call it."""
        compiled = self.program.record.compiled
        for donated in [donated for donated, executable in list(compiled.items()) if executable is self]:
            compiled.pop(donated, None)
        if self.program.record.only is self:
            self.program.record.only = None
        self._lowered = None

    def _trace(self) -> Any:
        # keep_unused=True is not passed: JAX 0.12 would never free the executable
        replay, specs = function(self.program, self.baked, self.lifted)
        return jax.jit(replay, donate_argnums=self.donated, out_shardings=out_shardings(self.program)).trace(*specs)

    def _promote(self) -> None:
        """Count a run. When the count reaches the limit, compile for speed in the background."""
        self._runs += 1
        if self._runs == self._patience:
            self._improving = True
            background.submit(self._optimize)

    def wait_if_hot(self) -> None:
        """Wait for the compile for speed if the executable has run often enough since it was asked for, unless another
        compile must end first."""
        is_hot = self._improving and self._runs >= self._patience + policy.LIKELY_MIN_RUNS
        if is_hot and _is_heavy(self.program) and background.is_next(self._optimize):
            background.wait(lambda: not self._improving)

    def _optimize(self) -> None:
        entry = self._entry
        # If the lowered form was dropped, trace again: JAX's settings in this thread then apply.
        if self._lowered is None:
            entry = disk.Entry(self.program, self.baked, self.lifted, self.donated)
        start = perf_counter()
        try:
            compiled = entry.load(FAST)  # another process may have stored it
            if compiled is None:
                with span("compile", self.program), jax.enable_x64(True):
                    lowered = self._lowered or lower(self._trace(), self._trace)
                    compiled = compile_with(lowered, FAST)
                entry.store_soon(FAST, compiled, _worth(lowered, perf_counter() - start), self._weigh, QUICK)
            else:
                self._weigh(entry.loaded_bytes)
            self._take(compiled)
        finally:
            self._improving = False
        self._lowered = None
        stats.optimised += 1
        notify("optimise", self.program)


def _worth(lowered: Lowered, seconds: float) -> float:
    """Return the seconds that a stored executable saves a later process: 0 if it is slow because a pass failed."""
    return 0.0 if lowered.is_plain else seconds


_with_lowered: deque[Executable] = deque()


def _keep_lowered(executable: Executable, lowered: Any) -> None:
    """Keep the lowered form of an executable, so that the compile for speed need not trace it again. Only the most
    recent heavy executables keep it, because many are never compiled again."""
    executable._lowered = lowered
    _with_lowered.append(executable)
    while len(_with_lowered) > policy.MOST_LOWERED:
        _with_lowered.popleft()._lowered = None


def on_disk(
    program: Program, scalars: tuple, lifted: Mapping[int, int], donated: tuple[int, ...], reproducible: bool
) -> bool:
    """Return True if this executable would be loaded from the disk."""
    options = (REPRODUCIBLE,) if reproducible else (FAST, QUICK)
    return any(p.holds(o) for p in disk.entries(program, scalars, lifted, donated) for o in options)


def _stored(
    program: Program, scalars: tuple, lifted: Mapping[int, int], donated: tuple[int, ...], options: dict[str, Any]
) -> tuple[disk.Entry, dict[str, Any], jax.stages.Compiled | None]:
    """Return the entry, the options and the executable found on the disk. An executable compiled for speed is
    preferred, then one with exactly these scalars lifted. If none is stored, return the entry in which to store a new
    one, `options`, and None."""
    entries = list(disk.entries(program, scalars, lifted, donated))
    for candidate in (FAST, QUICK) if options is QUICK else (options,):
        for entry in entries:
            compiled = entry.load(candidate)
            if compiled is not None:
                return entry, candidate, compiled
    return entries[0], options, None
