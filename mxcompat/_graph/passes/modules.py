"""Helpers for passes over StableHLO modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mxcompat._compat.dialects import func, ir, stablehlo

__all__ = [
    "COMBINE", "COSTLY", "FUSED", "MOVES", "across", "bodies", "called", "called_in_c", "float_type", "half_type",
    "hidden", "is_constant", "keep", "kept", "named", "op_name", "product", "reduction", "replace", "reshaped",
]  # fmt: skip

COMBINE: dict[str, Callable[..., Any]] = {
    "stablehlo.add": lambda x, y: stablehlo.add(x, y),
    "stablehlo.maximum": lambda x, y: stablehlo.maximum(x, y),
    "stablehlo.minimum": lambda x, y: stablehlo.minimum(x, y),
}
"""Functions that combine two values in a reduction."""

COSTLY = frozenset({
    "chlo.acos", "chlo.acosh", "chlo.asin", "chlo.asinh", "chlo.atan", "chlo.atanh", "chlo.cosh", "chlo.erf",
    "chlo.erf_inv", "chlo.erfc", "chlo.lgamma", "chlo.sinh", "chlo.tan", "stablehlo.atan2", "stablehlo.cbrt",
    "stablehlo.cosine", "stablehlo.exponential", "stablehlo.exponential_minus_one", "stablehlo.log",
    "stablehlo.log_plus_one", "stablehlo.logistic", "stablehlo.power", "stablehlo.sine", "stablehlo.tan",
    "stablehlo.tanh",
})  # fmt: skip
FUSED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs", "add", "and", "broadcast_in_dim", "clamp", "compare", "complex", "concatenate", "convert", "divide",
        "dynamic_slice", "gather", "maximum", "minimum", "multiply", "negate", "not", "or", "pad", "reshape", "reverse",
        "select", "sign", "slice", "sqrt", "subtract", "transpose",
    )
)  # fmt: skip
"""Operations that XLA fuses with their operands and with their consumers."""

MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim", "concatenate", "dynamic_slice", "negate", "pad", "reshape", "reverse", "slice", "transpose",
    )
)  # fmt: skip
"""Operations of FUSED that only move elements or negate them."""

_FRONTEND = "mhlo.frontend_attributes"


def named(module: Any, *names: str) -> list[Any]:
    """Return the operations of a module with one of these names."""
    operations: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in names:
            operations.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return operations


def replace(module: Any, name: str, is_wanted: Callable[[Any], bool], replacement: Callable[[Any], Any]) -> None:
    """Replace each operation of this name for which `is_wanted` is true by the value `replacement(operation)`."""
    with module.context, ir.Location.unknown():
        for op in [op for op in named(module, name) if is_wanted(op)]:
            with ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(replacement(op))
            op.erase()


def bodies(module: Any) -> dict[str, Any]:
    """Return the block of each function of a module, by name."""
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    return {op.attributes["sym_name"].value: op.regions[0].blocks[0] for op in functions}


def called(op: Any) -> str | None:
    """Return the name of the function that an operation calls, if XLA inlines the call, else None."""
    return op.attributes["callee"].value if op.name == "func.call" and _FRONTEND not in op.attributes else None


def across(value: Any, functions: dict[str, Any], calls: Sequence[Any]) -> list[Any] | None:
    """Follow a value across a function boundary. For an argument, return the operands at all `calls`; for a call's
    result, the returned value. Return None for other values."""
    name = op_name(value)
    if name is None:
        within = [function for function, block in functions.items() if block == value.owner]
        sites = [op for op in calls if op.attributes["callee"].value in within]
        return [op.operands[ir.BlockArgument(value).arg_number] for op in sites]
    if name == "func.call":
        *_, end = functions[value.owner.attributes["callee"].value].operations
        return [end.operands[ir.OpResult(value).result_number]]
    return None


def op_name(value: Any) -> str | None:
    """Return the name of the operation that defines a value, or None for an argument of a function."""
    return getattr(value.owner, "name", None)


def is_constant(value: Any) -> bool:
    """Return True if a value is a constant, or only moves elements of constants."""
    name = op_name(value)
    return name == "stablehlo.constant" or (name in MOVES and all(map(is_constant, value.owner.operands)))


def float_type(value: Any) -> Any | None:
    """Return the type of a float32 or float64 value with a known shape, else None."""
    return _type_of(value, (ir.F32Type, ir.F64Type))


def half_type(value: Any) -> Any | None:
    """Return the type of a float16 value with a known shape, else None."""
    return _type_of(value, ir.F16Type)


def hidden(value: Any) -> None:
    """Hide a float value from XLA's simplifier: its consumers read a copy in which NaN replaces NaN. The value is the
    same, but XLA cannot know that."""
    uses = list(value.uses)
    kind = ir.RankedTensorType(value.type)
    with ir.InsertionPoint.after(value.owner):
        nan = ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(kind.element_type, float("nan")))
        equal = stablehlo.compare(value, value, stablehlo.ComparisonDirectionAttr.get("EQ"))
        same = stablehlo.select(equal, value, stablehlo.constant(nan))
    for use in uses:
        use.owner.operands[use.operand_number] = same


def _type_of(value: Any, elements: Any) -> Any | None:
    kind = ir.RankedTensorType(value.type)
    return kind if kind.has_static_shape and isinstance(kind.element_type, elements) else None


class _Reduction(NamedTuple):
    """A reduction of one float32 or float64 value by one operation."""

    kind: Any
    axes: list[int]
    combine: str


def reduction(op: Any) -> _Reduction | None:
    """Describe a `stablehlo.reduce`, or return None if it reduces several values or by more than one operation."""
    kind = float_type(op.operands[0])
    inner = [inner.name for inner in op.regions[0].blocks[0]]
    if kind is None or len(op.results) > 1 or len(inner) != 2:
        return None
    return _Reduction(kind, list(op.attributes["dimensions"]), inner[0])


def reshaped(value: Any, shape: Sequence[int]) -> Any:
    """Reshape a value, if it does not have this shape already."""
    kind = ir.RankedTensorType(value.type)
    if kind.shape == list(shape):
        return value
    return stablehlo.reshape(ir.RankedTensorType.get(shape, kind.element_type), value)


def product(left: Any, right: Any, result: Any, precision: Any = None) -> Any:
    """Multiply a matrix by a matrix or a column, and give the result the shape of the type `result`."""
    shape = [ir.RankedTensorType(left.type).shape[0], *ir.RankedTensorType(right.type).shape[1:]]
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=[], rhs_batching_dimensions=[], lhs_contracting_dimensions=[1],
        rhs_contracting_dimensions=[0],
    )  # fmt: skip
    kind = ir.RankedTensorType(result)
    matrix_type = ir.RankedTensorType.get(shape, kind.element_type)
    return reshaped(stablehlo.dot_general(matrix_type, left, right, numbers, precision_config=precision), kind.shape)


def kept(module: Any, value: Any) -> Any:
    """Return a value through a call that XLA must not inline, so that the value is computed separately."""
    name = f"kept_{len(module.body.operations)}"
    with ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, ir.FunctionType.get([value.type], [value.type]), visibility="private")
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([function.arguments[0]])
    call = func.CallOp(function, [value])
    call.operation.attributes[_FRONTEND] = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
    return call.results[0]


def keep(module: Any, value: Any, after: Any = None) -> None:
    """Materialize a value for its consumers (with `after`: for those after that operation of its block), so that it is
    not fused into them."""
    uses = list(value.uses)
    if after is not None:
        uses = [use for use in uses if not _is_before(use.owner.operation, after)]
    with ir.InsertionPoint.after(after or value.owner):
        held = kept(module, value)
    for use in uses:
        use.owner.operands[use.operand_number] = held


def _is_before(op: Any, other: Any) -> bool:
    """Return True if an operation, or its ancestor in the block of `other`, is `other` or comes before it."""
    while op.block != other.block:
        op = op.parent.operation
    return op == other or op.is_before_in_block(other)


def called_in_c(target: str, numbers: Any, operands: Sequence[Any], shape: Sequence[int], element: Any) -> Any:
    """Return the result of a call of the foreign function `target` with an array of 64-bit integers."""
    attributes = {
        "call_target_name": ir.StringAttr.get(target),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
        "mhlo.backend_config": ir.DictAttr.get({"numbers": ir.DenseElementsAttr.get(numbers)}),
    }
    kind = ir.RankedTensorType.get(shape, element)
    return ir.Operation.create("stablehlo.custom_call", [kind], operands, attributes).results[0]
