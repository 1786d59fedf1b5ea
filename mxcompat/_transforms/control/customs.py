"""Calls of custom functions inside loop and branch bodies, which may run many times or never.

Elsewhere a derivative is cut at these calls (`custom/eager_vjp`). Here it cannot be, because the number of calls is
unknown. So the rule for the innermost enclosing transform runs at once, on placeholders without values. The call
becomes a node that holds the rule's Program. Derivatives of higher order differentiate the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.capture import Body, Capture, Promise
from mxcompat._graph.ir.linearize import Subgraph
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.trace_stack import transforms_of

from ..calls import holds_custom, without_custom_rules
from ..custom.derive import CUSTOM
from ..custom.ops import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP
from ..custom.user_rules import UserCall, batching_rule, forward_rule, reverse_rule

__all__ = ["close_specialized", "modes_around"]

Modes = tuple[tuple[str, int], ...]
"""The modes of the enclosing transforms, innermost first, each with the size of its mapped axis."""


def modes_around(nodes: Sequence[Node]) -> Modes:
    """Return the modes of the current transforms on whose arguments these nodes may depend."""
    return tuple([(capture.mode, capture.size) for capture in transforms_of(nodes)])


def close_specialized(capture: Capture, outputs: Sequence[Node], modes: Modes) -> Body:
    """Close a body, and rewrite its calls of custom functions for these transforms."""
    if not modes:
        capture.mode = "plain"
        return capture.close(outputs)
    body = capture.close(outputs, derive=partial(_specialize_calls, modes))
    while holds_custom(body.program):  # the Program inside a rewritten call may hold further calls
        body = capture.close(outputs, derive=partial(_specialize_calls, modes))
    return body


def _specialize_calls(modes: Modes, capture: Capture, subgraph: Subgraph, body: Body) -> bool:
    """Rewrite the calls of custom functions in a body. Return True if there were any."""
    has_rewritten = False
    for node in subgraph.order:
        if node.op is CUSTOM:
            _rewrite(node, modes)
            has_rewritten = True
        elif node.params and isinstance(node.params[0], Program) and holds_custom(node.params[0]):
            node.rewrite(TUPLE, (), tuple(node.params[0].rebuild(node.inputs)))
            has_rewritten = True
    return has_rewritten


def _rewrite(node: Node, modes: Modes) -> None:
    program, call = node.params
    rule = _rule(call, program, modes) if modes else None
    if rule is None:
        node.rewrite(*without_custom_rules(CUSTOM, node.params, node.inputs))  # type: ignore[arg-type]
        return
    mode = modes[0][0]
    if mode == "vmap":
        body, out_axes = rule
        first = (0,) * call.count
        node.rewrite(CUSTOM_VMAP, (program, body.program, call.count, first, out_axes), (*node.inputs, *body.captured))
        return
    _, (program, count), inputs = without_custom_rules(CUSTOM, node.params, node.inputs)
    specialized, captured = _specialized_rule(rule, modes[1:])
    if mode == "vjp":
        node.rewrite(CUSTOM_VJP, (program, specialized, count), (*inputs, *captured))
    else:
        node.rewrite(CUSTOM_JVP, (program, specialized, count, (True,) * count), (*inputs, *captured))


def _rule(call: UserCall, program: Program, modes: Modes) -> Any:
    """Run the rule for the innermost transform, or return None if the function has none."""
    (mode, size), outer = modes[0], modes[1:]
    if getattr(call.function, f"_{mode}") is None:
        return None
    args, outs = program.in_avals[: call.count], program.out_avals
    within = "call" if outer else "plain"
    if mode == "vjp":
        return reverse_rule(call, _promises(*args, *outs, *outs), within)
    if mode == "jvp":
        return forward_rule(call, _promises(*args, *args), (True,) * call.count, outs, within)
    every = [aval((size, *a.shape), a.dtype) for a in args]
    return batching_rule(call, program, _promises(*every), (0,) * call.count, size)


def _promises(*avals: Aval) -> list[Promise]:
    return [Promise(a, _no_value) for a in avals]


def _no_value() -> NoReturn:
    raise ValueError(
        "[custom_function] Within a loop or a branch that is compiled, rules cannot read values: they are run once, "
        "not at every step."
    )


def _specialized_rule(body: Body, modes: Modes) -> tuple[Program, Sequence[Node]]:
    """Return the Program of a rule, with its own calls rewritten for the outer transforms, and its captured nodes."""
    if not modes:
        return body.program, body.captured
    count = len(body.program.in_avals) - len(body.captured)
    with Capture(body.program.in_avals[:count]) as capture:
        outs = body.program.rebuild([*capture.placeholders, *body.captured])
        closed = close_specialized(capture, outs, modes)
    return closed.program, closed.captured
