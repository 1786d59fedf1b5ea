"""Failures: what MLX refuses once it sees the values, a singular matrix, say. Compiled code cannot raise an error.

The executable of a Program with ops that may fail, see `rules.FAILURE`, has one result more: the code of each of these,
0 where nothing failed. It is looked at before anybody has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._jax import jnp

from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import BODY, FAILURE

__all__ = ["checked", "codes", "may_fail", "messages", "replay"]


def may_fail(program: Program) -> bool:
    """Whether an executable of the Program has codes. With data on several devices it has none: each process would have
    to wait for the others to read them."""
    return program.placement is None and bool(messages(program))


def replay(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a Program on JAX values, and after them the codes, a vector of int32."""
    outputs, found = _run(program, inputs)
    return [*outputs, jnp.stack([*map(_first, found)])]


def checked(program: Program, call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The call of an executable, with the error of the first op that failed. Its codes are not among the results."""
    if not may_fail(program):
        return call
    said = messages(program)

    def checking(*arguments: Any) -> list[Any]:
        *values, found = call(*arguments)
        for message, code in zip(said, np.asarray(found).tolist(), strict=True):
            if code:
                raise RuntimeError(f"{message} {code}")
        return values

    return checking


def messages(program: Program) -> tuple[str, ...]:
    """What to say of each op that may fail, those in nested programs included, before its code."""
    facts = program.code.facts
    if "failures" not in facts:
        facts["failures"] = tuple([m for op, params, _ in program.instructions for m in _messages(op, params)])
    return facts["failures"]


def codes(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The codes in the order of the messages. Each is an array: an op may have many matrices."""
    return _run(program, inputs[: len(program.in_avals)])[1]


def _messages(op: Op, params: tuple) -> tuple[str, ...]:
    if op in FAILURE:
        return FAILURE[op].messages(params)
    return messages(BODY[op](params)) if op in BODY else ()


def _run(program: Program, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The outputs, and the codes. A nested program is run again for its codes; XLA computes once what is the same."""
    failing = [(op, params, slots) for op, params, slots in program.instructions if _messages(op, params)]
    read = tuple([slot for _, _, slots in failing for slot in slots])
    values = Program(program.code, program.in_avals, (*program.out_slots, *read), program.avals).replay(inputs)
    outputs, rest = values[: len(program.out_slots)], iter(values[len(program.out_slots) :])
    found: list[Any] = []
    for op, params, slots in failing:
        given = [next(rest) for _ in slots]
        found += FAILURE[op].codes(params, *given) if op in FAILURE else codes(BODY[op](params), given)
    return outputs, found


def _first(found: Any) -> Any:
    """The first that is not 0, if there is one."""
    found = jnp.ravel(found)
    return found[jnp.argmax(found != 0)] if found.size else jnp.int32(0)
