"""Programs: a subgraph, closed over its inputs, as an immutable list of instructions over numbered slots.

Programs for different shapes share their Code. Evaluation, `grad`, `vmap`, `compile` and export all use Programs;
`replay` runs one on JAX values. Programs are made from subgraphs, see `structure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .analyses import analysis
from .node import SCALAR, TRACED, Node, apply
from .op import Op
from .rules import BODY, EFFECT, SPECIALIZE

__all__ = ["Code", "Instruction", "Program", "programs_in", "replaying"]

Instruction = tuple[Op, tuple, tuple[int, ...]]
"""An op, its params, and the slots of its inputs."""

Interpreter = Callable[[Op, tuple, list[Any], list[Any], Any], Any]
"""`interpreter(op, params, values, avals, out)`: runs one instruction of a replay in place of its lowering. The avals
are the Program's, for the inputs and for the result."""

_interpreter: ContextVar[Interpreter | None] = ContextVar("interpreter", default=None)


@contextmanager
def replaying(interpreter: Interpreter | None) -> Iterator[None]:
    """Replay Programs with `interpreter` within this context; None means that each instruction is lowered."""
    token = _interpreter.set(interpreter)
    try:
        yield
    finally:
        _interpreter.reset(token)


class Code:
    """Instructions `(op, params, input slots)`, for inputs of any shapes and dtypes. Instruction k writes slot k; slot
    ~k (negative) is input k.

    Args:
        instructions: inputs before consumers.
        kinds: for each input, SCALAR if it is a Python number, TRACED if its value is a JAX tracer, else None.

    Attributes:
        scalars: the inputs that are Python numbers.
        traced: whether an input is a JAX tracer.
        weight: the number of instructions, including those of nested Programs.
        uses: the number of reads of each result.
        leaf_uses: the number of reads of each input.
        written: the inputs that an op updates in place.
        has_effects: whether an op runs alone (a collective).
        specialized: whether a transform may rewrite an op, here or in a nested Program.
        seen_before: whether this code was walked before.
        facts: a cache for analyses of this code, see `analyses`.
    """

    __slots__ = (
        "__weakref__", "facts", "has_effects", "held", "instructions", "kinds", "leaf_uses", "scalars", "seen_before",
        "specialized", "traced", "uses", "weight", "written",
    )  # fmt: skip

    def __init__(self, instructions: tuple[Instruction, ...], kinds: tuple[Op | None, ...]) -> None:
        self.instructions = instructions
        self.kinds = kinds
        self.scalars = tuple([k for k, kind in enumerate(kinds) if kind is SCALAR])
        self.traced = TRACED in kinds
        self.weight: int = len(instructions)
        self.uses = [0] * len(instructions)
        self.leaf_uses = [0] * len(kinds)
        self.has_effects = self.specialized = False
        self.written: set[int] = set()
        for op, params, slots in instructions:
            if op in EFFECT:
                self.has_effects = self.specialized = True
            elif op in SPECIALIZE and (op not in BODY or BODY[op](params).code.specialized):
                self.specialized = True
            if op.in_place and slots[0] < 0:
                self.written.add(~slots[0])
            if params:
                self.weight += sum([p.weight for p in programs_in(params)])
            for s in slots:
                if s >= 0:
                    self.uses[s] += 1
                else:
                    self.leaf_uses[~s] += 1
        self.held: tuple[list[int], list[int]] = ([], [])  # explained in `liveness.live_out`
        self.seen_before = False
        self.facts: dict[Any, Any] = {}

    @property
    def is_nested(self) -> bool:
        """Return True if an instruction contains a Program."""
        return self.weight > len(self.instructions)


