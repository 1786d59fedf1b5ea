"""Executables: a Program compiled by XLA, and the caches and tiers of such.

Each Program keeps its own. A structure seen for the first time is compiled quickly and runs slowly; when it has proved
to return it is compiled for speed, in the background, and swapped in. Python numbers in a program are baked in at first; a place
where another value shows up becomes an argument, so that no number costs a compile each time it changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import background
from .node import Node
from .program import Program

__all__ = ["Executable", "Stats", "find", "note", "observers", "stats"]


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

_MANY = 50
_LARGE = 1 << 14


class Executable:
    """A callable made of a Program.

    Args:
        program: what to compile.
        scalars: the value of each scalar of the program.
        lifted: the scalars that are arguments; the others are baked in.
        donated: the positions, among the inputs that are not scalars, of buffers that it may write over.
        outputs: the nodes whose values it computes.
        returning: whether the structure has been seen before.
    """

    __slots__ = ("_donated", "_lowered", "_patience", "_runs", "baked", "call", "lifted", "program")

    def __init__(
        self,
        program: Program,
        scalars: tuple,
        lifted: frozenset[int],
        donated: tuple[int, ...],
        outputs: Sequence[Node],
        returning: bool,
    ) -> None:
        self.program = program
        self.lifted = tuple(sorted(lifted))
        self.baked = tuple(None if k in lifted else v for k, v in enumerate(scalars))
        self._donated = donated
        self._runs = 1 if returning else 0
        self._patience = 2 if _is_heavy(program) else _PATIENCE
        with jax.enable_x64(True):
            traced = self._trace()
            _check(traced.out_info, outputs)
            lowered = traced.lower()
            self.call = _compile(lowered, _options(_QUICK))
        # What is light may never be compiled again, and there is much of it: better traced again than kept.
        self._lowered = lowered if self._patience == 2 else None
        stats.compiles += 1

    def _trace(self) -> Any:
        function, specs = _function(self.program, self.baked, self.lifted)
        return jax.jit(function, donate_argnums=self._donated, keep_unused=True).trace(*specs)

    def __call__(self, arrays: Sequence[Any], scalars: tuple) -> list[Any]:
        """Run. `arrays` are the inputs that are not scalars, in order."""
        if self._runs < self._patience:
            self._promote()
        if observers:
            _notify("run", self.program)
        if self.lifted:
            with jax.enable_x64(True):
                return self.call(*arrays, *_pack(self.program, scalars, self.lifted))
        return self.call(*arrays)

    def _promote(self) -> None:
        """Count a run of the structure; if it is worth it, compile for speed in the background."""
        self._runs += 1
        if self._runs == self._patience and _tiered():
            background.submit(self._optimise)

    def _optimise(self) -> None:
        with jax.enable_x64(True):
            self.call = _compile(self._lowered or self._trace().lower(), _options(_FAST))
        self._lowered = None
        stats.optimised += 1
        if observers:
            _notify("optimise", self.program)


def find(program: Program, scalars: tuple, donated: tuple[int, ...], outputs: Sequence[Node]) -> Executable:
    """The executable of a Program for these scalar values, compiled if need be.

    `donated` are the positions, among the inputs that are not scalars, of buffers that may be written over; `outputs`
    the nodes whose values it computes.
    """
    cache = program.executables
    returning = cache is not None
    if cache is None:
        cache = program.executables = {}
    found = cache.get(donated)
    if found is not None and (not scalars or found.baked == scalars):
        return found
    old, lifted = (found.baked, found.lifted) if found is not None else (program.seen or scalars, ())
    changed = [k for k, v in enumerate(scalars) if k not in lifted and old[k] != v]
    if found is not None and not changed:
        return found
    executable = Executable(program, scalars, frozenset((*lifted, *changed)), donated, outputs, returning)
    if observers:
        reason = "other buffers can be written over" if cache else "a new structure"
        if changed:
            reason = "a number changed: " + ", ".join(f"{old[k]!r} is now {scalars[k]!r}" for k in changed)
        _notify("compile", program, reason)
    cache[donated] = executable
    return executable


def note(program: Program, scalars: tuple) -> None:
    """Remember that a Program has run, op by op, with these values."""
    program.executables = {}
    program.seen = scalars


def _is_heavy(program: Program) -> bool:
    """Whether running a Program takes much longer than calling it."""
    return (
        len(program.instructions) > _MANY
        or program.is_nested
        or any(a.nbytes > _LARGE for a in jax.tree.leaves((program.in_avals, program.out_avals)))
    )


def _tiered() -> bool:
    return jax.default_backend() == "cpu" and not os.environ.get("MXCOMPAT_QUICK_COMPILE")


def _options(options: dict[str, Any]) -> dict[str, Any] | None:
    return options if jax.default_backend() == "cpu" else None


def _compile(lowered: Any, options: dict[str, Any] | None) -> Callable[..., list[Any]]:
    return lowered.compile(compiler_options=options).__call__


def _function(program: Program, baked: tuple, lifted: tuple[int, ...]) -> tuple[Callable[..., list[Any]], list[Any]]:
    """The JAX function to compile, and the shapes of its arguments: the arrays, then a vector per dtype of lifted."""
    avals = program.in_avals
    scalar_positions = set(program.scalars)
    arrays = [k for k in range(len(avals)) if k not in scalar_positions]
    specs: list[Any] = [_spec(avals[k]) for k in arrays]
    with np.errstate(over="ignore"):  # a number beyond the range of float16 is infinite, as in MLX
        constants = {
            program.scalars[k]: avals[program.scalars[k]].dtype.numpy.type(v)
            for k, v in enumerate(baked)
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


def _check(out_info: Sequence[Any], outputs: Sequence[Node]) -> None:
    """An op whose `impl` and `infer` disagree is a bug of ours, never to be passed on as a wrong dtype."""
    for node, info in zip(outputs, out_info, strict=True):
        for got, want in zip(jax.tree.leaves(info), jax.tree.leaves(_spec(node.aval)), strict=True):
            if got.shape != want.shape or got.dtype != want.dtype:
                raise RuntimeError(
                    f"[{node.op}] gave {got.dtype}{list(got.shape)} where {want.dtype}{list(want.shape)} was promised; "
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
