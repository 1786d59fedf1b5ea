"""Rewrite calls of custom functions for the transform that closes over them.

First the user's rules run on promises of their arguments. If no rule reads a value, each call becomes a node that holds
the Program of its rule. The cache key is then structural, even if the function is defined afresh at every step. If a
rule reads a value, or if another transform encloses this one, the derivative is computed in parts (`eager_vjp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.capture import Body, Capture, Derive, Promise
from mxcompat._graph.ir.linearize import Subgraph
from mxcompat._graph.ir.node import Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Code, Program
from mxcompat._graph.ir.rules import EFFECT, EFFECT_PULLBACK, EFFECT_PUSHFORWARD, FAILURE, SEGMENTS, SPECIALIZE
from mxcompat._graph.run.failures import OF_CALLED

from ..calls import CALL, CHECKPOINT, PURE_CALL, has_effects, holds_custom, smooth_inputs, without_custom_rules
from ..derivative_dtypes.mixed_forward import pushed
from ..programs.split import zeros
from ..transform_ops import VJP, VMAP
from .eager_vjp import Forward, Reverse, Rule
from .ops import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP
from .user_rules import batching_rule, forward_rule, reverse_rule

__all__ = ["CUSTOM", "pulled_back", "pushed_forward"]

CUSTOM = Op(
    "custom_function",
    lambda *inputs, program, call: tuple(program.replay(inputs)),
    lambda *_, program, call: program.out_avals,
    ("program", "call"),
    uncacheable=True,
)
"""A call of a custom function that no transform has rewritten yet."""

FAILURE[CUSTOM] = OF_CALLED


def _specialize(node: Node, capture: Capture) -> bool:
    """Rewrite a call for the transform whose capture is being closed. Return False if the call stays as it is for now:
    it is rewritten later, together with the other calls of the body."""
    program, call = node.params
    active = tuple([n.trace >= capture.id for n in node.inputs[: call.count]])
    if capture.mode == "call" or (capture.mode in ("vjp", "jvp") and capture.is_enclosed):
        return False
    if capture.mode == "plain" or (capture.mode != "vmap" and not any(active)):
        node.rewrite(*without_custom_rules(node.op, node.params, node.inputs))  # type: ignore[arg-type]
        return True
    ruled = getattr(call.function, f"_{capture.mode}") is not None and any(active)
    if capture.mode == "vmap":
        node.rewrite(*(_batched(node, capture, active) if ruled else (CALL, (program,), node.inputs)))
        return True
    if not ruled:
        node.rewrite(PURE_CALL, (program, call.count), node.inputs)
    return not ruled


SPECIALIZE[CUSTOM] = _specialize


@SEGMENTS.of(CUSTOM)
def _values(node: Node) -> list[Node]:
    """Return the results of a call outside any transform, where the rules are not needed."""
    op, params, inputs = without_custom_rules(CUSTOM, node.params, node.inputs)
    return items(apply(op, inputs, params))


def _batched(node: Node, capture: Capture, active: tuple[bool, ...]) -> tuple[Op, tuple, tuple[Node, ...]]:
    program, call = node.params
    own = node.inputs[: call.count]
    in_axes = tuple([_place(n, capture) if on else None for n, on in zip(own, active, strict=True)])
    inputs = [n if axis is None else _over_axis(n, axis, capture) for n, axis in zip(own, in_axes, strict=True)]
    body, out_axes = batching_rule(call, program, inputs, in_axes, capture.size)
    return CUSTOM_VMAP, (program, body.program, call.count, in_axes, out_axes), (*node.inputs, *body.captured)


def _place(node: Node, capture: Capture) -> int:
    """Return the mapped axis of a node in a mapped body: the user's axis for an argument, and 0 for other nodes."""
    if capture.mapped is None or node not in capture.placeholders:
        return 0
    return capture.mapped[1][capture.placeholders.index(node)]


def _over_axis(node: Node, axis: int, capture: Capture) -> Promise | Aval:
    """Return the aval of a node over the mapped axis, or a promise of its value."""
    shape = node.aval.shape
    mapped = aval((*shape[:axis], capture.size, *shape[axis:]), node.aval.dtype)
    if capture.mapped is None:
        return mapped
    reals, axes = capture.mapped

    def find() -> Node:
        body = capture.close([node])
        in_axes = (*axes, *[None] * len(body.captured))
        return items(apply(VMAP, (*reals, *body.captured), (body.program, in_axes, (axis,), capture.size)))[0]

    return Promise(mapped, find)


def pulled_back(primals: Sequence[Node], cotangents: Sequence[Node]) -> Derive:
    """Return the callback that rewrites the custom functions in the body of a vjp when the body is closed. `cotangents`
    are those of the first outputs."""
    return partial(_derived, Reverse, primals, cotangents, len(cotangents))


def pushed_forward(primals: Sequence[Node], tangents: Sequence[Node], outputs: int) -> Derive:
    """Return the callback that rewrites the custom functions in the body of a jvp when the body is closed. `tangents`
    are those of the placeholders, and the first `outputs` outputs get tangents."""
    return partial(_derived, Forward, primals, tangents, outputs)