class Program:
    """Code with the avals of its inputs and a choice of outputs.

    Programs are interned: equal structure and outputs give the same object, so Programs compare and hash by identity.
    Values of Python numbers are not part of a Program: they are inputs, listed in `scalars`. `placement` describes the
    layout of the inputs over a mesh of devices (None for one device), see `run.placement`.
    """

    __slots__ = (
        "__weakref__", "avals", "code", "facts", "in_avals", "instructions", "out_avals", "out_slots", "placement",
        "record", "scalars", "structures", "weight",
    )  # fmt: skip

    def __init__(
        self, code: Code, in_avals: tuple[Any, ...], out_slots: tuple[int, ...], avals: Sequence[Any],
        placement: Any = None,
    ) -> None:  # fmt: skip
        self.code = code
        self.instructions = code.instructions
        self.scalars = code.scalars
        self.weight = code.weight
        self.avals = avals  # the avals of the instructions' results
        self.in_avals = in_avals
        self.out_slots = out_slots
        self.placement = placement
        self.out_avals = tuple([avals[s] if s >= 0 else in_avals[~s] for s in out_slots])
        self.record: Any = None  # the executables and statistics, see `run.cache`
        # the number of structures in which a derivative or call of this Program has run, see `run.host`
        self.structures = 0
        self.facts: dict[Any, Any] = {}  # a cache for analyses that depend on the avals or outputs, see `analyses`

    def __repr__(self) -> str:
        lines = [f"  %{k} = {op}{list(params) or ''} {_slots(slots)}" for k, (op, params, slots) in self._numbered()]
        heading = ", ".join(f"in{k}: {a}" for k, a in enumerate(self.in_avals))
        return "\n".join([f"program({heading}):", *lines, f"  return {_slots(self.out_slots)}"])

    @property
    def is_nested(self) -> bool:
        """Return True if an instruction contains a Program."""
        return self.code.is_nested

    def aval(self, slot: int) -> Any:
        """Return the aval of a slot: an instruction's result (a tuple if it has several) or an input."""
        return self.avals[slot] if slot >= 0 else self.in_avals[~slot]

    def giving(self, outputs: tuple[int, ...]) -> Program:
        """Return the Program with only these outputs, in this order."""
        if outputs == tuple(range(len(self.out_slots))):
            return self
        return _giving(self, outputs)

    def _numbered(self) -> Iterable[tuple[int, tuple]]:
        return enumerate(self.instructions)

    @np.errstate(all="ignore")
    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the instructions on JAX values (arrays, tracers, NumPy scalars), under the current JAX trace. NumPy's
        warnings are off, because JAX computes constants with NumPy."""
        env: list[Any] = []
        interpret = _interpreter.get()
        for op, params, slots in self.instructions:
            try:
                operands = [env[s] if s >= 0 else inputs[~s] for s in slots]
                if interpret is None:
                    env.append(op.lower(params, operands))
                else:
                    env.append(interpret(op, params, operands, [self.aval(s) for s in slots], self.avals[len(env)]))
            except Exception as error:
                error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program's, in the end
                raise
        return [env[s] if s >= 0 else inputs[~s] for s in self.out_slots]

    def rebuild(self, inputs: Sequence[Node]) -> list[Node]:
        """Apply the instructions to nodes, as if the user's Python ran again. The avals may differ from `in_avals`."""
        env = self.rebuild_all(inputs)
        return [env[s] if s >= 0 else inputs[~s] for s in self.out_slots]

    def rebuild_all(self, inputs: Sequence[Node]) -> list[Node]:
        """Apply the instructions to nodes, and return the nodes of all results."""
        env: list[Node] = []
        for op, params, slots in self.instructions:
            env.append(apply(op, tuple([env[s] if s >= 0 else inputs[~s] for s in slots]), params))
        return env


def programs_in(params: tuple) -> list[Program]:
    """Return the Programs among the params of an op, including those in tuples."""
    programs: list[Program] = []
    for p in params:
        if isinstance(p, Program):
            programs.append(p)
        elif type(p) is tuple and p and isinstance(p[0], Program):
            programs += p
    return programs


def _slots(slots: Iterable[int]) -> str:
    return ", ".join(f"%{s}" if s >= 0 else f"in{~s}" for s in slots)


@analysis
def _giving(program: Program, outputs: tuple[int, ...]) -> Program:
    slots = tuple([program.out_slots[k] for k in outputs])
    return Program(program.code, program.in_avals, slots, program.avals, program.placement)
