"""Batched Programs: a Program with one more axis, made by the BATCH rules of its ops. NumPy runs `vmap` this way.

The new axis comes first in all arrays. Each batched Program is made once and cached with its original. The BATCH rules
of the transforms are also here. They rely on this: entries of a batch are independent, so the derivative of a batch is
the batch of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, aval, number
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import BATCH, HOST
from mxcompat._graph.run.interpret import NoRule
from mxcompat._ops.batching import all_batched, broadcast_unbatched
from mxcompat._ops.define import TABLE

from ..calls import CALL, CHECKPOINT, PURE_CALL
from ..custom.ops import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP
from ..transform_ops import JVP, VJP, VMAP
from .split import PULL

__all__ = ["Mapped", "batched", "mapped", "value_on_host"]


class Batched(NamedTuple):
    """A Program with a new first axis.

    Args:
        program: its inputs are those of the original Program, then the captured nodes.
        captured: the nodes of numbers and constants that the BATCH rules added.
        flags: which outputs have the new axis.
    """

    program: Program
    captured: list[Node]
    flags: tuple[bool, ...]


class Mapped(NamedTuple):
    """The Program that a `vmap` node runs, with the mapped axes where the user asked for them.

    Args:
        program: its inputs are those of the node, then the captured nodes.
        captured: the nodes that the BATCH rules added.
        values: the values of the captured nodes, for NumPy.
    """

    program: Program
    captured: list[Node]
    values: list[Any]


@analysis
def batched(program: Program, flags: tuple[bool, ...], size: int) -> Batched | None:
    """Batch a Program over a new first axis of the flagged inputs (at least one); all outputs get the axis. Return None
    if an op has no BATCH rule."""
    return _attempt(over_axis, program, flags, size, True)


@analysis
def mapped(program: Program, in_axes: tuple, out_axes: tuple, size: int) -> Mapped | None:
    """Return the Program that a `vmap` node with these params runs. Return None if an op has no BATCH rule, or if an
    output with out-axis None varies along the mapped axis."""
    return _attempt(_mapped, program, in_axes, out_axes, size)


def _attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except NoRule:
        return None


def over_axis(program: Program, flags: Sequence[bool], size: int, spread: bool = False) -> Batched:
    """Batch a Program over a new first axis of the flagged inputs.

    Args:
        spread: whether outputs that do not depend on the flagged inputs get the axis, too.

    Raises:
        NoRule: if an op whose operands have the axis has no BATCH rule.
    """
    with Capture(
        [_with_axis(a, 0, size) if on else a for a, on in zip(program.in_avals, flags, strict=True)]
    ) as capture:
        flagged_outputs = _rebuilt(program, capture.placeholders, flags, size, capture.id)
        outs = [node if on or not spread else broadcast_unbatched(node, size) for node, on in flagged_outputs]
        body = capture.close(outs)
    return Batched(body.program, body.captured, tuple([on or spread for _, on in flagged_outputs]))


def _rebuilt(
    program: Program, inputs: Sequence[Node], flags: Sequence[bool], size: int, trace: int
) -> list[tuple[Node, bool]]:
    """Apply all instructions to the inputs. Return each output, and whether it has the new axis."""
    env: dict[int, tuple[Node, bool]] = {~k: (n, on) for k, (n, on) in enumerate(zip(inputs, flags, strict=True))}
    for slot, (op, params, slots) in enumerate(program.instructions):
        nodes = tuple([env[s][0] for s in slots])
        on = tuple([env[s][1] for s in slots])
        if op is ITEM or not any(on):
            node = apply(op, nodes, params)
            if not nodes:
                node.trace = trace  # otherwise the capture would count the node as an outside value
            env[slot] = node, any(on)
            continue
        rule = BATCH.get(op)
        node = rule(op, params, nodes, on, size) if rule is not None else None
        if node is None:
            raise NoRule(f"[{op}] has no rule for an axis more of {[n.aval for n in nodes]}")
        if node.aval != _all_with_axis(program.avals[slot], size):
            raise NoRule(f"[{op}] gives {node.aval} over an axis of {size}, not {program.avals[slot]} each")
        env[slot] = node, True
    return [env[s] for s in program.out_slots]


def _mapped(program: Program, in_axes: tuple, out_axes: tuple, size: int) -> Mapped:
    avals = [
        a if axis is None else _with_axis(a, axis, size) for a, axis in zip(program.in_avals, in_axes, strict=True)
    ]
    with Capture(avals) as capture:
        inputs = [
            n if axis is None else _moved_axis(n, axis, 0)
            for n, axis in zip(capture.placeholders, in_axes, strict=True)
        ]
        outs = []
        flagged_outputs = _rebuilt(program, inputs, [axis is not None for axis in in_axes], size, capture.id)
        for (node, on), axis in zip(flagged_outputs, out_axes, strict=True):
            if axis is None and on:
                raise NoRule("[vmap] an output that has the axis is to have none")
            outs.append(node if axis is None else _moved_axis(node if on else broadcast_unbatched(node, size), 0, axis))
        body = capture.close(outs)
    return Mapped(body.program, body.captured, [value_on_host(n) for n in body.captured])


def value_on_host(node: Node) -> Any:
    """Return the value of a captured node as a NumPy array or scalar."""
    if node.op is SCALAR:
        return number(node.value, node.aval.dtype)
    if node.value is not None:
        return np.asarray(node.value)
    rule = HOST.get(node.op)  # type: ignore[arg-type]
    result = rule(node.aval, node.params, *[value_on_host(n) for n in node.inputs]) if rule is not None else None
    if result is None:
        raise NoRule(f"[{node.op}] has no host rule")
    return result


def _with_axis(a: Aval, axis: int, size: int) -> Aval:
    return aval((*a.shape[:axis], size, *a.shape[axis:]), a.dtype)


def _all_with_axis(avals: Any, size: int) -> Any:
    if isinstance(avals, tuple):
        return tuple([_all_with_axis(a, size) for a in avals])
    return _with_axis(avals, 0, size)


def _moved_axis(node: Node, source: int, target: int) -> Node:
    source %= node.aval.ndim
    if source == target:
        return node
    order = [k for k in range(node.aval.ndim) if k != source]
    order.insert(target, source)
    return apply(TABLE["transpose"], (node,), (tuple(order),))


@BATCH.of(CALL, PURE_CALL, CHECKPOINT)
def _call(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    program, *others = params
    body = batched(program, flags, size)
    if body is None:
        return None
    return apply(op, (*inputs, *body.captured), (body.program, *others))


@BATCH.of(VMAP)
def _vmap(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    body = mapped(*params)
    if body is None:
        return None
    return _call(CALL, (body.program,), (*inputs, *body.captured), (*flags, *[False] * len(body.captured)), size)


@BATCH.of(TUPLE)
def _tuple(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node:
    return apply(op, tuple(all_batched(inputs, flags, size)))


@BATCH.of(VJP, PULL)
def _vjp(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    program, primals, outputs = params
    count = len(program.in_avals)
    every = (*[True] * primals, *flags[primals:count])
    body = batched(program, every, size) if any(every) else None
    if body is None:
        return None
    points = all_batched(inputs[:primals], flags[:primals], size)
    cotangents = [
        _raised(c, y.ndim) if on else c  # an unbatched cotangent broadcasts without new axes
        for c, on, y in zip(inputs[count:], flags[count:], program.out_avals, strict=False)
    ]
    operands = (*points, *inputs[primals:count], *body.captured, *cotangents)
    return apply(op, operands, (body.program, primals, outputs))


def _raised(node: Node, ndim: int) -> Node:
    """Insert axes of size 1 after the batch axis, up to `ndim` axes besides it."""
    missing = ndim + 1 - node.aval.ndim
    if missing <= 0:
        return node
    size, *rest = node.aval.shape
    return apply(TABLE["reshape"], (node,), ((size, *[1] * missing, *rest),))


@BATCH.of(JVP)
def _jvp(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    program, primals, outputs = params
    count = len(program.in_avals)
    every = (*[True] * primals, *flags[primals:count])
    body = batched(program, every, size) if any(every) else None
    if body is None:
        return None
    points = all_batched(inputs[:primals], flags[:primals], size)
    tangents = all_batched(inputs[count:], flags[count:], size)
    operands = (*points, *inputs[primals:count], *body.captured, *tangents)
    return apply(op, operands, (body.program, primals, outputs))


@BATCH.of(CUSTOM_VJP, CUSTOM_JVP)
def _ruled(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    program, rule, count, *active = params
    end = len(program.in_avals)
    captured, extra = flags[count:end], flags[end:]
    own = batched(program, (*[True] * count, *captured), size)
    rules = batched(rule, (*[True] * (len(rule.in_avals) - len(extra)), *extra), size)
    if not count or own is None or rules is None:
        return None
    args = all_batched(inputs[:count], flags[:count], size)
    operands = (*args, *inputs[count:end], *own.captured, *inputs[end:], *rules.captured)
    return apply(op, operands, (own.program, rules.program, count, *active))


@BATCH.of(CUSTOM_VMAP)
def _custom_vmap(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    program, rule, count, in_axes, out_axes = params
    if any(flags[count:]) or any(on and axis is None for on, axis in zip(flags, in_axes, strict=False)):
        return None  # the user's rule was traced for other mapped arguments
    args = [
        n if axis is None else _moved_axis(n if has else broadcast_unbatched(n, size), 0, axis)
        for n, axis, has in zip(inputs, in_axes, flags, strict=False)
    ]
    operands = (*args, *inputs[len(program.in_avals) :])
    if rule.in_avals != tuple([n.aval for n in operands]):
        return None
    outs = items(apply(CALL, operands, (rule,)))
    pairs = zip(outs, out_axes, strict=True)
    return apply(TUPLE, tuple([broadcast_unbatched(n, size) if k is None else _moved_axis(n, k, 0) for n, k in pairs]))
