"""Modules of StableHLO: what the passes over them share (`rounding`, `sums`, `stages`, `repeats`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

__all__ = ["float_type", "kept", "named", "op_name", "reduction"]


def named(module: Any, name: str) -> list[Any]:
    """The operations of a module that have this name."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def op_name(value: Any) -> str | None:
    """The name of the operation that a value comes from; an argument of a function comes from none."""
    return getattr(value.owner, "name", None)


def float_type(value: Any) -> Any | None:
    """The type of a value of float32 or float64 whose shape is known, None of any other."""
    kind = ir.RankedTensorType(value.type)
    return kind if kind.has_static_shape and isinstance(kind.element_type, (ir.F32Type, ir.F64Type)) else None


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


def kept(module: Any, value: Any) -> Any:
    """A value as what a function gives that is not inlined: it is computed by itself."""
    name = f"kept_{len(module.body.operations)}"
    with ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, ir.FunctionType.get([value.type], [value.type]), visibility="private")
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([function.arguments[0]])
    call = func.CallOp(function, [value])
    call.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
    return call.results[0]
