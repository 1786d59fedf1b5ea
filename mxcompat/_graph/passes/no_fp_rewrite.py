"""Prevent simplifications that hold for real numbers but not for floats that overflow or are NaN.

XLA's simplifier rewrites the logarithm of an exponential or a power, turns the root of x * x into |x|, and merges
exponentials in products, quotients and powers. In MLX an intermediate value may overflow or be NaN, and the result
shows it. So the inner operation is hidden from XLA. A second problem is LLVM: for an exponential of a value that it
knows to be NaN, from a constant in the program, its result is undefined. There the NaN itself is selected.
(Without this pass, six of 24 expressions in its tests are wrong with JAX 0.12, such as the logarithm of a root.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite, prod
from typing import Any

from mxcompat._compat.dialects import ir, stablehlo

from .barriers import require_barriers
from .modules import MOVES, across, bodies, float_type, hidden, named, op_name

__all__ = ["prevent_fp_rewrites"]

_DIVIDE, _EXP, _LOG, _MULTIPLY, _POWER, _SQRT = (
    f"stablehlo.{name}" for name in ("divide", "exponential", "log", "multiply", "power", "sqrt")
)
_SIMPLIFIED = (_DIVIDE, _LOG, _MULTIPLY, _POWER, _SQRT)
_POWERS = frozenset({_POWER, _SQRT, "stablehlo.cbrt", "stablehlo.rsqrt"})
_REACHED = MOVES | {f"stablehlo.{name}" for name in ("add", "convert", "divide", "multiply", "subtract")}
"""Operations whose result is NaN wherever an operand is."""


def prevent_fp_rewrites(module: Any) -> None:
    """Hide operands and keep NaNs, in place in a StableHLO module."""
    candidates = [op for op in named(module, _EXP, *_SIMPLIFIED) if float_type(op.results[0]) is not None]
    if not candidates:
        return
    functions, calls = bodies(module), named(module, "func.call")

    def origins(value: Any) -> Iterator[Any]:
        """Yield the values from which `value` gets its elements through operations that only move them. A function's
        argument has an origin for each call of the function."""
        stack, seen = [value], set()
        while stack:
            value = stack.pop()
            # the search has a cycle if a function returns its argument and is called with its own result
            if value in seen:
                continue
            seen.add(value)
            beyond = across(value, functions, calls)
            if beyond is not None:
                stack += beyond
            elif (op_name(value) in MOVES and len(value.owner.operands) == 1) or _is_of_one(value.owner):
                stack.append(value.owner.operands[0])
            else:
                yield value

    exponentials = [op for op in candidates if op.name == _EXP]
    not_numbers = _not_numbers(module) if exponentials else set()
    inner = {value for op in candidates if op.name != _EXP for value in _simplified(op, origins)}
    if inner:
        require_barriers()
    with module.context, ir.Location.unknown():
        for value in inner:
            hidden(value)
        for op in exponentials:
            if op.operands[0] in not_numbers:
                _keep_nan(op)


def _simplified(op: Any, origins: Callable[[Any], Iterator[Any]]) -> list[Any]:
    """Return the values read by an operation that XLA would simplify together with it."""
    operands = [*origins(op.operands[op.name == _DIVIDE])]
    if op.name == _LOG:
        return [x for x in operands if op_name(x) == _EXP or op_name(x) in _POWERS]
    if op.name == _SQRT:
        return [x for x in operands if op_name(x) == _POWER or _is_square(x)]
    if op.name == _MULTIPLY and _EXP not in map(op_name, origins(op.operands[1])):
        return []
    return [x for x in operands if op_name(x) == _EXP]


def _is_square(value: Any) -> bool:
    name = op_name(value)
    return name == "chlo.square" or (name == _MULTIPLY and value.owner.operands[0] == value.owner.operands[1])


def _is_of_one(op: Any) -> bool:
    """Return True if an operation is a reduction of single elements."""
    if op.name != "stablehlo.reduce" or len(op.results) > 1:
        return False
    shape = ir.RankedTensorType(op.operands[0].type).shape
    return prod(shape[axis] for axis in op.attributes["dimensions"]) == 1


def _not_numbers(module: Any) -> set[Any]:
    """Return the values that an infinite or NaN constant of the program reaches."""
    nans: set[Any] = set()
    stack = [op.results[0] for op in named(module, "stablehlo.constant") if _is_no_number(op)]
    while stack:
        value = stack.pop()
        if value not in nans:
            nans.add(value)
            stack += [result for use in value.uses if use.owner.name in _REACHED for result in use.owner.results]
    return nans


def _is_no_number(constant: Any) -> bool:
    if float_type(constant.results[0]) is None:  # MLIR's Python API cannot read the attribute of other types
        return False
    attribute = constant.attributes["value"]
    return isinstance(attribute, ir.DenseFPElementsAttr) and attribute.is_splat and not isfinite(attribute[0])


def _keep_nan(op: Any) -> None:
    (x,), (result,) = op.operands, op.results
    uses = list(result.uses)
    with ir.InsertionPoint.after(op):
        is_number = stablehlo.compare(x, x, stablehlo.ComparisonDirectionAttr.get("EQ"))
        kept = stablehlo.select(is_number, result, x)
    for use in uses:
        use.owner.operands[use.operand_number] = kept
