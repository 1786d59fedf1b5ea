"""NumPy's rules for ops that run a Program on their first inputs: calls, custom functions and `vmap`.

These ops differ in which inputs have gradients, and in whether a rule of the user replaces a derivative. The rules of
`vjp` and `jvp` are in `host_derivatives`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph.ir.aval import Aval, number
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import (
    CALLS,
    COST,
    HOST,
    PULLBACK,
    PUSHFORWARD,
    READS_INPUTS,
    READS_NOTHING,
    RESIDUALS,
    SUPPORTS,
    Rules,
)
from mxcompat._graph.run.differentiate import (
    can_pull_back,
    can_push_forward,
    pull_back,
    push_forward,
    spread,
)
from mxcompat._graph.run.host import estimated_seconds
from mxcompat._graph.run.interpret import (
    NoRule,
    can_interpret,
    interpret,
)

from .calls import CALL, CHECKPOINT, PURE_CALL
from .custom.derive import CUSTOM
from .custom.ops import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP
from .programs.batching import mapped
from .second_order import decompositions  # noqa: F401  registers its rules
from .second_order.gradients import inlined, inlined_forward, replayed, zeros
from .second_order.symbolic_rules import FORWARD, RULES
from .tracing import CONSTANT
from .transform_ops import VMAP

__all__ = ["Inner", "priced", "rules_of"]


class Inner(NamedTuple):
    """The Program that an op runs on its first inputs.

    Args:
        program: the Program.
        values: constants, which are the Program's last inputs.
        smooth: the number of inputs that have gradients.
    """

    program: Program
    values: Sequence[Any]
    smooth: int


def _first_param(params: tuple) -> Inner:
    return Inner(params[0], (), len(params[0].in_avals))


def _counted(at: int) -> Callable[[tuple], Inner]:
    """Make the rule of an op whose param at index `at` is the number of inputs with gradients."""
    return lambda params: Inner(params[0], (), params[at])


def _over_axis(params: tuple) -> Inner | None:
    batched = mapped(*params)
    return None if batched is None else Inner(batched.program, batched.values, len(params[0].in_avals))


_INNER: dict[Op, Callable[[tuple], Inner | None]] = {
    CALL: _first_param,
    CUSTOM: _first_param,
    CUSTOM_VMAP: _first_param,
    PURE_CALL: _counted(1),
    CHECKPOINT: _counted(1),
    CUSTOM_VJP: _counted(2),
    CUSTOM_JVP: _counted(2),
    VMAP: _over_axis,
}


def rules_of(inner_of: Callable[[tuple], Inner | None]) -> tuple[Callable[..., Any], ...]:
    """Make the rules of ops that run a Program: HOST, PULLBACK, PUSHFORWARD, SUPPORTS, and the symbolic RULES and
    FORWARD."""

    def cast(inner: Inner, inputs: Sequence[Any]) -> list[Any]:
        avals = inner.program.in_avals  # `inputs` may be shorter, because the avals of `values` come last
        return [
            x if x.dtype is a.dtype._numpy and x.shape == a.shape else spread(x, a)
            for x, a in zip(inputs, avals, strict=False)
        ]

    def program_inputs(inner: Inner, inputs: Sequence[Any]) -> list[Any]:
        return [*cast(inner, inputs), *inner.values]

    def host(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple | None:
        inner = inner_of(params)
        if inner is None or not can_interpret(inner.program):
            return None
        try:
            return tuple(interpret(inner.program, program_inputs(inner, inputs)))
        except NoRule:
            return None

    def pull(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple | None:
        inner = inner_of(params)
        if inner is None:
            return None
        primals = _true_places(needs_grad[: inner.smooth])
        if not primals:
            return (None,) * len(inputs)
        _, gradients = pull_back(inner.program, primals, program_inputs(inner, inputs), g)
        return _placed(primals, gradients, len(inputs))

    def push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> list[Any] | None:
        inner = inner_of(params)
        if inner is None:
            return None
        primals = _true_places([t is not None for t in tangents[: inner.smooth]])
        return push_forward(inner.program, primals, program_inputs(inner, inputs), [tangents[k] for k in primals])[1]

    def supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
        inner = inner_of(params)
        if inner is None:
            return False
        if kind is HOST:
            return can_interpret(inner.program)
        primals = _true_places(needs_grad[: inner.smooth])
        return (can_pull_back if kind is PULLBACK else can_push_forward)(inner.program, primals)

    def symbolic(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple | None:
        inner = inner_of(params)
        if inner is None:
            return None
        primals = _true_places(needs_grad[: inner.smooth])
        return _placed(primals, inlined(inner.program, inner.values, primals, g, cast(inner, inputs)), len(inputs))

    def symbolic_push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> list[Any] | None:
        inner = inner_of(params)
        if inner is None:
            return None
        moved = [t if k < inner.smooth else None for k, t in enumerate(tangents)]
        return inlined_forward(inner.program, inner.values, moved, cast(inner, inputs))

    return host, pull, push, supports, symbolic, symbolic_push


def _true_places(flags: Sequence[bool]) -> tuple[int, ...]:
    return tuple([k for k, on in enumerate(flags) if on])


def _placed(places: Sequence[int], values: Sequence[Any], count: int) -> tuple:
    result = [None] * count
    for k, value in zip(places, values, strict=True):
        result[k] = value
    return tuple(result)


CALLS.update(op for op in _INNER if op is not VMAP)
for _op, _inner in _INNER.items():
    HOST[_op], PULLBACK[_op], PUSHFORWARD[_op], SUPPORTS[_op], RULES[_op], FORWARD[_op] = rules_of(_inner)
    RESIDUALS[_op] = READS_INPUTS  # the derivative runs the Program again, so it does not read the result


def _pullback_by_rule(run: Callable[..., list[Any]], nothing: Callable[[Any], Any]) -> Callable[..., tuple]:
    """Make the pullback that runs the user's rule. The rule takes and returns conjugated cotangents, as MLX defines
    them.

    Args:
        run: runs a Program.
        nothing: makes zeros like an array.
    """

    def pull(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple:
        program, rule, count = params
        cotangents = [nothing(o) if c is None else np.conj(c) for c, o in zip(g, y, strict=True)]
        gradients = run(rule, [*inputs[:count], *cotangents, *y, *inputs[len(program.in_avals) :]])
        smooth = [np.conj(c.astype(x.dtype)) for c, x, on in zip(gradients, inputs, needs_grad, strict=False) if on]
        return _placed(_true_places(needs_grad[: len(gradients)]), smooth, len(inputs))

    return pull


def _custom_push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> list[Any]:
    """Push tangents with the user's rule."""
    program, rule, count, active = params
    in_tangents = [
        np.zeros(x.shape, x.dtype) if t is None else t
        for t, x, on in zip(tangents, inputs, active, strict=False) if on
    ]  # fmt: skip
    out_tangents = interpret(rule, [*inputs[:count], *in_tangents, *inputs[len(program.in_avals) :]])
    return [t if a.dtype._kind in "fc" else None for t, a in zip(out_tangents, program.out_avals, strict=True)]


