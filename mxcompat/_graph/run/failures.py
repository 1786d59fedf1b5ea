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
from ..ir.program import Program, replaying
from ..ir.rules import FAILURE, Failure

__all__ = ["OF_CALLED", "beside", "checked", "fails", "first", "may_fail", "messages", "replay", "run"]


def may_fail(program: Program) -> bool:
    """Whether an executable of the Program has codes. With data on several devices it has none: each process would have
    to wait for the others to read them."""
    return program.placement is None and bool(messages(program))


def replay(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a Program on JAX values, and after them the codes, a vector of int32."""
    outputs, codes = run(program, inputs)
    return [*outputs, jnp.stack([*map(first, codes)])]


def checked(program: Program, call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The call of an executable, with the error of the first op that failed. Its codes are not among the results."""
    if not may_fail(program):
        return call
    said = messages(program)

    def checking(*arguments: Any) -> list[Any]:
        *values, codes = call(*arguments)
        for message, code in zip(said, np.asarray(codes).tolist(), strict=True):
            if code:
                raise RuntimeError(f"{message} {code}")
        return values

    return checking


def messages(program: Program) -> tuple[str, ...]:
    """What to say of each op that may fail, those in nested programs included, before its code."""
    facts = program.code.facts
    if "failures" not in facts:
        facts["failures"] = tuple([m for op, params, _ in program.instructions for m in _of(op).messages(params)])
    return facts["failures"]


def fails(op: Op, params: tuple) -> bool:
    """Whether an instruction may fail, by itself or in a program that it runs."""
    return bool(_of(op).messages(params))


def run(program: Program, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The outputs of a Program on JAX values, and the codes in the order of the messages. Each of these is an array: an
    op may have many matrices."""
    codes: list[Any] = []

    def step(op: Op, params: tuple, given: list[Any], avals: list[Any], out: Any) -> Any:
        with replaying(None):
            if not fails(op, params):
                return op.lower(params, given)
            result, found = FAILURE[op].run(params, given)
        codes.extend(found)
        return result

    with replaying(step):
        return program.replay(inputs), codes


def _outputs_and_codes(params: tuple, inputs: Sequence[Any]) -> tuple[tuple, list[Any]]:
    outputs, codes = run(params[0], inputs)
    return tuple(outputs), codes


OF_CALLED = Failure(lambda params: messages(params[0]), _outputs_and_codes)
"""The rule of an op that runs the Program which is its first param, once, on all its inputs."""


def beside(op: Op) -> Failure:
    """The rule of an op that does more with the Program which is its first param: that is run for its codes as well, on
    the first inputs. XLA computes once what is the same."""

    def result_and_codes(params: tuple, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
        program = params[0]
        return op.lower(params, inputs), run(program, inputs[: len(program.in_avals)])[1]

    return Failure(lambda params: messages(params[0]), result_and_codes)


_NONE = Failure(lambda params: (), lambda params, inputs: (None, []))


def _of(op: Op) -> Failure:
    return FAILURE.get(op, _NONE)


def first(codes: Any) -> Any:
    """The first that is not 0, if there is one."""
    codes = jnp.ravel(codes)
    return codes[jnp.argmax(codes != 0)] if codes.size else jnp.int32(0)
