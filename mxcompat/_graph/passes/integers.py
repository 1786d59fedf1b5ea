"""Integers: products and absolute values wrap around where they overflow.

XLA's simplifier takes what is multiplied by itself, and an absolute value, for non-negative: `x * x // 7` is another
number there than in NumPy and in MLX once the square has overflowed, and so is what is divided by the absolute value of
the least integer. Of products of unsigned integers, which have the same bits, and of the larger of x and -x it assumes
nothing.
"""

from __future__ import annotations

from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .modules import is_constant, replace

__all__ = ["wrap_around"]

_COMBINES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_reduce", "reduce", "reduce_scatter", "reduce_window", "scatter", "select_and_scatter", "sort",
    )
)  # fmt: skip
"""What has a product of two different arguments in it, by which XLA knows what it does."""


def wrap_around(module: Any) -> None:
    """Change a module of StableHLO in place."""
    replace(module, "stablehlo.multiply", _may_be_square, _product)
    replace(module, "chlo.square", lambda op: _signed(op) is not None, _product)
    replace(module, "stablehlo.abs", lambda op: _signed(op) is not None, _absolute)


def _signed(op: Any) -> Any | None:
    """The type of signed integers that an operation results in, if it does."""
    kind = ir.RankedTensorType(op.results[0].type).element_type
    return kind if isinstance(kind, ir.IntegerType) and kind.is_signless and kind.width > 1 else None


def _may_be_square(op: Any) -> bool:
    """Whether it is a product of signed integers that may turn out to be one of equal factors."""
    return _signed(op) is not None and op.parent.name not in _COMBINES and not any(map(is_constant, op.operands))


def _product(op: Any) -> Any:
    kind = ir.RankedTensorType(op.results[0].type)
    unsigned = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_unsigned(kind.element_type.width))
    factors = [stablehlo.convert(unsigned, x) for x in op.operands]
    return stablehlo.convert(kind, stablehlo.multiply(factors[0], factors[-1]))


def _absolute(op: Any) -> Any:
    (x,) = op.operands
    return stablehlo.maximum(x, stablehlo.negate(x))