def _ruled(op: Op, kind: Rules, rule: Callable[..., Any]) -> None:
    """Use the user's rule for one kind of derivative; the other kind differentiates the function itself."""
    kind[op] = rule
    if kind is PULLBACK:
        RESIDUALS.pop(op)
    by_default = SUPPORTS[op]

    def supports(asked: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
        if asked is kind:
            return can_interpret(params[0]) and can_interpret(params[1])
        return by_default(asked, params, needs_grad)

    SUPPORTS[op] = supports


_ruled(CUSTOM_VJP, PULLBACK, _pullback_by_rule(interpret, np.zeros_like))
_ruled(CUSTOM_JVP, PUSHFORWARD, _custom_push)
RULES[CUSTOM_VJP] = _pullback_by_rule(replayed, lambda x: zeros(x, x))
RESIDUALS[TUPLE] = READS_NOTHING
for _kind in (PULLBACK, RULES, FORWARD):
    del _kind[CUSTOM_JVP]  # the op has no host rules for this: reverse mode would have to transpose the user's rule


@HOST.of(TUPLE)
def _tuple(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple:
    return inputs


@PULLBACK.of(TUPLE)
@RULES.of(TUPLE)
def _tuple_pull(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple:
    return g


@PUSHFORWARD.of(TUPLE)
@FORWARD.of(TUPLE)
def _tuple_push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> Sequence[Any]:
    return tangents


@HOST.of(CONSTANT)
def _constant(out: Aval, params: tuple) -> Any:
    return number(*params)


def priced(times: float) -> Callable[..., float]:
    """Return a cost rule for ops that run a Program: the estimated seconds of its instructions, multiplied by `times`.
    A derivative takes several times as long as the Program."""
    return lambda out, params, *avals: times * estimated_seconds(params[0])


@COST.of(VMAP)
def _mapped_seconds(out: tuple[Aval, ...], params: tuple, *avals: Any) -> float:
    batched = mapped(*params)
    return estimated_seconds(params[0] if batched is None else batched.program)


COST.update(dict.fromkeys((CALL, CUSTOM, CUSTOM_VMAP, CUSTOM_VJP, CUSTOM_JVP, PURE_CALL, CHECKPOINT), priced(1.0)))
