"""On CPUs, transpose the left matrix of products that contract the first axes of both, such as gradients of weights.

XLA calls a fast library for other products, but computes these by a slower loop. XLA removes a transpose before a
product, so the transpose is behind an optimization barrier (gradient of weights, core time with JAX 0.12: 256x64 by
64x256 0.36 to 0.48 ms, 0.46 to 0.49 without this pass; 1024x32 by 32x512 1.1 to 1.5 ms, 1.95).
"""

from __future__ import annotations

from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .. import policy
from .modules import float_type, named, product

__all__ = ["transpose_lhs"]


def transpose_lhs(module: Any) -> None:
    """Transpose left matrices, in place in a StableHLO module."""
    with module.context, ir.Location.unknown():
        for op in named(module, "stablehlo.dot_general"):
            if all(map(_is_matrix, op.operands)) and _sums_over_first_axes(op):
                read, is_transposed = _read(op.results[0])
                left, right = reversed(op.operands) if is_transposed else op.operands
                if _is_worth_it(left, right):
                    with ir.InsertionPoint.after(op):
                        turned = stablehlo.optimization_barrier([stablehlo.transpose(left, [1, 0])])
                        replacement = product(turned, right, read.type, op.attributes.get("precision_config"))
                    read.replace_all_uses_with(replacement)


def _is_matrix(value: Any) -> bool:
    kind = float_type(value)
    return kind is not None and kind.rank == 2 and isinstance(kind.element_type, ir.F32Type)


def _sums_over_first_axes(op: Any) -> bool:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return list(numbers.lhs_contracting_dimensions) == list(numbers.rhs_contracting_dimensions) == [0]


def _read(value: Any) -> tuple[Any, bool]:
    """Follow a matrix through transposes while each has a single consumer. Return the last value, and whether it is
    transposed."""
    is_transposed = False
    while len(users := [use.owner for use in value.uses]) == 1 and users[0].name == "stablehlo.transpose":
        is_transposed ^= list(users[0].attributes["permutation"]) == [1, 0]
        value = users[0].results[0]
    return value, is_transposed


def _is_worth_it(left: Any, right: Any) -> bool:
    (length, rows), (_, columns) = (ir.RankedTensorType(value.type).shape for value in (left, right))
    return (
        rows >= policy.SHORT_ROW
        and columns > 1  # products with a vector have a faster routine
        and (length <= policy.TRANSPOSED_LENGTH or columns >= policy.TRANSPOSED_COLUMNS)
        and length * rows <= policy.HUGE_ELEMENTS
        and length * rows * columns >= policy.MANY_ELEMENTS
    )
