"""Make products and absolute values of integers wrap around on overflow.

XLA's simplifier assumes that a square or an absolute value of an integer is not negative. After an overflow, `x * x //
7` then differs from NumPy and MLX. A quotient by the absolute value of the least integer differs, too. XLA assumes
nothing about products of unsigned integers, which have the same bits, or about the maximum of x and -x. So this pass
replaces products of signed integers by products of unsigned ones, and `abs(x)` by the maximum of x and -x.
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
"""Operations whose body XLA recognises by its product of two different arguments."""


def wrap_around(module: Any) -> None:
    """Replace products and absolute values of signed integers, in place in a StableHLO module."""
    replace(module, "stablehlo.multiply", _may_be_square, _product)
    replace(module, "chlo.square", lambda op: _signed(op) is not None, _product)
    replace(module, "stablehlo.abs", lambda op: _signed(op) is not None, _absolute)


def _signed(op: Any) -> Any | None:
    """Return the integer type of an operation's result if it is signed, else None."""
    kind = ir.RankedTensorType(op.results[0].type).element_type
    return kind if isinstance(kind, ir.IntegerType) and kind.is_signless and kind.width > 1 else None


def _may_be_square(op: Any) -> bool:
    """Return True for a product of signed integers whose factors may turn out to be equal."""
    return _signed(op) is not None and op.parent.name not in _COMBINES and not any(map(is_constant, op.operands))


def _product(op: Any) -> Any:
    kind = ir.RankedTensorType(op.results[0].type)
    unsigned = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_unsigned(kind.element_type.width))
    factors = [stablehlo.convert(unsigned, x) for x in op.operands]
    return stablehlo.convert(kind, stablehlo.multiply(factors[0], factors[-1]))


def _absolute(op: Any) -> Any:
    (x,) = op.operands
    return stablehlo.maximum(x, stablehlo.negate(x))
