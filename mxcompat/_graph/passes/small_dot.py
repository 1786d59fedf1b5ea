"""On CPUs, add the few products of a small matrix product in order, rounding each, as MLX and NumPy's rules do.

XLA uses fused multiply-adds, which round once. `H @ H` of a matrix with orthogonal rows then has 1.3e-8 in place of 0
(JAX 0.12).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .. import policy
from .modules import float_type, hidden, replace, reshaped

__all__ = ["expand_small_dots"]


def expand_small_dots(module: Any) -> None:
    """Replace small matrix products, in place in a StableHLO module."""
    replace(module, "stablehlo.dot_general", _is_small, _sum)


def _is_small(op: Any) -> bool:
    left, right = (float_type(operand) for operand in op.operands)
    out = float_type(op.results[0])
    if left is None or right is None or out is None or not left.element_type == right.element_type == out.element_type:
        return False
    axes = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"]).lhs_contracting_dimensions
    inner = prod(left.shape[k] for k in axes)
    return 1 < inner <= policy.ORDERED_TERMS and 0 < prod(out.shape) <= policy.FEW_ELEMENTS


def _sum(op: Any) -> Any:
    """Multiply matrices (batch, rows, inner) and (batch, inner, columns)."""
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    out = ir.RankedTensorType(op.results[0].type)
    left, batch, rows, inner = _matrices(
        op.operands[0], numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions, last=True
    )
    right, _, columns, _ = _matrices(
        op.operands[1], numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions, last=False
    )
    term_type = ir.RankedTensorType.get([batch, rows, columns], out.element_type)
    terms = []
    for k in range(inner):
        x = stablehlo.slice(left, [0, 0, k], [batch, rows, k + 1], [1, 1, 1])
        y = stablehlo.slice(right, [0, k, 0], [batch, k + 1, columns], [1, 1, 1])
        terms.append(stablehlo.multiply(*[stablehlo.broadcast_in_dim(term_type, part, [0, 1, 2]) for part in (x, y)]))
    total = reduce(stablehlo.add, terms)
    for term in terms:
        hidden(term)
    return reshaped(total, out.shape)


def _matrices(value: Any, batch: Sequence[int], inner: Sequence[int], last: bool) -> tuple[Any, int, int, int]:
    """Return an operand as a batch of matrices, with the contracted axis last or in the middle. Also return the sizes
    of the batch, of the other axis and of the contracted axis."""
    kind = ir.RankedTensorType(value.type)
    others = [k for k in range(kind.rank) if k not in [*batch, *inner]]
    order = [*batch, *others, *inner] if last else [*batch, *inner, *others]
    sizes = [prod(kind.shape[k] for k in axes) for axes in (batch, others, inner)]
    moved = stablehlo.transpose(value, order) if order != list(range(kind.rank)) else value
    return reshaped(moved, [sizes[0], *(sizes[1:] if last else sizes[:0:-1])]), *sizes
