"""Executables: a Program compiled by XLA, and the caches and tiers of such.

Each Program keeps its own. What must run now is compiled quickly and runs slowly; what has proved to return is compiled
for speed, in the background, and swapped in. Python numbers in a program are baked in at first; a place
where another value shows up becomes an argument, so that no number costs a compile each time it changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from ..ir.aval import number
from ..ir.program import Program
from . import background

__all__ = ["Executable", "Stats", "Versions", "compile_now", "compile_soon", "find", "observers", "remember", "stats"]


class Stats:
    """Counts of what the library did, for tests and for `ext.debug`.

    compiles: programs compiled for the first time, with the numbers then baked in. optimised: programs compiled again
    for speed, in the background.
    """

    def __init__(self) -> None:
        self.compiles = 0
        self.optimised = 0


stats = Stats()

observers: list[Callable[[str, Program, str], None]] = []
"""Called with what happened ("run", "compile", "optimise"), to which Program, and why. See `ext.debug`."""


def _notify(event: str, program: Program, reason: str = "") -> None:
    for observer in observers:
        observer(event, program, reason)


_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_allow_excess_precision": False,
}
_FAST = {"xla_allow_excess_precision": False}

_PATIENCE = 30
"""How often a light program runs before it is compiled for speed; a heavy one is at its second run."""

_ENOUGH = 16
"""How often a Program runs slowly, in parts or compiled in a hurry, before it waits for what is being compiled for
speed. By then it is sure to return, and running beside the compiler would only keep both from their work."""

_MANY = 50
_LARGE = 1 << 14


class Executable:
    """A callable made of a Program.

    Args:
        program: what to compile.
        scalars: the value of each scalar of the program.
        lifted: the scalars that are arguments; the others are baked in.
        donated: the positions, among the inputs that are not scalars, of buffers that it may write over.
        hurry: whether to compile quickly now, and for speed later; else for speed at once.
    """

    __slots__ = (
        "_donated", "_improving", "_lowered", "_order", "_patience", "_runs", "baked", "call", "lifted", "program",
    )  # fmt: skip

    def __init__(
        self, program: Program, scalars: tuple, lifted: Iterable[int], donated: tuple[int, ...], *, hurry: bool
    ) -> None:
        self.program = program
        self.lifted = tuple(sorted(lifted))
        self.baked = tuple(None if k in self.lifted else v for k, v in enumerate(scalars))
        self._donated = donated
        self._order = _order(program, donated)
        self._runs = 0
        self._improving = False
        self._patience = (2 if _is_heavy(program) else _PATIENCE) if hurry else 0
        with jax.enable_x64(True):
            traced = self._trace()
            _check(program, traced.out_info)
            lowered = traced.lower()
            self.call = _compile(lowered, _QUICK if hurry else _FAST)
        # What is light may never be compiled again, and there is much of it: better traced again than kept.
        self._lowered = lowered if self._patience == 2 else None
        stats.compiles += 1

    def __call__(self, arrays: Sequence[Any], scalars: tuple, counts: bool = True) -> list[Any]:
        """Run. `arrays` are the inputs that are not scalars, in order. What `counts` may lead to a faster version."""
        if counts and (self._runs < self._patience or self._improving):
            self._promote()
        if observers:
            _notify("run", self.program)
        if self._order is not None:
            arrays = [arrays[k] for k in self._order]
        if self.lifted:
            with jax.enable_x64(True):
                return self.call(*arrays, *_pack(self.program, scalars, self.lifted))
        return self.call(*arrays)

    def fits(self, scalars: tuple) -> bool:
        """Whether these are the values that were baked in."""
        return self.baked == scalars or all(
            old == new or k in self.lifted for k, (old, new) in enumerate(zip(self.baked, scalars, strict=True))
        )

    def _trace(self) -> Any:
        function, specs = _function(self.program, self.baked, self.lifted, self._order)
        return jax.jit(function, donate_argnums=self._donated, keep_unused=True).trace(*specs)

    def _promote(self) -> None:
        """Count a run; if it is worth it, compile for speed in the background, and wait for that in the end."""
        self._runs += 1
        if self._runs == self._patience and _tiered():
            self._improving = True
            background.submit(self._optimise)
        elif self._runs == self._patience + _ENOUGH and _is_heavy(self.program):
            background.wait(lambda: not self._improving)

    def _optimise(self) -> None:
        try:
            with jax.enable_x64(True):
                self.call = _compile(self._lowered or self._trace().lower(), _FAST)
        finally:
            self._improving = False
        self._lowered = None
        stats.optimised += 1
        if observers:
            _notify("optimise", self.program)


class Versions:
    """What XLA has made of one Program so far, by the buffers that may be written over; kept at the Program.

    seen: the values that the scalars had at first. varying: the scalars that had others since. pending: what is being
    compiled in the background. meanwhile: how often it has run while something was.
    """

    __slots__ = ("compiled", "meanwhile", "pending", "seen", "varying")

    def __init__(self, scalars: tuple) -> None:
        self.compiled: dict[tuple[int, ...], Executable] = {}
        self.pending: set[tuple[int, ...]] = set()
        self.meanwhile = 0
        self.seen = scalars
        self.varying: set[int] = set()

    def vary(self, scalars: tuple) -> None:
        if scalars != self.seen:
            self.varying.update(k for k, (a, b) in enumerate(zip(self.seen, scalars, strict=True)) if a != b)


def find(program: Program, scalars: tuple, donated: tuple[int, ...]) -> Executable | None:
    """The executable of a Program that fits these scalar values, if there is one."""
    versions = program.versions
    if versions is None:
        return None
    found = versions.compiled.get(donated)
    return found if found is not None and found.fits(scalars) else None


def compile_now(program: Program, scalars: tuple, donated: tuple[int, ...]) -> Executable:
    """Compile a Program in a hurry; numbers that are known to vary become arguments."""
    versions = remember(program, scalars)
    _explain(versions, program, scalars, donated)
    versions.compiled[donated] = made = Executable(program, scalars, versions.varying, donated, hurry=True)
    return made


def compile_soon(program: Program, scalars: tuple, donated: tuple[int, ...]) -> None:
    """Compile a Program for speed, in the background. Until it is there, `find` does not find it.

    Asked again and again while that is under way, this waits for it.
    """
    versions = remember(program, scalars)
    if donated in versions.pending:
        versions.meanwhile += 1
        if versions.meanwhile % _ENOUGH == 0:
            background.wait(lambda: donated not in versions.pending)
        return
    versions.pending.add(donated)
    _explain(versions, program, scalars, donated)

    def job() -> None:
        try:
            varying = frozenset(versions.varying)
            versions.compiled[donated] = Executable(program, scalars, varying, donated, hurry=False)
        finally:
            versions.pending.discard(donated)

    background.submit(job)


def remember(program: Program, scalars: tuple) -> Versions:
    """Note that a Program is run with these values."""
    versions = program.versions
    if versions is None:
        versions = program.versions = Versions(scalars)
    else:
        versions.vary(scalars)
    return versions


def _explain(versions: Versions, program: Program, scalars: tuple, donated: tuple[int, ...]) -> None:
    if not observers:
        return
    found = versions.compiled.get(donated)
    reason = "other buffers can be written over" if versions.compiled else "a new structure"
    if found is not None or versions.varying:
        was = versions.seen if found is None else found.baked
        changed = [f"{was[k]!r} is now {v!r}" for k, v in enumerate(scalars) if was[k] not in (None, v)]
        reason = "a number changed: " + ", ".join(changed)
    _notify("compile", program, reason)


def _is_heavy(program: Program) -> bool:
    """Whether running a Program takes much longer than calling it."""
    return (
        len(program.instructions) > _MANY
        or program.is_nested
        or any(a.nbytes > _LARGE for a in jax.tree.leaves((program.in_avals, program.out_avals)))
    )


def _tiered() -> bool:
    return jax.default_backend() == "cpu" and not os.environ.get("MXCOMPAT_QUICK_COMPILE")


def _compile(lowered: Any, options: dict[str, Any]) -> Callable[..., list[Any]]:
    if jax.default_backend() != "cpu":
        return lowered.compile().__call__
    try:
        return lowered.compile(compiler_options=options).__call__
    except jax.errors.JaxRuntimeError as error:
        unknown = next((name for name in options if f"No such compile option: '{name}'" in str(error)), None)
        if unknown is None:
            raise
        del options[unknown]  # versions of XLA differ in what can be set
    return _compile(lowered, options)


def _order(program: Program, donated: tuple[int, ...]) -> list[int] | None:
    """The order in which to pass the arrays; None if it is their own.

    JAX gives the buffers that may be written over to the outputs one after the other. Each must meet the output that is
    that very array but for a few elements, or XLA has to copy both.
    """
    arrays = _arrays(program)
    places = {~arrays[k]: k for k in donated}
    origins: dict[int, int] = {}
    for slot, (op, _, slots) in enumerate(program.instructions):
        if op.in_place:
            origins[slot] = origins.get(slots[0], slots[0])
    wanted = [places.pop(origin) for s in program.out_slots if (origin := origins.get(s)) in places]
    wanted += places.values()
    order = list(range(len(arrays)))
    for place, k in zip(sorted(wanted), wanted, strict=True):
        order[place] = k
    return order if wanted != sorted(wanted) else None


def _arrays(program: Program) -> list[int]:
    """The inputs that are not scalars."""
    scalars = set(program.scalars)
    return [k for k in range(len(program.in_avals)) if k not in scalars]


def _function(
    program: Program, baked: tuple, lifted: tuple[int, ...], order: list[int] | None
) -> tuple[Callable[..., list[Any]], list[Any]]:
    """The JAX function to compile, and the shapes of its arguments: the arrays, in that order, then a vector per dtype
    of lifted."""
    avals = program.in_avals
    arrays = _arrays(program)
    if order is not None:
        arrays = [arrays[k] for k in order]
    specs: list[Any] = [_spec(avals[k]) for k in arrays]
    constants = {
        slot: number(v, avals[slot].dtype)
        for k, (slot, v) in enumerate(zip(program.scalars, baked, strict=True))
        if k not in lifted
    }
    groups = _groups(program, lifted)
    specs += [jax.ShapeDtypeStruct((len(ks),), dtype) for dtype, ks in groups.items()]

    def function(*args: Any) -> list[Any]:
        inputs: list[Any] = [None] * len(avals)
        for k, v in constants.items():
            inputs[k] = v
        for k, v in zip(arrays, args, strict=False):
            inputs[k] = v
        for vector, ks in zip(args[len(arrays) :], groups.values(), strict=True):
            for place, k in enumerate(ks):
                inputs[program.scalars[k]] = vector[place]
        return program.replay(inputs)

    return function, specs


def _spec(aval: Any) -> Any:
    if isinstance(aval, tuple):
        return tuple(_spec(a) for a in aval)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype.numpy)


def _check(program: Program, out_info: Sequence[Any]) -> None:
    """An op whose `impl` and `infer` disagree is a bug of ours, never to be passed on as a wrong dtype."""
    for slot, aval, info in zip(program.out_slots, program.out_avals, out_info, strict=True):
        for got, want in zip(jax.tree.leaves(info), jax.tree.leaves(_spec(aval)), strict=True):
            if got.shape != want.shape or got.dtype != want.dtype:
                op = program.instructions[slot][0] if slot >= 0 else "input"
                raise RuntimeError(
                    f"[{op}] gave {got.dtype}{list(got.shape)} where {want.dtype}{list(want.shape)} was promised; "
                    "please report this as a bug of mxcompat."
                )


def _groups(program: Program, lifted: tuple[int, ...]) -> dict[np.dtype, list[int]]:
    groups: dict[np.dtype, list[int]] = {}
    for k in lifted:
        groups.setdefault(program.in_avals[program.scalars[k]].dtype.numpy, []).append(k)
    return groups


def _pack(program: Program, scalars: tuple, lifted: tuple[int, ...]) -> list[np.ndarray]:
    with np.errstate(over="ignore"):
        return [np.array([scalars[k] for k in ks], dtype) for dtype, ks in _groups(program, lifted).items()]
