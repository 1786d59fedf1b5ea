"""Products of one row: on a CPU with the matrix as it lies in memory, not with what it is when transposed.

XLA transposes the weights of a linear layer for a product with a single row, and makes one loop of that, of the product
and of what the row is computed from, which is then computed anew for each element of the result. And what is added to
a product of a matrix and a vector becomes part of it, by code that runs in one thread and wants the matrix in another
order: with a bias, 1024 elements by as many took 0.9 ms, not 0.2; quantized 1.8 ms, not 0.18.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .. import policy
from .modules import bodies, float_type, hidden, named, op_name, product, replace, reshaped

__all__ = ["add_to_rows_apart", "multiply_rows"]


def multiply_rows(module: Any) -> None:
    """Change a module of StableHLO in place."""
    main = bodies(module)["main"]
    replace(module, "stablehlo.dot_general", lambda op: _is_row_by_transposed(op, main), _product)


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


def add_to_rows_apart(module: Any) -> None:
    """Change a module of StableHLO in place: what is added to a product of a matrix and a vector is added after it."""
    with module.context, ir.Location.unknown():
        for op in named(module, "stablehlo.dot_general"):
            (result,) = op.results
            if float_type(result) is not None and _is_of_vector(op) and _is_added(result):
                hidden(result)


def _is_of_vector(op: Any) -> bool:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    sides = zip(op.operands, (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions), strict=True)
    shapes = [(ir.RankedTensorType(operand.type).shape, axes) for operand, axes in sides]
    return any(prod(shape) == prod(shape[k] for k in axes) for shape, axes in shapes)


def _is_added(value: Any) -> bool:
    users = [use.owner for use in value.uses]
    return any(u.name == "stablehlo.add" or (u.name == "stablehlo.reshape" and _is_added(u.results[0])) for u in users)
