"""Modules of StableHLO: what the passes over them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mxcompat._compat.dialects import func, ir, stablehlo

__all__ = [
    "COMBINE", "COSTLY", "FUSED", "MOVES", "across", "bodies", "called", "float_type", "half_type", "hidden",
    "is_constant", "keep", "kept", "named", "op_name", "product", "reduction", "replace", "reshaped",
]  # fmt: skip

COMBINE: dict[str, Callable[..., Any]] = {
    "stablehlo.add": lambda x, y: stablehlo.add(x, y),
    "stablehlo.maximum": lambda x, y: stablehlo.maximum(x, y),
    "stablehlo.minimum": lambda x, y: stablehlo.minimum(x, y),
}
"""How two values are reduced to one."""

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
"""What XLA computes in the same loop as its operands, and as what reads it."""

MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim", "concatenate", "dynamic_slice", "negate", "pad", "reshape", "reverse", "slice", "transpose",
    )
)  # fmt: skip
"""What of these is no more than its operands' elements in other places, or with another sign."""

_FRONTEND = "mhlo.frontend_attributes"


def named(module: Any, *names: str) -> list[Any]:
    """The operations of a module that have one of these names."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def replace(module: Any, name: str, is_wanted: Callable[[Any], bool], made: Callable[[Any], Any]) -> None:
    """Put the value that is made of it in the place of each operation of this name that is wanted."""
    with module.context, ir.Location.unknown():
        for op in [op for op in named(module, name) if is_wanted(op)]:
            with ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(made(op))
            op.erase()


def bodies(module: Any) -> dict[str, Any]:
    """The blocks of a module's functions, by their names."""
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    return {op.attributes["sym_name"].value: op.regions[0].blocks[0] for op in functions}


def called(op: Any) -> str | None:
    """The name of the function that an operation calls, if it is a call that XLA inlines."""
    return op.attributes["callee"].value if op.name == "func.call" and _FRONTEND not in op.attributes else None


def across(value: Any, functions: dict[str, Any], calls: Sequence[Any]) -> list[Any] | None:
    """What a value is beyond its function: of an argument what each of the `calls` gives for it, of the result of a
    call what is returned. None if it is neither."""
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
    """The name of the operation that a value comes from; an argument of a function comes from none."""
    return getattr(value.owner, "name", None)


def is_constant(value: Any) -> bool:
    """Whether it is a constant, or what is moved of constants alone."""
    name = op_name(value)
    return name == "stablehlo.constant" or (name in MOVES and all(map(is_constant, value.owner.operands)))


def float_type(value: Any) -> Any | None:
    """The type of a value of float32 or float64 whose shape is known, None of any other."""
    return _type_of(value, (ir.F32Type, ir.F64Type))


def half_type(value: Any) -> Any | None:
    """The same of one of float16."""
    return _type_of(value, ir.F16Type)


def hidden(value: Any) -> None:
    """Let what reads a value of floats read it with a NaN in the place of each NaN: nothing changes, and XLA cannot
    know."""
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
    """A reduction of one value of float32 or float64 by one operation."""

    kind: Any
    axes: list[int]
    combine: str


def reduction(op: Any) -> _Reduction | None:
    """What an operation `stablehlo.reduce` does, None if it does more than that."""
    kind = float_type(op.operands[0])
    inner = [inner.name for inner in op.regions[0].blocks[0]]
    if kind is None or len(op.results) > 1 or len(inner) != 2:
        return None
    return _Reduction(kind, list(op.attributes["dimensions"]), inner[0])


def reshaped(value: Any, shape: Sequence[int]) -> Any:
    """The value itself where it has this shape."""
    kind = ir.RankedTensorType(value.type)
    if kind.shape == list(shape):
        return value
    return stablehlo.reshape(ir.RankedTensorType.get(shape, kind.element_type), value)


def product(left: Any, right: Any, result: Any, precision: Any = None) -> Any:
    """A matrix times a matrix or a column, in the shape of the type `result`."""
    shape = [ir.RankedTensorType(left.type).shape[0], *ir.RankedTensorType(right.type).shape[1:]]
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=[], rhs_batching_dimensions=[], lhs_contracting_dimensions=[1],
        rhs_contracting_dimensions=[0],
    )  # fmt: skip
    kind = ir.RankedTensorType(result)
    made = ir.RankedTensorType.get(shape, kind.element_type)
    return reshaped(stablehlo.dot_general(made, left, right, numbers, precision_config=precision), kind.shape)


def kept(module: Any, value: Any) -> Any:
    """A value as what a function gives that is not inlined: it is computed by itself."""
    name = f"kept_{len(module.body.operations)}"
    with ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, ir.FunctionType.get([value.type], [value.type]), visibility="private")
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([function.arguments[0]])
    call = func.CallOp(function, [value])
    call.operation.attributes[_FRONTEND] = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
    return call.results[0]


def keep(module: Any, value: Any, after: Any = None) -> None:
    """Have all that reads a value, or what does so after an operation of its block, read one that is computed by
    itself."""
    uses = list(value.uses)
    if after is not None:
        uses = [use for use in uses if not _is_before(use.owner.operation, after)]
    with ir.InsertionPoint.after(after or value.owner):
        held = kept(module, value)
    for use in uses:
        use.owner.operands[use.operand_number] = held


def _is_before(op: Any, other: Any) -> bool:
    """Whether an operation, or the one that it is within, is another of the block or comes before it."""
    while op.block != other.block:
        op = op.parent.operation
    return op == other or op.is_before_in_block(other)
