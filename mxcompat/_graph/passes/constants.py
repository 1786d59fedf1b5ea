"""Keep XLA from evaluating window reductions of constants at compile time.

XLA's constant folding runs an interpreter: running products of a million ones take it 20 s, and the gradient of
`cumsum(x).sum()` has such sums. XLA does not treat values behind an optimization barrier as constants.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .. import policy
from .modules import COSTLY, FUSED, bodies, called, named

__all__ = ["hide_window_constants"]


def hide_window_constants(module: Any) -> None:
    """Put barriers before large windows over constants, in place in a StableHLO module."""
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
    """Map the results of the block's large windows over constants to these operations, in `windows`. Add the block's
    constant values to `constants`."""
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
    return kind.has_static_shape and prod(kind.shape) >= policy.MANY_ELEMENTS
