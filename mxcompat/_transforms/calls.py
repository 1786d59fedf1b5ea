"""Ops that run a Program as one instruction of another (`compile`, `checkpoint`, custom functions without a rule)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import Node, apply, apply_as
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Code, Program
from mxcompat._graph.ir.rules import BODY, EFFECT, FAILURE, SPECIALIZE
from mxcompat._graph.run.failures import OF_CALLED
from mxcompat._jax import jax
from mxcompat._ops.define import TABLE

__all__ = [
    "CALL", "CHECKPOINT", "PURE_CALL", "has_effects", "holds_custom", "is_effectful", "pure", "run", "smooth_inputs",
    "without_custom_rules",
]  # fmt: skip


def pure(program: Program, args: Sequence[Any], captured: Sequence[Any]) -> tuple:
    """Run a Program with its captured inputs as constants: they get no gradient."""
    return tuple(program.replay([*args, *[jax.lax.stop_gradient(c) for c in captured]]))


def run(program: Program, inputs: tuple[Node, ...]) -> Node:
    """Make the node that runs a Program; the inputs must have the Program's avals."""
    return apply_as(CALL, inputs, (program,), program.out_avals)


def _out_avals(*_: Any, program: Program, count: int = 0) -> tuple:
    return program.out_avals


def holds_custom(program: Program) -> bool:
    """Return True if the Program has custom functions or effects that the enclosing transform has yet to rewrite."""
    return program.code.specialized


def has_effects(program: Program) -> bool:
    """Return True if the Program, or a Program inside it, has effects (ops that run alone: collectives)."""
    return _has_effects(program.code)


@analysis
def _has_effects(code: Code) -> bool:
    return any(is_effectful(op, params) for op, params, _ in code.instructions)


def is_effectful(op: Op, params: tuple) -> bool:
    """Return True if an instruction is an effect, or runs a Program with effects in it."""
    return op in EFFECT or any(isinstance(p, Program) and has_effects(p) for p in params)


def smooth_inputs(op: Op, params: tuple) -> slice:
    """Return the inputs of an op that may have a derivative, as a slice."""
    if op in SPECIALIZE and op is not CALL:
        return slice(params[1] if isinstance(params[1], int) else params[1].count)
    return op.smooth


def without_custom_rules(op: Op, params: tuple, inputs: tuple[Node, ...]) -> tuple[Op, tuple, tuple[Node, ...]]:
    """Turn a call into one whose custom functions use no custom rules."""
    program, count = params[0], smooth_inputs(op, params).stop
    if holds_custom(program):
        with Capture(program.in_avals, mode="plain") as capture:
            body = capture.close(program.rebuild(capture.placeholders))
        program, inputs = body.program, (*inputs, *body.captured)
    return CHECKPOINT if op is CHECKPOINT else PURE_CALL, (program, count), inputs


def _open_call(node: Node, capture: Capture) -> bool:
    """Inline a call, so that the enclosing transform can rewrite the custom functions in its Program."""
    program = node.params[0]
    opens = capture.mode != "call" and holds_custom(program)
    if opens:
        node.rewrite(TUPLE, (), tuple(program.rebuild(node.inputs)))
    return opens


def _reclose(node: Node, capture: Capture) -> bool:
    """Rewrite the custom functions inside a node's Program for `vmap` and for plain code. For derivatives,
    `custom.derive` rewrites them."""
    program, count = node.params
    if capture.mode == "vmap" and has_effects(program):
        others = [apply(TABLE["stop_gradient"], (n,)) for n in node.inputs[count:]]
        node.rewrite(TUPLE, (), tuple(program.rebuild((*node.inputs[:count], *others))))
        return True
    recloses = capture.mode in ("vmap", "plain") and holds_custom(program)
    if recloses:
        with Capture(program.in_avals, mode=capture.mode, size=capture.size) as inner:
            body = inner.close(program.rebuild(inner.placeholders))
        node.rewrite(node.op, (body.program, count), (*node.inputs, *body.captured))  # type: ignore[arg-type]
    return recloses


CALL = Op(
    "call",
    lambda *inputs, program: tuple(program.replay(inputs)),
    _out_avals,
    ("program",),
)
"""The op that runs a Program (`compile`)."""

PURE_CALL = Op(
    "pure_call",
    lambda *inputs, program, count: pure(program, inputs[:count], inputs[count:]),
    _out_avals,
    ("program", "count"),
)
"""The op that runs a Program of which only the first `count` inputs have gradients (custom functions without a
rule)."""

CHECKPOINT = Op(
    "checkpoint",
    lambda *inputs, program, count: jax.checkpoint(lambda *xs: pure(program, xs[:count], xs[count:]))(*inputs),
    _out_avals,
    ("program", "count"),
)
"""The op that runs a Program as PURE_CALL does, and whose derivative recomputes the intermediates (`checkpoint`)."""

BODY[CALL] = BODY[PURE_CALL] = BODY[CHECKPOINT] = lambda params: params[0]
FAILURE[CALL] = FAILURE[PURE_CALL] = FAILURE[CHECKPOINT] = OF_CALLED
SPECIALIZE[CALL] = _open_call
SPECIALIZE[PURE_CALL] = SPECIALIZE[CHECKPOINT] = _reclose
