"""Failures: errors that depend on values, for example a singular matrix. Compiled code cannot raise an error.

The executable of a Program with ops that may fail (`rules.FAILURE`) has one more result: a vector with the code of each
such op, 0 for success. It is checked before the other results are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._jax import jnp

from ..ir.analyses import analysis
from ..ir.op import Op
from ..ir.program import Code, Program, replaying
from ..ir.rules import FAILURE, Failure

__all__ = ["OF_CALLED", "beside", "checked", "fails", "first", "may_fail", "messages", "replay", "run"]


def may_fail(program: Program) -> bool:
    """Return True if an executable of the Program returns codes. With data on several devices it returns none, because
    each process would have to wait for the others to read them."""
    return program.placement is None and bool(messages(program))


def replay(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a Program on JAX values, followed by the codes, a vector of int32."""
    outputs, codes = run(program, inputs)
    return [*outputs, jnp.stack([*map(first, codes)])]


def checked(program: Program, call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Wrap the call of an executable: raise the error of the first op that failed, and drop the codes from the
    results."""
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
    """Return the error message, without its code, of each op that may fail, also in nested programs."""
    return _messages(program.code)


@analysis
def _messages(code: Code) -> tuple[str, ...]:
    return tuple([m for op, params, _ in code.instructions for m in _of(op).messages(params)])


def fails(op: Op, params: tuple) -> bool:
    """Return True if an instruction may fail, itself or in a nested program."""
    return bool(_of(op).messages(params))


def run(program: Program, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a Program on JAX values, and the codes in the order of the messages. The codes of an op are
    an array with one element for each matrix."""
    codes: list[Any] = []

    def interpret(op: Op, params: tuple, operands: list[Any], avals: list[Any], out: Any) -> Any:
        with replaying(None):
            if not fails(op, params):
                return op.lower(params, operands)
            result, op_codes = FAILURE[op].run(params, operands)
        codes.extend(op_codes)
        return result

    with replaying(interpret):
        return program.replay(inputs), codes


def _outputs_and_codes(params: tuple, inputs: Sequence[Any]) -> tuple[tuple, list[Any]]:
    outputs, codes = run(params[0], inputs)
    return tuple(outputs), codes


OF_CALLED = Failure(lambda params: messages(params[0]), _outputs_and_codes)
"""The rule of an op that runs its first param, a Program, once and returns its outputs."""


def beside(op: Op) -> Failure:
    """Return the rule of an op that transforms its first param, a Program.

    For the codes, the rule also runs the Program on the first inputs. XLA merges the common subexpressions.
    """

    def result_and_codes(params: tuple, inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
        program = params[0]
        return op.lower(params, inputs), run(program, inputs[: len(program.in_avals)])[1]

    return Failure(lambda params: messages(params[0]), result_and_codes)


_NONE = Failure(lambda params: (), lambda params, inputs: (None, []))


def _of(op: Op) -> Failure:
    return FAILURE.get(op, _NONE)


def first(codes: Any) -> Any:
    """Return the first code that is not 0, or 0 if there is none."""
    codes = jnp.ravel(codes)
    return codes[jnp.argmax(codes != 0)] if codes.size else jnp.int32(0)
