"""Programs: a subgraph, closed over its inputs, as an immutable list of instructions over numbered slots.

Evaluation, `grad`, `vmap`, `compile` and export all speak Program; `replay` runs one on JAX values. They are made from
subgraphs, see `structure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from .node import Node, apply
from .op import Op

__all__ = ["Instruction", "Program", "programs_in", "stepping"]

Instruction = tuple[Op, tuple, tuple[int, ...]]
"""An op, its params, and the slots of its inputs."""

Step = Callable[[Op, tuple, list[Any], list[Any], Any], Any]

stepping: ContextVar[Step | None] = ContextVar("stepping", default=None)
"""`step(op, params, values, avals, out)`: what to do for each instruction of a replay instead of lowering it. The avals
are those that the Program has for the inputs, and for the result."""


class Program:
    """Instructions `(op, params, input slots)`. Instruction i writes slot i; slot ~k (negative) is input k.

    Programs are interned: the same structure and outputs, the same object, so they compare and hash by identity. The
    values of Python numbers are not part of that: they are inputs, listed in `scalars`. How the inputs are laid out
    over a mesh of devices is (`placement`, None for one device), see `run.placement`.
    """

    __slots__ = (
        "__weakref__", "avals", "facts", "in_avals", "instructions", "out_avals", "out_slots", "placement", "record",
        "scalars", "weight",
    )  # fmt: skip

    def __init__(
        self,
        instructions: tuple[Instruction, ...],
        in_avals: tuple[Any, ...],
        scalars: tuple[int, ...],
        out_slots: tuple[int, ...],
        avals: Sequence[Any],
        placement: Any = None,
    ) -> None:
        self.instructions = instructions
        self.avals = avals  # of the instructions' results
        self.in_avals = in_avals
        self.scalars = scalars
        self.out_slots = out_slots
        self.placement = placement
        self.out_avals = tuple([self.aval(s) for s in out_slots])
        self.record: Any = None  # what has been made of it, see `run.cache`
        self.facts: dict[Any, Any] = {}  # what has been found out about it, by whoever asks
        nested = [p.weight for _, params, _ in instructions if params for p in programs_in(params)]
        self.weight: int = len(instructions) + sum(nested)  # the number of instructions, to any depth

    def __repr__(self) -> str:
        lines = [f"  %{k} = {op}{list(params) or ''} {_slots(slots)}" for k, (op, params, slots) in self._numbered()]
        heading = ", ".join(f"in{k}: {a}" for k, a in enumerate(self.in_avals))
        return "\n".join([f"program({heading}):", *lines, f"  return {_slots(self.out_slots)}"])

    @property
    def is_nested(self) -> bool:
        """Whether an instruction holds a program of its own."""
        return self.weight > len(self.instructions)

    def aval(self, slot: int) -> Any:
        """The aval in a slot: an instruction's result (a tuple if it has several) or an input."""
        return self.avals[slot] if slot >= 0 else self.in_avals[~slot]

    def _numbered(self) -> Iterable[tuple[int, tuple]]:
        return enumerate(self.instructions)

    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the instructions on JAX values (arrays, tracers, NumPy scalars), under whatever JAX trace is current."""
        env: list[Any] = []
        step = stepping.get()
        for op, params, slots in self.instructions:
            try:
                given = [env[s] if s >= 0 else inputs[~s] for s in slots]
                if step is None:
                    env.append(op.lower(params, given))
                else:
                    env.append(step(op, params, given, [self.aval(s) for s in slots], self.avals[len(env)]))
            except Exception as error:
                error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program's, in the end
                raise
        return [env[s] if s >= 0 else inputs[~s] for s in self.out_slots]

    def rebuild(self, inputs: Sequence[Node]) -> list[Node]:
        """Apply the instructions to nodes, as if the user's Python had run again; avals may differ from `in_avals`."""
        env: list[Node] = []
        for op, params, slots in self.instructions:
            env.append(apply(op, tuple([env[s] if s >= 0 else inputs[~s] for s in slots]), params))
        return [env[s] if s >= 0 else inputs[~s] for s in self.out_slots]


def programs_in(params: tuple) -> list[Program]:
    """The Programs among the params of an op, and in tuples among them."""
    found: list[Program] = []
    for p in params:
        if isinstance(p, Program):
            found.append(p)
        elif type(p) is tuple and p and isinstance(p[0], Program):
            found += p
    return found


def _slots(slots: Iterable[int]) -> str:
    return ", ".join(f"%{s}" if s >= 0 else f"in{~s}" for s in slots)
