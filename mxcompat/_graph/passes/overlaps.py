"""Overlaps: what is written into an array, and read from that very array at other places, is read before.

XLA writes a slice in place in the loop that computes it, if nothing else reads the array. Where a reshape is between,
it does not see that what it writes is read from there, too (jaxlib 0.10 and 0.12): with `x[1:] = x[:-1]` all rows
became the first. In a CPU's code such a write is a choice between two arrays, unless it is of single rows, which
overlap with no others.
"""

from __future__ import annotations

from typing import Any

from mxcompat._jax import ir, stablehlo

from .. import policy
from .modules import FUSED, op_name, replace

__all__ = ["read_before_writing"]

_UPDATE = "stablehlo.dynamic_update_slice"


def read_before_writing(module: Any) -> None:
    """Change a module of StableHLO in place: what is written over is not read in the loop that writes."""
    replace(module, _UPDATE, _overlaps, _chosen)


def _overlaps(op: Any) -> bool:
    operand, update = op.operands[0], op.operands[1]
    whole, part = (ir.RankedTensorType(v.type) for v in (operand, update))
    if not (whole.has_static_shape and part.has_static_shape):
        return False
    if all(n == m or m <= 1 for n, m in zip(whole.shape, part.shape, strict=True)):
        return False
    source = _unshaped(operand)
    return op_name(source) is not None and _reads(update, source)


def _unshaped(value: Any) -> Any:
    while op_name(value) == "stablehlo.reshape":
        value = value.owner.operands[0]
    return value


def _reads(value: Any, source: Any) -> bool:
    """Whether a value is computed in one loop from another."""
    pending, met = [value], set()
    while pending and len(met) < policy.IN_ONE_LOOP:
        value = pending.pop()
        if value == source:
            return True
        if value not in met and op_name(value) in FUSED:
            met.add(value)
            pending += value.owner.operands
    return False


def _chosen(op: Any) -> Any:
    operand, update, *starts = op.operands
    bit = ir.IntegerType.get_signless(1)
    no, yes = (
        stablehlo.constant(ir.DenseElementsAttr.get_splat(ir.RankedTensorType.get([], bit), ir.BoolAttr.get(on)))
        for on in (False, True)
    )
    whole, part = ir.RankedTensorType(operand.type), ir.RankedTensorType(update.type)
    written = stablehlo.dynamic_update_slice(_spread(no, whole.shape), _spread(yes, part.shape), starts)
    nothing = stablehlo.convert(ir.RankedTensorType.get([], whole.element_type), no)
    placed = stablehlo.dynamic_update_slice(_spread(nothing, whole.shape), update, starts)
    return stablehlo.select(written, placed, operand)


def _spread(value: Any, shape: Any) -> Any:
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    return stablehlo.broadcast_in_dim(kind, value, [])
