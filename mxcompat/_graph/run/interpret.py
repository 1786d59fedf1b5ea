"""Interpret a Program in NumPy, op by op. Its derivatives are `differentiate`'s.

What is seen for the first time costs XLA, and JAX's tracing before it, a thousand times what it costs NumPy. Here rules
are looked up (`ir.rules`) and called, nothing else: no tracing, no compiler. What has no rule is left to a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import COVERED, HOST, Rules
from ..ir.structure import Structure

__all__ = ["Fallback", "NoRule", "can_interpret", "covered", "interpret", "no_fallback", "run_instructions"]

Fallback = Callable[[Op, Any, tuple, Sequence[Any]], Any]
"""`fallback(op, out, params, inputs)` runs one op in another way."""


class NoRule(Exception):
    """An op has no rule for these inputs, and there is no other way to run it."""


def no_fallback(op: Op, out: Any, params: tuple, inputs: Sequence[Any]) -> Any:
    raise NoRule(f"[{op}] has no host rule for {[getattr(x, 'dtype', type(x)) for x in inputs]}")


def interpret(program: Program, inputs: Sequence[Any], fallback: Fallback = no_fallback) -> list[Any]:
    """The outputs of a Program, for inputs that are NumPy arrays (or scalars)."""
    env = run_instructions(program, inputs, fallback)
    return [env[s] if s >= 0 else inputs[~s] for s in program.out_slots]


def run_instructions(
    program: Program | Structure, inputs: Sequence[Any], fallback: Fallback, uses: list[int] | None = None
) -> list[Any]:
    """The results of all instructions.

    Args:
        uses: how often each result is read; what has been read as often is dropped. None: nothing is.
    """
    env: list[Any] = []
    avals = program.avals
    for op, params, slots in program.instructions:
        if op is ITEM:
            env.append(env[slots[0]][params[0]] if slots[0] >= 0 else inputs[~slots[0]][params[0]])
            continue
        given = [env[s] if s >= 0 else inputs[~s] for s in slots]
        try:
            out = avals[len(env)]
            rule = HOST.get(op)
            result = rule(out, params, *given) if rule is not None else None
            if result is None:
                result = fallback(op, out, params, given)
        except Exception as error:
            error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program's, in the end
            raise
        env.append(result)
        if uses is not None:
            for s in slots:
                if s >= 0:
                    uses[s] -= 1
                    if not uses[s]:
                        env[s] = None
    return env


def can_interpret(program: Program) -> bool:
    """Whether every op of a Program has a host rule, to any depth; for some inputs a rule may still give None."""
    if "interpretable" not in program.facts:
        program.facts["interpretable"] = all(
            op is ITEM or covered(HOST, op, params, ()) for op, params, _ in program.instructions
        )
    return program.facts["interpretable"]


def covered(kind: Rules, op: Op, params: tuple, wanted: tuple[bool, ...]) -> bool:
    """Whether an op has a rule of a kind that reaches through the Programs which it runs."""
    inner = COVERED.get(op)
    return op in kind and (inner is None or inner(kind, params, wanted))
