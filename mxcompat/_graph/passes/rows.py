"""Products of one row: on a CPU with the matrix as it lies in memory, not with what it is when transposed.

XLA transposes the weights of a linear layer for a product with a single row, and makes one loop of that, of the product
and of what the row is computed from, which is then computed anew for each element of the result.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mxcompat._jax import ir, stablehlo

from .. import policy
from .modules import bodies, named, op_name, product, reshaped

__all__ = ["multiply_rows"]


def multiply_rows(module: Any) -> None:
    """Change a module of StableHLO in place."""
    with module.context, ir.Location.unknown():
        main = bodies(module)["main"]
        for op in [op for op in named(module, "stablehlo.dot_general") if _is_row_by_transposed(op, main)]:
            with ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(_product(op))
            op.erase()


def _is_row_by_transposed(op: Any, main: Any) -> bool:
    """Whether a transposed argument of the program is multiplied by a single row from the left. What has to be
    computed, as quantized weights are, XLA had better compute along with the product."""
    left, right = (ir.RankedTensorType(operand.type) for operand in op.operands)
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return (
        op_name(op.operands[1]) == "stablehlo.transpose"
        and op.operands[1].owner.operands[0].owner == main
        and right.rank == 2
        and list(numbers.rhs_contracting_dimensions) == [0]
        and not numbers.lhs_batching_dimensions
        and left.has_static_shape
        and right.has_static_shape
        and prod(left.shape) == right.shape[0]
        and 0 < prod(right.shape) <= policy.ROW_ELEMENTS
    )


def _product(op: Any) -> Any:
    row, matrix = op.operands[0], op.operands[1].owner.operands[0]
    column = reshaped(row, [prod(ir.RankedTensorType(row.type).shape)])
    return product(matrix, column, op.results[0].type, op.attributes.get("precision_config"))
