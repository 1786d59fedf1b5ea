"""Cut a Program at some of its instructions, so that the pieces become separate nodes of the graph.

An effect (a collective) runs alone and is never part of compiled code. So a node whose Program has effects is
replaced by nodes for the effects and for the parts between them. The sweeps of `custom/eager_vjp.py` cut at the calls
of custom functions in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.node import ITEM, Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import EFFECT, EFFECT_BATCH
from mxcompat._graph.run.failures import fails, may_fail
from mxcompat._ops.batching import broadcast_unbatched
from mxcompat._ops.define import TABLE

from ..calls import CALL, has_effects, is_effectful, run, smooth_inputs
from ..transform_ops import VMAP
from .split import Segment, segments

__all__ = ["called", "mapped_over", "parts", "run_in_parts"]


def run_in_parts(program: Program, inputs: tuple[Node, ...]) -> list[Node]:
    """Return the outputs of a Program; the inputs must have its avals. A Program with effects runs in parts.
    Instructions that may fail run separately, so that their failure does not affect the other outputs."""
    if has_effects(program):
        return items(_parted(program, inputs, len(inputs)))
    separate = _fallible_segments(program) if may_fail(program) else None
    if separate is None:
        return items(run(program, inputs))
    env: dict[int, Node] = {~k: n for k, n in enumerate(inputs)}
    for segment in separate:
        env.update(zip(segment.outputs, items(_of_segment(segment, env)), strict=True))
    return [env[s] for s in program.out_slots]


def _of_segment(segment: Segment, env: dict[int, Node]) -> Node:
    return run(segment.program, (*[env[s] for s in segment.inputs], *segment.captured))


@analysis
def _fallible_segments(program: Program) -> list[Segment] | None:
    """Return two segments: the instructions that cannot fail, and the rest. Return None if all outputs may fail, or if
    the Program cannot be cut that way."""
    failing: set[int] = set()
    for k, (op, params, slots) in enumerate(program.instructions):
        if not failing.isdisjoint(slots) or fails(op, params):
            failing.add(k)
    if failing.issuperset(program.out_slots):
        return None
    halves = [[k for k in range(len(program.instructions)) if (k in failing) is late] for late in (False, True)]
    return segments(program, halves, lambda slot: False)


def called(op: Op, params: tuple, inputs: tuple[Node, ...]) -> Node:
    """Make the node of an op that runs a Program and gives gradients to only some of its inputs. A Program with effects
    runs in parts."""
    program, count, *_ = params
    return _parted(program, inputs, count) if has_effects(program) else apply(op, inputs, params)


def _parted(program: Program, inputs: tuple[Node, ...], count: int) -> Node:
    env: dict[int, Node] = {~k: n for k, n in enumerate(inputs)}
    env |= {~k: apply(TABLE["stop_gradient"], (n,)) for k, n in enumerate(inputs) if k >= count}
    for part, segment in _cut(program):
        op, params, slots = program.instructions[part[0]]
        if is_effectful(op, params):
            _place(program, part, items(_alone(op, params, tuple([env[s] for s in slots]))), env)
        else:
            env.update(zip(segment.outputs, items(_of_segment(segment, env)), strict=True))
    return apply(TUPLE, tuple([env[s] for s in program.out_slots]))


def _alone(op: Op, params: tuple, inputs: tuple[Node, ...]) -> Node:
    if op in EFFECT or any(n.trace for n in inputs):
        return apply(op, inputs, params)
    return _parted(params[0], inputs, len(inputs) if op is CALL else smooth_inputs(op, params).stop)


def _place(program: Program, part: Sequence[int], results: Sequence[Node], env: dict[int, Any]) -> None:
    """Store the results of a part's first op in the slots of the part's other instructions, which select them."""
    for slot in part[1:]:
        env[slot] = results[program.instructions[slot][1][0]]


@analysis
def _cut(program: Program) -> list[tuple[list[int], Segment]]:
    """Cut a Program into its effects and the parts between them."""
    effects = {k for k, (op, params, _) in enumerate(program.instructions) if is_effectful(op, params)}
    pieces = parts(program, effects)
    cut = segments(program, pieces, lambda slot: False)
    assert cut is not None, "the results of an op that has several are in its part"
    return list(zip(pieces, cut, strict=True))


def mapped_over(
    program: Program, inputs: Sequence[Node], in_axes: tuple[int | None, ...], out_axes: tuple[int | None, ...],
    size: int,
) -> Node:  # fmt: skip
    """Return the node for `vmap` of a Program with effects; the Program runs in parts."""
    env: dict[int, tuple[Node, bool]] = {
        ~k: (n if axis is None else _moved_axis(n, axis, 0), axis is not None)
        for k, (n, axis) in enumerate(zip(inputs, in_axes, strict=True))
    }
    for part, segment in _cut(program):
        op, params, slots = program.instructions[part[0]]
        effectful = is_effectful(op, params)
        reads = slots if effectful else segment.inputs
        operands, flags = tuple([env[s][0] for s in reads]), tuple([env[s][1] for s in reads])
        if not effectful:
            node = _segment_over_axis(segment, operands, flags, size)
            new_values = zip(segment.outputs, items(node), strict=True)
        else:
            results = (
                EFFECT_BATCH[op](params, operands, flags, size) if any(flags) else items(apply(op, operands, params))
            )
            new_values = [(s, results[program.instructions[s][1][0]]) for s in part[1:]]
        env.update({slot: (result, any(flags)) for slot, result in new_values})
    outputs = []
    for slot, axis in zip(program.out_slots, out_axes, strict=True):
        node, on = env[slot]
        outputs.append(_moved_axis(node if on else broadcast_unbatched(node, size), 0, axis or 0))
    return apply(TUPLE, tuple(outputs))


def _segment_over_axis(segment: Segment, operands: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node:
    inputs = (*operands, *segment.captured)
    if not any(flags):
        return run(segment.program, inputs)
    axes = (*[0 if on else None for on in flags], *[None] * len(segment.captured))
    return apply(VMAP, inputs, (segment.program, axes, (0,) * len(segment.outputs), size))


def _moved_axis(node: Node, source: int, target: int) -> Node:
    if source == target:
        return node
    order = [k for k in range(node.aval.ndim) if k != source]
    order.insert(target, source)
    return apply(TABLE["transpose"], (node,), (tuple(order),))


def parts(program: Program, alone: set[int]) -> list[list[int]]:
    """Return the slots of each part: one part for each slot in `alone` with the selections of its results, and parts
    for the slots between."""
    kinds: dict[int, int] = {}
    for slot, (op, _, slots) in enumerate(program.instructions):
        kinds[slot] = slot if slot in alone else kinds[slots[0]] if op is ITEM and slots[0] >= 0 else -1
    return [list(part) for _, part in groupby(_in_order(program), kinds.__getitem__)]


def _in_order(program: Program) -> list[int]:
    """Return the slots in MLX's order of graph traversal: depth first, first inputs first. The results of an op with
    several follow it directly."""
    instructions = program.instructions
    results: dict[int, list[int]] = {}
    for slot, (op, _, slots) in enumerate(instructions):
        if op is ITEM and slots[0] >= 0:
            results.setdefault(slots[0], []).append(slot)
    order: dict[int, None] = {}
    stack = [s for s in reversed(program.out_slots) if s >= 0]
    while stack:
        slot = stack[-1]
        waiting = [s for s in instructions[slot][2] if s >= 0 and s not in order] if slot not in order else []
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if slot not in order:
            order.update(dict.fromkeys((slot, *results.get(slot, ()))))
    return [*order]
