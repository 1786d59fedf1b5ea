"""Interpret a Program in NumPy, op by op. `differentiate` computes its derivatives.

For a new structure, tracing in JAX and compiling in XLA cost a thousand times as much as one run in NumPy. This module
only looks rules up (`ir.rules`) and calls them. An op without a rule goes to a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import policy
from ..ir import buffers
from ..ir.analyses import analysis
from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Code, Program
from ..ir.rules import CALLS, HOST, SUPPORTS, Rules
from . import chains
from .allocation import largest_result
from .reuse import drop, last_uses, overwrite, reused

__all__ = [
    "CallFrame", "Fallback", "NoRule", "can_interpret", "counts", "environment", "interpret", "no_fallback",
    "run_instructions", "supports",
]  # fmt: skip


Fallback = Callable[[Op, Any, tuple, Sequence[Any]], Any]
"""`fallback(op, out, params, inputs)` runs an op that has no rule."""


class NoRule(Exception):
    """An op has no rule for these inputs, and no fallback can run it."""


def no_fallback(op: Op, out: Any, params: tuple, inputs: Sequence[Any]) -> Any:
    raise NoRule(f"[{op}] has no host rule for {[getattr(x, 'dtype', type(x)) for x in inputs]}")


class CallFrame(NamedTuple):
    """The unfinished call of a nested Program: the Program and its environment, which holds the inputs of the call."""

    program: Program
    env: list[Any]


def interpret(program: Program, inputs: Sequence[Any], fallback: Fallback = no_fallback) -> list[Any]:
    """Return the outputs of a Program for inputs that are NumPy arrays or scalars."""
    env = environment(program, inputs)
    run_instructions(program, env, fallback, set() if counts(program) else None)
    return [env[s] for s in program.out_slots]


def environment(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Return the initial environment, a list of values by slot: None for each result, then the inputs in reverse order,
    so that slot ~k is input k."""
    return [*[None] * len(program.instructions), *reversed(inputs)]


def run_instructions(
    program: Program, env: list[Any], fallback: Fallback, free: set[int] | None = None,
    kept: frozenset[int] = frozenset(), mine: frozenset[int] = frozenset(),
) -> None:  # fmt: skip
    """Store the results of all instructions in an environment.

    Args:
        free: the ids of the values of nodes that may be overwritten; this call adds the ids of their bases. Values are
            dropped after their last use, and an op may overwrite an operand at its last use. After a failure, `env`
            holds all values that are needed to continue. With None, all values are kept, and none counts as memory in
            use.
        kept: slots whose values are never dropped.
        mine: the slots of inputs that are not the values of nodes, and may be overwritten, too.
    """
    if free is None:
        _run_and_keep(program, env, fallback)
        return
    counted = counts(program)
    least = 0 if counted else policy.CACHED_BYTES
    in_c = chains.chains(program, kept) if counted else None
    chain = order = None
    entries = zip(program.instructions, program.avals, *last_uses(program, kept), strict=True)
    for k, ((op, params, slots), out, places, dropped) in enumerate(entries):
        if in_c:
            if k in in_c:
                chain, order = in_c[k], chains.memory_order(in_c[k], program, env)
            if chain is not None and order is not None and k in chain.slots:
                if k == chain.last:
                    chains.run(chain, order, program, env, free, mine)
                continue
        inputs = [env[s] for s in slots]
        try:
            place = reused(out, slots, places, inputs, free, mine) if places and out.nbytes >= least else None
            if op is ITEM:
                env[k] = inputs[0][params[0]]
            elif op in CALLS and _runs_in_frame(params[0], inputs, free):
                _run_in_frame(params[0], env, k, inputs, slots, dropped, fallback, free, mine)
            elif place is not None:
                overwrite(op, out, params, place, inputs, slots, free, env, k)
            else:
                env[k] = _result(op, out, params, inputs, fallback)
        except Exception as error:
            error.mxcompat_slot = k  # type: ignore[attr-defined]  # the outermost program sets it last
            raise
        if counted and op is not ITEM:  # an ITEM shares its buffer with the op with several results, which counted it
            buffers.track_temporary(env[k])
        drop(env, dropped, inputs, free, mine)


def _runs_in_frame(program: Program, inputs: Sequence[Any], free: set[int]) -> bool:
    """Return True if a call of a Program should run its instructions with reuse of memory. It should if it has large
    results, or an input that may be overwritten, and if the inputs have the Program's shapes and dtypes."""
    return (counts(program) or any(id(x) in free for x in inputs)) and all(
        x.shape == a.shape and x.dtype == a.dtype._numpy for x, a in zip(inputs, program.in_avals, strict=False)
    )


def _run_in_frame(
    program: Program, env: list[Any], k: int, inputs: list[Any], slots: Sequence[int], dropped: Sequence[int],
    fallback: Fallback, free: set[int], mine: frozenset[int],
) -> None:  # fmt: skip
    """Store the results of a call in slot k. Values whose last use is the call are moved into the call's environment,
    so that its ops may overwrite them. Until the call is done, slot k holds this environment."""
    arguments = slots[: len(program.in_avals)]
    env[k] = frame = CallFrame(program, environment(program, inputs[: len(arguments)]))
    inputs.clear()
    for s in dropped:
        if s in arguments:
            env[s] = None
    own = frozenset([~i for i, s in enumerate(arguments) if s >= 0 or s in mine])
    run_instructions(program, frame.env, fallback, free, mine=own)
    env[k] = tuple([frame.env[s] for s in program.out_slots])


def counts(program: Program) -> bool:
    """Return True if a result is so large that its buffer counts as memory in use."""
    return largest_result(program) >= buffers.smallest


def _run_and_keep(program: Program, env: list[Any], fallback: Fallback) -> None:
    k = 0
    try:
        for k, ((op, params, slots), out) in enumerate(zip(program.instructions, program.avals)):  # noqa: B905
            rule = HOST.get(op)
            if rule is not None:
                result = rule(out, params, *[env[s] for s in slots])
                if result is not None:
                    env[k] = result
                    continue
            inputs = [env[s] for s in slots]
            env[k] = inputs[0][params[0]] if op is ITEM else fallback(op, out, params, inputs)
    except Exception as error:
        error.mxcompat_slot = k  # type: ignore[attr-defined]
        raise


def _result(op: Op, out: Any, params: tuple, inputs: list[Any], fallback: Fallback) -> Any:
    rule = HOST.get(op)
    result = rule(out, params, *inputs) if rule is not None else None
    return fallback(op, out, params, inputs) if result is None else result


def can_interpret(program: Program) -> bool:
    """Return True if every op of a Program, and of nested Programs, has a host rule. For some inputs a rule may still
    return None."""
    return _can_interpret_code(program.code)


@analysis
def _can_interpret_code(code: Code) -> bool:
    return all(op is ITEM or supports(HOST, op, params, ()) for op, params, _ in code.instructions)


def supports(kind: Rules, op: Op, params: tuple, needs_grad: tuple[bool, ...]) -> bool:
    """Return True if an op, and all ops of its nested Programs, have a rule of this kind."""
    inner = SUPPORTS.get(op)
    return op in kind and (inner is None or inner(kind, params, needs_grad))
