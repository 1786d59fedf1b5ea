"""Interpret a Program in NumPy, op by op. Its derivatives are `differentiate`'s.

What is seen for the first time costs XLA, and JAX's tracing before it, a thousand times what it costs NumPy. Here rules
are looked up (`ir.rules`) and called, nothing else: no tracing, no compiler. What has no rule is left to a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import COVERED, HOST, OVERWRITE, Rules
from ..ir.structure import Structure
from .interrupts import uninterrupted

__all__ = [
    "Fallback", "NoRule", "can_interpret", "covered", "interpret", "no_fallback", "run_instructions", "run_once",
]  # fmt: skip

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


def run_instructions(program: Program | Structure, inputs: Sequence[Any], fallback: Fallback) -> list[Any]:
    """The results of all instructions."""
    env: list[Any] = []
    avals = program.avals
    for op, params, slots in program.instructions:
        if op is ITEM:
            env.append(env[slots[0]][params[0]] if slots[0] >= 0 else inputs[~slots[0]][params[0]])
            continue
        given = [env[s] if s >= 0 else inputs[~s] for s in slots]
        try:
            env.append(_result(op, avals[len(env)], params, given, fallback))
        except Exception as error:
            error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program's, in the end
            raise
    return env


def _result(op: Op, out: Any, params: tuple, given: list[Any], fallback: Fallback) -> Any:
    rule = HOST.get(op)
    result = rule(out, params, *given) if rule is not None else None
    return fallback(op, out, params, given) if result is None else result


def run_once(
    structure: Structure, inputs: list[Any], fallback: Fallback, kept: Sequence[int], free: set[int], env: list[Any]
) -> None:
    """Add the results of all instructions to `env`. What has been read by all its readers is dropped, and what an op
    writes over is written over, if it is then read for the last time.

    Args:
        kept: the slots of results that are not dropped.
        free: the slots (~k) of inputs that may be written over; slots of what they become are added. If something fails
            after that, `env` holds all that is needed to go on from there.
    """
    uses = [*structure.uses, *reversed(structure.leaf_uses)]  # leaf k is at ~k, counted from the end
    for s in kept:
        uses[s] += 1
    for (op, params, slots), out in zip(structure.instructions, structure.avals, strict=True):
        given = [env[s] if s >= 0 else inputs[~s] for s in slots]
        try:
            if op is ITEM:
                env.append(given[0][params[0]])
            elif op in OVERWRITE and _is_last(uses, slots[0], free) and _is_own(given, slots[0]):
                _overwrite(op, out, params, given, slots[0], free, env)
            else:
                env.append(_result(op, out, params, given, fallback))
        except Exception as error:
            error.mxcompat_slot = len(env)  # type: ignore[attr-defined]
            raise
        for s in slots:
            uses[s] -= 1
            if not uses[s] and s >= 0:
                env[s] = None


def _is_last(uses: Sequence[int], slot: int, free: set[int]) -> bool:
    """Whether what is read now is read for the last time, and may be written over then."""
    return uses[slot] == 1 and (slot >= 0 or slot in free)


def _is_own(given: list[Any], slot: int) -> bool:
    """Whether the first of these arrays, and the memory of it, belongs to this slot alone."""
    if type(given[0]) is not np.ndarray or given[0].base is not None or not given[0].flags.writeable:
        return False
    return getrefcount(given[0]) == _GIVEN + (1 if slot >= 0 else 2)  # in `env`, or in `inputs` and as a node's value


_GIVEN = (lambda given: getrefcount(given[0]))([np.empty(1)])


def _overwrite(
    op: Op, out: Any, params: tuple, given: list[Any], slot: int, free: set[int], env: list[Any]
) -> None:
    if slot in free:  # an input, whose node must not be left with half of the new value
        free.add(len(env))
        uninterrupted(lambda: env.append(OVERWRITE[op](out, params, *given)))
    else:
        env.append(OVERWRITE[op](out, params, *given))


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
