"""Dependence analysis: which inputs and slots each result of a Program depends on.

Results of an op with several outputs are told apart. Suppose that only the gradient of a `value_and_grad` node is
differentiated again. Slots that only the value depends on then have no cotangent, rather than a zero one. The rule of a
custom function is therefore not run for them: it need not be linear, so a zero cotangent could give a nonzero gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.node import ITEM, Node
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import DEPENDS

from ..calls import CALL, CHECKPOINT, PURE_CALL, smooth_inputs

__all__ = ["dependent_slots", "reached_inputs", "reached_slots", "read_by"]


@analysis
def dependent_slots(program: Program, primals: int) -> set[int]:
    """Return the slots that depend differentiably on the first `primals` inputs. Unlike `active_slots`, integers
    count, too."""
    dependent = {~k for k in range(primals)}
    for slot in range(len(program.instructions)):
        if not dependent.isdisjoint(_reads(program, slot, False)):
            dependent.add(slot)
    return dependent


def reached_slots(program: Program, outputs: Iterable[int], behind_stops: bool = False) -> set[int]:
    """Return the slots that the given outputs depend on, including the outputs' own slots.

    Args:
        behind_stops: whether to follow inputs that have no derivative, too.
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
                # mark the op, but do not follow all its inputs: `_reads` follows those of this result
                reached.add(slots[0])
            pending += _reads(program, slot, behind_stops)
    return reached


@analysis
def reached_inputs(program: Program, outputs: frozenset[int], behind_stops: bool = False) -> frozenset[int]:
    """Return the inputs that the given outputs depend on; see `reached_slots`."""
    return frozenset([~s for s in reached_slots(program, outputs, behind_stops) if s < 0])


def _reads(program: Program, slot: int, behind_stops: bool) -> list[int]:
    """Return the slots that a slot's value is computed from."""
    op, params, slots = program.instructions[slot]
    result = None
    if op is ITEM and slots[0] >= 0:
        (result,) = params
        op, params, slots = program.instructions[slots[0]]
    dependencies = None if result is None or op not in DEPENDS else DEPENDS[op](params, result, behind_stops)
    kept = range(len(slots)) if behind_stops else range(len(slots))[smooth_inputs(op, params)]
    return [slots[k] for k in kept if dependencies is None or k in dependencies]


def read_by(node: Node) -> Sequence[Node]:
    """Return the nodes that a pending node is computed from. For one result of an op with several, only this result
    counts."""
    if node.op is ITEM and node.inputs[0].value is None:
        op, params, inputs = node.inputs[0].op, node.inputs[0].params, node.inputs[0].inputs
        dependencies = DEPENDS[op](params, node.params[0], True) if op in DEPENDS else None
        if dependencies is not None:
            return [inputs[k] for k in dependencies]
    return node.inputs[node.op.reads]


@DEPENDS.of(CALL, PURE_CALL, CHECKPOINT)
def _inputs_of_call(params: tuple, result: int, behind_stops: bool) -> frozenset[int]:
    return reached_inputs(params[0], frozenset([result]), behind_stops)


@DEPENDS.of(TUPLE)
def _inputs_of_tuple(params: tuple, result: int, behind_stops: bool) -> frozenset[int]:
    return frozenset([result])
