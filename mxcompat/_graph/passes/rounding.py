"""Rounding: on a CPU products are rounded before they are added to each other, as in NumPy and in MLX.

LLVM makes one fused multiply-add of a product and a sum where it can, and no option of XLA's keeps it from that.
`x * x - y * y` is then not 0 where x is y, its root is NaN, and a sum of products that overflow is not NaN. So in the
code of a program a NaN is put in the place of each NaN among these products: nothing changes, and LLVM cannot know. A
product that is added to something else stays as it is: there the digits after the last are all that differs, and long
chains of such steps would take up to twice as long. But for two kinds, which are rounded before they are added to
whatever it is. What the sum is of is compared with something that is computed: XLA computes it anew for each loop that
reads it, with one rounding here and two there, and an element is not equal to itself; the larger of two neighbours gets
no gradient, or both do. And those of float16, which has no digits to spare, and which some processors multiply and add
themselves (AVX512-FP16).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._compat.dialects import ir

from .modules import MOVES, across, bodies, float_type, half_type, hidden, is_constant, named, op_name

__all__ = ["round_products"]

_PRODUCT = "stablehlo.multiply"
_ADDS = frozenset({"stablehlo.add", "stablehlo.subtract"})
_SUMS = frozenset({"stablehlo.reduce", "stablehlo.reduce_window"})
_APART = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather", "all_reduce", "all_to_all", "case", "cholesky", "collective_permute", "convolution",
        "custom_call", "dot_general", "fft", "if", "reduce", "reduce_scatter", "reduce_window", "rng_bit_generator",
        "scatter", "select_and_scatter", "sort", "triangular_solve", "while",
    )
)  # fmt: skip
"""What is computed by itself, once."""
_COMPARES = ("stablehlo.compare", "stablehlo.maximum", "stablehlo.minimum")


def round_products(module: Any) -> None:
    """Change a module of StableHLO in place: its products are rounded before they are added to each other."""
    products = [op.results[0] for op in named(module, _PRODUCT)]
    compared = _compared(module) if products else set()
    with module.context, ir.Location.unknown():
        for product in [p for p in products if _has_to_be_rounded(p, compared)]:
            hidden(product)


def _has_to_be_rounded(product: Any, compared: set[Any]) -> bool:
    half = half_type(product) is not None
    return (half or float_type(product) is not None) and _is_added(product, half, compared)


def _is_added(value: Any, to_all: bool, compared: set[Any]) -> bool:
    """Whether it is added to products, or to others of its kind; or, if that counts, to whatever it is; or is part of
    what is compared."""
    for use in value.uses:
        user = use.owner
        if user.name in _SUMS:
            return True
        if user.name in _ADDS and (to_all or user.results[0] in compared or all(_is_product(x) for x in user.operands)):
            return True
        if user.name in MOVES and _is_added(user.results[0], to_all, compared):
            return True
    return False


def _compared(module: Any) -> set[Any]:
    """The values that others are computed from, in the same loop, which are compared with each other."""
    functions, calls = bodies(module), named(module, "func.call")
    found: set[Any] = set()
    compares = [op for op in named(module, *_COMPARES) if not any(map(is_constant, op.operands))]
    stack = [operand for op in compares for operand in op.operands]
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack += _read_for(value, functions, calls)
    return found


def _read_for(value: Any, functions: dict[str, Any], calls: list[Any]) -> Sequence[Any]:
    """What a value is computed from in the same loop, within functions, too."""
    beyond = across(value, functions, calls)
    if beyond is not None:
        return beyond
    return () if op_name(value) in _APART else value.owner.operands


def _is_product(value: Any) -> bool:
    name = op_name(value)
    return name == _PRODUCT or (name in MOVES and _is_product(value.owner.operands[0]))
