"""On CPUs, round products before they are added to each other, as in NumPy and MLX.

LLVM turns a product and a sum into a fused multiply-add, and no option of XLA prevents it. Then `x * x - y * y` is not
0 for x = y (5e-7 with JAX 0.12), its root is NaN, and a sum of overflowing products is not NaN. So such products are
hidden: NaN replaces NaN in them, which changes nothing but stops LLVM.

A product that is added to any other value stays as it is. There only the last digits differ, and long chains of such
steps would take up to twice as long. There are two exceptions. First, sums that are compared with computed values, or
rounded to whole numbers: XLA recomputes such a sum in each loop that reads it, perhaps with other rounding. An element
may then differ from itself, and of two neighbours under `maximum` none or both get a gradient. A sum just below 9 in
one loop is 9 in another, so a pixel is read at 8 with the weight of 9. Second, float16 products: their precision is too
low, and some processors fuse them in hardware (AVX512-FP16).
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
"""Operations that XLA computes separately, once."""
_COMPARES = ("stablehlo.compare", "stablehlo.maximum", "stablehlo.minimum")
_ROUNDS = tuple(f"stablehlo.{name}" for name in ("ceil", "floor", "round_nearest_afz", "round_nearest_even"))


def round_products(module: Any) -> None:
    """Hide products from fused multiply-adds, in place in a StableHLO module."""
    products = [op.results[0] for op in named(module, _PRODUCT)]
    compared = _compared(module) if products else set()
    with module.context, ir.Location.unknown():
        for product in [p for p in products if _has_to_be_rounded(p, compared)]:
            hidden(product)


def _has_to_be_rounded(product: Any, compared: set[Any]) -> bool:
    half = half_type(product) is not None
    return (half or float_type(product) is not None) and _is_added(product, half, compared)


def _is_added(value: Any, to_all: bool, compared: set[Any]) -> bool:
    """Return True if a value is an operand of a reduction, of a sum of two products, or of a sum in `compared`. With
    `to_all`, every sum counts."""
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
    """Return the values that are compared with each other or rounded to whole numbers, and the values in the same loop
    that they are computed from."""
    functions, calls = bodies(module), named(module, "func.call")
    compared: set[Any] = set()
    compares = [op for op in named(module, *_COMPARES) if not any(map(is_constant, op.operands))]
    rounds = [*named(module, *_ROUNDS), *[op for op in named(module, "stablehlo.convert") if _is_truncation(op)]]
    stack = [operand for op in (*compares, *rounds) for operand in op.operands]
    while stack:
        value = stack.pop()
        if value not in compared:
            compared.add(value)
            stack += _read_for(value, functions, calls)
    return compared


def _is_truncation(convert: Any) -> bool:
    kind = ir.RankedTensorType(convert.results[0].type).element_type
    return float_type(convert.operands[0]) is not None and isinstance(kind, ir.IntegerType)


def _read_for(value: Any, functions: dict[str, Any], calls: list[Any]) -> Sequence[Any]:
    """Return the operands of a value that are computed in the same loop, also across functions."""
    beyond = across(value, functions, calls)
    if beyond is not None:
        return beyond
    return () if op_name(value) in _APART else value.owner.operands


def _is_product(value: Any) -> bool:
    name = op_name(value)
    return name == _PRODUCT or (name in MOVES and _is_product(value.owner.operands[0]))
