"""Multiply a single row by the matrix in the layout that it has in memory, on a CPU.

A linear layer multiplies a row by its transposed weights. XLA may materialize the transposed matrix first, or compute
the row's operands again for each element of the result. Written as a product of the untransposed matrix and a column,
it reads the weights once (1x4096 by 4096x4096: 20 ms before, 1.1 ms now; 1x512 by 512x32000: 1.1 and 1.0 ms with JAX
0.10.2, 6.9 and 1.0 ms with JAX 0.12.0.1; core time of a computed row, JAX 0.12: 1x4096 by 4096x4096 2.9 to 3.6 ms, 66
to 86 without this pass; 1x512 by 512x32000 3.8 to 5.6 ms, 47).

A bias added to the product of a matrix and a vector is added after it. XLA would fuse it into a kernel of one thread
that wants the matrix in another order (1024x1024: 0.9 ms before, 0.2 ms now; with quantized weights 1.8 and 0.18 ms).
"""

from __future__ import annotations

from math import prod
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .modules import bodies, float_type, hidden, named, op_name, product, replace, reshaped

__all__ = ["add_after_matvec", "multiply_by_column"]


def multiply_by_column(module: Any) -> None:
    """Replace products of a row and a transposed argument, in place in a StableHLO module."""
    main = bodies(module)["main"]
    replace(module, "stablehlo.dot_general", lambda op: _is_row_by_transposed(op, main), _product)


def _is_row_by_transposed(op: Any, main: Any) -> bool:
    """Return True if a single row is multiplied by a transposed argument of the program. A computed matrix, such as
    dequantized weights, is better computed together with the product."""
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
        and prod(right.shape) > 0
    )


def _product(op: Any) -> Any:
    row, matrix = op.operands[0], op.operands[1].owner.operands[0]
    column = reshaped(row, [prod(ir.RankedTensorType(row.type).shape)])
    return product(matrix, column, op.results[0].type, op.attributes.get("precision_config"))


def add_after_matvec(module: Any) -> None:
    """Add values to matrix-vector products after the product, in place in a StableHLO module."""
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
