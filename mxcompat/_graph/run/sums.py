"""Sums over leading axes: on a CPU those of many rows are products, of a row of ones and a matrix.

XLA's loop goes over the elements of the result and reads one element of each row for it: the gradient of the bias of a
convolution takes it four times as long. (Its library for sums is left out: see `compile`.)
"""

from __future__ import annotations

from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from .. import policy
from .modules import named, op_name, reduction

__all__ = ["multiply_sums"]


def multiply_sums(module: Any) -> None:
    """Change a module of StableHLO in place."""
    with module.context, ir.Location.unknown():
        for op in [op for op in named(module, "stablehlo.reduce") if _is_sum_of_rows(op)]:
            op.results[0].replace_all_uses_with(_product(op))
            op.erase()


def _is_sum_of_rows(op: Any) -> bool:
    """Whether float32 elements that are in memory are added up over the first axes, two or more, and enough of them."""
    found = reduction(op)
    if found is None or found.combine != "stablehlo.add" or not isinstance(found.kind.element_type, ir.F32Type):
        return False
    kind, axes, _ = found
    return (
        1 < len(axes) < kind.rank
        and axes == list(range(len(axes)))
        and prod(kind.shape[: len(axes)]) >= policy.SUMMED_ROWS
        and prod(kind.shape[len(axes) :]) >= policy.SUMMED_COLUMNS
        and _is_zero(op.operands[1])
        and len(list(op.operands[0].uses)) > 1  # what nothing else reads is computed on the way, and never in memory
    )


def _is_zero(value: Any) -> bool:
    return op_name(value) == "stablehlo.constant" and ir.DenseFPElementsAttr(value.owner.attributes["value"])[0] == 0


def _product(op: Any) -> Any:
    kind = ir.RankedTensorType(op.operands[0].type)
    axes = list(op.attributes["dimensions"])
    ones = ir.RankedTensorType.get(kind.shape[: len(axes)], kind.element_type)
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=[], rhs_batching_dimensions=[], lhs_contracting_dimensions=axes,
        rhs_contracting_dimensions=axes,
    )  # fmt: skip
    with ir.InsertionPoint(op):
        row = stablehlo.constant(ir.DenseElementsAttr.get_splat(ones, ir.FloatAttr.get(kind.element_type, 1.0)))
        return stablehlo.dot_general(op.results[0].type, row, op.operands[0], numbers)
