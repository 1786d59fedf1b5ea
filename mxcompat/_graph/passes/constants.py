"""Constants: what windows compute of constants alone is computed when the program runs.

XLA computes it when it compiles, in an interpreter: running products of a million ones take it 20 s, and the gradient
of `cumsum(x).sum()` has such sums. What is behind a barrier it does not take for a constant.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .. import policy
from .modules import COSTLY, FUSED, bodies, called, named

__all__ = ["compute_when_run"]


def compute_when_run(module: Any) -> None:
    """Change a module of StableHLO in place."""
    if not any(_is_large(op.results[0]) for op in named(module, _WINDOW)):
        return
    functions = bodies(module)
    windows: dict[Any, Any] = {}
    _find(functions["main"], functions, set(), windows)
    with module.context, ir.Location.unknown():
        for op in windows.values():
            with ir.InsertionPoint(op):
                op.operands[0] = stablehlo.optimization_barrier([op.operands[0]])


def _find(block: Any, functions: dict[str, Any], constants: set[Any], windows: dict[Any, Any]) -> None:
    """Add the windows of a block over constants, by their results, and to `constants` the values that are constant."""
    for op in block.operations:
        body = functions.get(called(op))
        if body is not None:
            pairs = zip(body.arguments, op.operands, strict=True)
            constants.update([inner for inner, outer in pairs if outer in constants])
            _find(body, functions, constants, windows)
            returned = body.operations[len(body.operations) - 1].operands
            pairs = zip(returned, op.results, strict=True)
            constants.update([outer for inner, outer in pairs if inner in constants])
        elif op.name == _WINDOW:
            if op.operands[0] in constants and _is_large(op.results[0]):
                windows[op.results[0]] = op
        elif op.name in _MADE or op.name in FUSED or op.name in COSTLY:
            if all(operand in constants for operand in op.operands):
                constants.update(op.results)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _find(inner, functions, constants, windows)


_WINDOW = "stablehlo.reduce_window"
_MADE = frozenset({"stablehlo.constant", "stablehlo.iota"})


def _is_large(value: Any) -> bool:
    kind = ir.RankedTensorType(value.type)
    return kind.has_static_shape and prod(kind.shape) >= policy.FOLDED_ELEMENTS
