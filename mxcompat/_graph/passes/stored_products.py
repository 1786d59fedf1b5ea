"""On CPUs, multiply by matrices of half precision in C (`_native/products.c`), as NumPy's rules do.

XLA's own code for few rows takes ten times as long. C reads the matrix as it is stored, also if the program multiplies
by its transpose.
"""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from mxcompat._compat.dialects import ir, stablehlo
from mxcompat._native import native
from mxcompat._native.products import KINDS, product_numbers

from .. import policy
from ..run.foreign import TARGET, register
from .modules import called_in_c, op_name, replace

__all__ = ["multiply_halves_in_c"]

_KINDS = {"bf16": KINDS[np.dtype(ml_dtypes.bfloat16)], "f16": KINDS[np.dtype(np.float16)]}


def multiply_halves_in_c(module: Any) -> None:
    """Replace products with matrices of half precision by calls of C, in place in a StableHLO module."""
    replace(module, "stablehlo.dot_general", _is_read, _call)


def _is_read(op: Any) -> bool:
    """Return True if C reads the operands of a product, and the right one is a large matrix of half precision: an
    argument, or its transpose. XLA computes other matrices together with the product."""
    x, y, out = (ir.RankedTensorType(value.type) for value in (*op.operands, op.results[0]))
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    if not all(kind.has_static_shape for kind in (x, y, out)) or y.rank != 2 or numbers.lhs_batching_dimensions:
        return False
    if [*numbers.lhs_contracting_dimensions] != [x.rank - 1] or len(numbers.rhs_contracting_dimensions) != 1:
        return False
    if str(y.element_type) not in _KINDS or x.element_type != y.element_type:
        return False
    if str(out.element_type) not in (*_KINDS, "f32") or 0 in x.shape:
        return False
    if op_name(_stored(op.operands[1])) is not None:
        return False
    if prod(out.shape[:-1]) > policy.STORED_ROWS and not (str(y.element_type) == "bf16" and _in_tiles(op)):
        return False
    return prod(y.shape) >= policy.MANY_ELEMENTS and x.shape[-1] > policy.ORDERED_TERMS and register()


def _stored(matrix: Any) -> Any:
    """Return the operand of a transpose, or the matrix itself."""
    if op_name(matrix) == "stablehlo.transpose" and [*matrix.owner.attributes["permutation"]] == [1, 0]:
        return matrix.owner.operands[0]
    return matrix


def _is_transposed(op: Any) -> bool:
    """Return True if a product is one by the transpose of its stored matrix."""
    axes = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return (axes.rhs_contracting_dimensions[0] == 1) == (_stored(op.operands[1]) == op.operands[1])


def _in_tiles(op: Any) -> bool:
    """Return True if C computes a product of bfloat16 with AMX, which is faster than XLA's code for any rows."""
    return native is not None and native.uses_tiles() and _is_transposed(op)


def _call(op: Any) -> Any:
    x, y = op.operands[0], _stored(op.operands[1])
    out = ir.RankedTensorType(op.results[0].type)
    transposed = _is_transposed(op)
    inner, outer = ir.RankedTensorType(x.type).shape[-1], out.shape[-1]
    kind = _KINDS[str(ir.RankedTensorType(y.type).element_type)]
    rows = prod(out.shape[:-1])
    numbers = product_numbers(kind, kind, transposed, 0, (inner, outer, 1, 1, 1, rows))
    return called_in_c(TARGET, numbers, (x, y), out.shape, out.element_type)
