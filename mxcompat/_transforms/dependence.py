"""What results of a Program depend on: each result of an op that has several by itself.

The derivative of a node that computes a value and its gradient is asked for the gradient alone, say. What only the
value depends on has no cotangent then, rather than one that is zero: rules of custom functions, which need not be
linear in theirs, are not to be asked about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mxcompat._graph.ir.node import ITEM, Node
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import DEPENDS

from .calls import CALL, CHECKPOINT, PURE_CALL, smooth_inputs

__all__ = ["active_slots", "reached_inputs", "reached_slots", "read_by"]


def active_slots(program: Program, primals: int) -> set[int]:
    """The slots that depend on the first inputs in a way that has a derivative."""
    key = ("depends on", primals)  # "active" is another question, of `run.differentiate`
    if key not in program.facts:
        active = {~k for k in range(primals)}
        for slot in range(len(program.instructions)):
            if not active.isdisjoint(_reads(program, slot, False)):
                active.add(slot)
        program.facts[key] = active
    return program.facts[key]


def reached_slots(program: Program, outputs: Iterable[int], behind_stops: bool = False) -> set[int]:
    """The slots that some outputs depend on, these included.

    Args:
        behind_stops: whether also in a way that has no derivative.
    """
    reached: set[int] = set()
    pending = [program.out_slots[k] for k in outputs]
    while pending:
        slot = pending.pop()
        if slot in reached:
            continue
        reached.add(slot)
        if slot >= 0:
            op, _, slots = program.instructions[slot]
            if op is ITEM:
                reached.add(slots[0])  # which other results of it are is another question
            pending += _reads(program, slot, behind_stops)
    return reached


def reached_inputs(program: Program, outputs: frozenset[int], behind_stops: bool = False) -> frozenset[int]:
    """Which inputs some outputs depend on; see `reached_slots`."""
    key = ("reached", outputs, behind_stops)
    if key not in program.facts:
        program.facts[key] = frozenset([~s for s in reached_slots(program, outputs, behind_stops) if s < 0])
    return program.facts[key]


def _reads(program: Program, slot: int, behind_stops: bool) -> list[int]:
    """The slots that a result is computed from."""
    op, params, slots = program.instructions[slot]
    result = None
    if op is ITEM and slots[0] >= 0:
        (result,) = params
        op, params, slots = program.instructions[slots[0]]
    found = None if result is None or op not in DEPENDS else DEPENDS[op](params, result, behind_stops)
    kept = range(len(slots)) if behind_stops else range(len(slots))[smooth_inputs(op, params)]
    return [slots[k] for k in kept if found is None or k in found]


def read_by(node: Node) -> Sequence[Node]:
    """The nodes that a pending node is computed from: of a result of an op with several, what that one is."""
    if node.op is ITEM and node.inputs[0].value is None:
        op, params, inputs = node.inputs[0].op, node.inputs[0].params, node.inputs[0].inputs
        found = DEPENDS[op](params, node.params[0], True) if op in DEPENDS else None
        if found is not None:
            return [inputs[k] for k in found]
    return node.inputs[node.op.reads]


@DEPENDS.of(CALL, PURE_CALL, CHECKPOINT)
def _of_call(params: tuple, result: int, behind_stops: bool) -> frozenset[int]:
    return reached_inputs(params[0], frozenset([result]), behind_stops)


@DEPENDS.of(TUPLE)
def _of_tuple(params: tuple, result: int, behind_stops: bool) -> frozenset[int]:
    return frozenset([result])