def _derived(
    kind: type[Reverse] | type[Forward], primals: Sequence[Node], seeds: Sequence[Node], outputs: int,
    capture: Capture, subgraph: Subgraph, body: Body,
) -> Node | bool:  # fmt: skip
    calls = _calls(body.program)
    if not calls:
        return False
    sweep = kind(capture, body, primals, seeds, calls)
    for call in calls:
        node = subgraph.order[call]
        if node.op in EFFECT and node.value is not None:
            sweep.take_values(call, node.value)
    reached = sweep.reached(outputs)
    ruled = sweep.ruled(reached)
    for call in ruled if kind is Forward else reversed(ruled):
        sweep.take_rule(call, _rule(sweep, call, subgraph.order[call]))
    integers = bool(ruled) and sweep.passes_integers(reached)  # JAX's custom rules do not support integers
    effectful = has_effects(body.program) or any(has_effects(rule.program) for rule in sweep.rules.values())
    if capture.is_enclosed or sweep.has_read or integers or effectful or sweep.mixes_dtypes:
        return sweep.derived(outputs)
    for call in calls:
        _rewrite(subgraph.order[call], sweep, sweep.rules.get(call))
    return True


def _calls(program: Program) -> set[int]:
    """Return the slots of custom calls, of effects, and of checkpoints and pure calls that contain custom calls."""
    return _calls_in_code(program.code)


@analysis
def _calls_in_code(code: Code) -> set[int]:
    return {
        k
        for k, (op, params, _) in enumerate(code.instructions)
        if op is CUSTOM or op in EFFECT or (op in (PURE_CALL, CHECKPOINT) and holds_custom(params[0]))
    }


def _rule(sweep: Reverse | Forward, call: int, node: Node) -> Rule:
    """Run the rule of a call."""
    reverse = isinstance(sweep, Reverse)
    if node.op in EFFECT:
        return _effect_rule(sweep, call, node)
    program, count = node.params[0], smooth_inputs(node.op, node.params).stop  # type: ignore[arg-type]
    inputs = sweep.inputs(call)
    arguments = [*sweep.cotangents(call), *sweep.results(call)] if reverse else sweep.tangents(call)
    active = sweep.active_inputs(call)
    if node.op is not CUSTOM or getattr(node.params[1].function, "_vjp" if reverse else "_jvp") is None:
        return _nested(sweep, program, count, inputs, arguments, active, node.inputs)
    promises = [*inputs[:count], *arguments]
    if reverse:
        body = reverse_rule(node.params[1], promises, sweep.mode)
    else:
        body = forward_rule(node.params[1], promises, active, program.out_avals, sweep.mode)
    return Rule(body.program, body.captured, count, active)


def _effect_rule(sweep: Reverse | Forward, call: int, node: Node) -> Rule:
    """Trace the derivative of an effect, as the rule of its call."""
    reverse = isinstance(sweep, Reverse)
    count, outputs = len(node.inputs), len(node.aval)
    arguments = [*sweep.cotangents(call), *sweep.results(call)] if reverse else sweep.tangents(call)
    with Capture([*sweep.inputs(call), *arguments], mode=sweep.mode) as capture:
        inputs, moving = capture.placeholders[:count], capture.placeholders[count:]
        derivatives = (
            EFFECT_PULLBACK[node.op](node.params, inputs, moving[:outputs])  # type: ignore[index]
            if reverse
            else EFFECT_PUSHFORWARD[node.op](node.params, inputs, moving)  # type: ignore[index]
        )
        body = capture.close(derivatives)
    return Rule(body.program, body.captured, count, sweep.active_inputs(call))


def _nested(
    sweep: Reverse | Forward, program: Program, count: int, inputs: Sequence[Promise], arguments: Sequence[Promise],
    active: tuple[bool, ...], nodes: Sequence[Node],
) -> Rule:  # fmt: skip
    """Make the rule of an op whose Program contains calls: the derivative of that Program."""
    with Capture([*inputs, *arguments], mode=sweep.mode) as capture:
        placeholders = capture.placeholders
        primals, others, moving = placeholders[:count], placeholders[count : len(inputs)], placeholders[len(inputs) :]
        outputs = len(program.out_avals)
        if isinstance(sweep, Reverse):
            mode, moving = "vjp", moving[:outputs]
            derive = pulled_back(primals, moving)
        else:
            following = iter(moving)
            moving = [next(following) if on else zeros(p.aval) for p, on in zip(primals, active, strict=True)]
            mode, derive = "jvp", pushed_forward(primals, moving, outputs)
        with Capture(primals, mode=mode) as inner:
            within = inner.close(program.rebuild((*inner.placeholders, *others)), derive=derive)
        derived = within.derived
        arguments = (*primals, *within.captured)
        if derived is not None:
            sweep.has_read = True
        elif mode == "vjp":
            derived = apply(VJP, (*arguments, *moving), (within.program, count, outputs))
        else:
            derived = pushed(within.program, arguments, moving, outputs)
        body = capture.close(items(derived, outputs))
    real = dict(zip(placeholders, nodes, strict=False))
    captured = [real.get(n, n) for n in within.captured]
    return Rule(body.program, body.captured, len(inputs), active, (within.program, captured))


def _rewrite(node: Node, sweep: Reverse | Forward, rule: Rule | None) -> None:
    """Store the rule in the node of a call. Without a rule, the node becomes a plain call."""
    if rule is not None and rule.within is not None:
        (program, captured), count = rule.within, node.params[1]
        node.rewrite(node.op, (program, count), (*node.inputs[:count], *captured))  # type: ignore[arg-type]
        return
    op, (program, count), inputs = without_custom_rules(node.op, node.params, node.inputs)  # type: ignore[arg-type]
    if rule is None:
        node.rewrite(op, (program, count), inputs)
    elif isinstance(sweep, Reverse):
        node.rewrite(CUSTOM_VJP, (program, rule.program, count), (*inputs, *rule.captured))
    else:
        params = program, rule.program, count, rule.active
        node.rewrite(CUSTOM_JVP, params, (*inputs, *rule.captured))
