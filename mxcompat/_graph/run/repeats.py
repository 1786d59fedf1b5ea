"""Repeats: on a CPU what is costly and read many times over is computed once.

XLA computes the elements of what it fuses where they are read: the cosines of a rotary embedding again for each head of
each row. It drops a barrier before it fuses; a call that it is told not to inline it keeps.
"""

from __future__ import annotations

from math import prod
from typing import Any

from jaxlib.mlir import ir

from .. import policy
from .modules import kept

__all__ = ["compute_once"]

_COSTLY = frozenset({
    "chlo.acos", "chlo.acosh", "chlo.asin", "chlo.asinh", "chlo.atan", "chlo.atanh", "chlo.cosh", "chlo.erf",
    "chlo.erf_inv", "chlo.erfc", "chlo.lgamma", "chlo.sinh", "chlo.tan", "stablehlo.atan2", "stablehlo.cbrt",
    "stablehlo.cosine", "stablehlo.exponential", "stablehlo.exponential_minus_one", "stablehlo.log",
    "stablehlo.log_plus_one", "stablehlo.logistic", "stablehlo.power", "stablehlo.sine", "stablehlo.tan",
    "stablehlo.tanh",
})  # fmt: skip
_FUSED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "and", "broadcast_in_dim", "clamp", "compare", "complex", "concatenate", "convert", "divide",
        "dynamic_slice", "gather", "maximum", "minimum", "multiply", "negate", "not", "or", "pad", "reshape", "reverse",
        "select", "sign", "slice", "sqrt", "subtract", "transpose",
    )
)  # fmt: skip
"""What XLA computes in the same loop as its operands, and as what reads it."""


def compute_once(module: Any) -> None:
    """Change a module of StableHLO, for one device, in place."""
    costly: set[Any] = set()
    repeating = []

    def visit(op: Any) -> Any:
        if op.name in _COSTLY or (op.name in _FUSED and not costly.isdisjoint(op.operands)):
            if op.name in _COSTLY or not _repeats(op):
                costly.update(op.results)
            elif op.operands[0] in costly:
                repeating.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context, ir.Location.unknown():
        for op in repeating:
            with ir.InsertionPoint(op):
                op.operands[0] = kept(module, op.operands[0])


def _repeats(op: Any) -> bool:
    """Whether it has so many elements, and so many for each of its operand's, that a call pays."""
    if op.name not in ("stablehlo.broadcast_in_dim", "stablehlo.gather"):
        return False
    given, made = (ir.RankedTensorType(v.type) for v in (op.operands[0], op.results[0]))
    if not (given.has_static_shape and made.has_static_shape):
        return False
    count, read = prod(made.shape), prod(given.shape)
    return read > 1 and count >= policy.REPEATED_ELEMENTS and count >= policy.REPEATED_TIMES * read
