"""Rebuild a Program for inputs of other shapes, for `compile(shapeless=True)` and for exported functions.

Most ops infer their results for any shape. An op that runs a Program needs that Program rebuilt for its new shapes, to
any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import BATCH
from mxcompat._ops.batching import batched_elementwise
from mxcompat._ops.elementwise.casts import VIEW
from mxcompat._ops.indexing.gather import GATHER, SLICE
from mxcompat._ops.movement.arrange import BROADCAST_TO

from ..calls import CALL, CHECKPOINT, PURE_CALL
from ..custom.derive import CUSTOM
from ..custom.ops import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP
from ..derivative_dtypes.mixed_forward import MIXED_PUSH
from ..derivative_dtypes.mixed_reverse import MIXED_PULL
from ..transform_ops import JVP, VJP, VMAP
from .split import PULL

__all__ = ["ADAPTED", "reshaped", "respecialize"]


def reshaped(
    program: Program, avals: Sequence[Aval], captured: Sequence[Node] = (), *, fused: bool = False
) -> tuple[Program, list[Node]]:
    """Return the Program for inputs of these avals, and the captured nodes, which are its last inputs.

    Args:
        program: the Program for inputs of other shapes.
        captured: the nodes for its last inputs, whose shapes stay the same.
        fused: whether to drop the broadcasts of elementwise operands that the trace recorded. The other operands then
            decide the shape of the result.
    """
    with Capture(avals) as capture:
        body = capture.close(_Rebuilt(program, [*capture.placeholders, *captured], fused).outputs())
    return body.program, body.captured


class _Rebuilt:
    """The nodes of a Program for other inputs.

    If `fused`, broadcasts are delayed. `narrow` holds the slots whose node has yet to be broadcast, with the avals of
    these unbroadcast nodes in the original trace.
    """

    def __init__(self, program: Program, inputs: Sequence[Node], fused: bool) -> None:
        self.program = program
        self.nodes = {~k: n for k, n in enumerate(inputs)}
        self.narrow: dict[int, Aval] = {}
        for slot, (op, params, slots) in enumerate(program.instructions):
            if not (fused and self._skip_broadcast(slot, op, params, slots)):
                self.nodes[slot] = self._apply_adapted(op, params, slots)

    def outputs(self) -> list[Node]:
        return [*map(self._broadcast, self.program.out_slots)]

    def _skip_broadcast(self, slot: int, op: Op, params: tuple, slots: tuple[int, ...]) -> bool:
        """Skip a broadcast, or run an elementwise op on unbroadcast operands. Return False if neither applies."""
        if op is BROADCAST_TO:
            self.nodes[slot], before = self.nodes[slots[0]], self._before(slots[0])
        elif self.narrow.keys().isdisjoint(slots) or not _is_elementwise(op):
            return False
        else:
            self.nodes[slot] = apply(op, tuple([self.nodes[s] for s in slots]), params)
            before = op.infer((params, *map(self._before, slots)))
        if before.shape != self.program.avals[slot].shape:
            self.narrow[slot] = before
        return True

    def _before(self, slot: int) -> Aval:
        return self.narrow.get(slot) or self.program.aval(slot)

    def _broadcast(self, slot: int) -> Node:
        if slot in self.narrow:
            return apply(BROADCAST_TO, (self.nodes[slot],), (self.program.avals[slot].shape,))
        return self.nodes[slot]

    def _apply_adapted(self, op: Op, params: tuple, slots: tuple[int, ...]) -> Node:
        inputs = tuple(map(self._broadcast, slots))
        if op in (SLICE, GATHER):
            _check_window(params[0], self.program.aval(slots[0]).shape, inputs[0].aval.shape)
        elif op in ADAPTED:
            params, inputs = ADAPTED[op](params, inputs)
        return apply(op, inputs, params)


def _is_elementwise(op: Op) -> bool:
    return BATCH.get(op) is batched_elementwise and op is not VIEW


def _check_window(plan: tuple, before: tuple[int, ...], now: tuple[int, ...]) -> None:
    """Raise MLX's error for a slice along an axis whose length changed, because the slice's end may have depended on
    it."""
    sizes = zip(before, now, strict=True)
    for entry in plan:
        if entry == "*":
            return
        if entry != "+" and len(set(next(sizes))) > 1 and isinstance(entry, tuple):
            raise ValueError("[Primitive::output_shapes] Slice cannot infer output shapes.")


def respecialize(program: Program, avals: Sequence[Aval]) -> tuple[Program, list[Node]]:
    """Rebuild a Program for inputs of these avals, if they differ from its own. Return it with its captured nodes."""
    return (program, []) if tuple(avals) == program.in_avals else reshaped(program, avals)


def _program_first(params: tuple, inputs: tuple[Node, ...]) -> tuple[tuple, tuple[Node, ...]]:
    """Return the params and inputs with the Program, the first param, rebuilt for the shapes of its new inputs. This is
    for ops that pass their first inputs to the Program unchanged: calls, `vjp` and `jvp`."""
    program, *others = params
    count = len(program.in_avals)
    inner, more = respecialize(program, [n.aval for n in inputs[:count]])
    return (inner, *others), (*inputs[:count], *more, *inputs[count:])


def _mapped(params: tuple, inputs: tuple[Node, ...]) -> tuple[tuple, tuple[Node, ...]]:
    program, in_axes, out_axes, _ = params
    shapes = [n.aval.shape for n in inputs]
    sizes = {shape[axis] for shape, axis in zip(shapes, in_axes, strict=True) if axis is not None}
    if len(sizes) > 1:
        raise ValueError(f"[vmap] Inconsistent axis sizes: {' and '.join(map(str, sorted(sizes)))}.")
    avals = [
        n.aval if axis is None else aval((*n.aval.shape[:axis], *n.aval.shape[axis + 1 :]), n.aval.dtype)
        for n, axis in zip(inputs, in_axes, strict=True)
    ]
    inner, more = respecialize(program, avals)
    return (inner, (*in_axes, *[None] * len(more)), out_axes, sizes.pop()), (*inputs, *more)


def _ruled(params: tuple, inputs: tuple[Node, ...]) -> tuple[tuple, tuple[Node, ...]]:
    """Return the params and inputs of a custom function with a rule for `vjp` or `jvp`. The function's Program and the
    rule's are rebuilt; the avals of the rule's inputs follow from those of the function."""
    _, rule, count, *active = params
    (inner, *_), inputs = _program_first(params, inputs)
    own, extra = inputs[: len(inner.in_avals)], inputs[len(inner.in_avals) :]
    args = [n.aval for n in inputs[:count]]
    tangents = [a for a, on in zip(args, active[0], strict=True) if on] if active else [*inner.out_avals] * 2
    changed, more = respecialize(rule, [*args, *tangents, *[n.aval for n in extra]])
    return (inner, changed, count, *active), (*own, *extra, *more)


ADAPTED: dict[Op, Callable[[tuple, tuple[Node, ...]], tuple[tuple, tuple[Node, ...]]]] = {
    **dict.fromkeys((CALL, PURE_CALL, CHECKPOINT, CUSTOM, VJP, PULL, JVP, MIXED_PULL, MIXED_PUSH), _program_first),
    VMAP: _mapped,
    CUSTOM_VJP: _ruled,
    CUSTOM_JVP: _ruled,
    CUSTOM_VMAP: _program_first,  # the user's rule gets the mapped axis, of any size, when it runs
}
"""Maps each op that runs Programs to a function that adapts its params and inputs to other shapes."""
