"""The dtypes of tangents: what `jvp` returns beside each output.

A tangent has the dtype of its value, except that of a bool, which says how the bool came about: a comparison passes on
the dtype of what it compares, a logical op or a constant gives bool. All of these tangents are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, Dtype, aval, bool_
from mxcompat._graph.ir.program import Program

__all__ = ["differentiable", "tangent_avals"]

_COMPARISONS = frozenset((
    "equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "array_equal", "isnan", "isposinf",
    "isneginf",
))  # fmt: skip
_OF_FLOATS = frozenset(("isnan", "isposinf", "isneginf"))
"""Of integers, these are constants."""
_LOGICAL = frozenset(("logical_not", "logical_and", "logical_or", "logical_xor"))
_CONSTANT = frozenset(("astype", "isfinite", "isinf", "isclose", "allclose"))


def differentiable(name: str, inputs: Sequence[Any]) -> Sequence[Any]:
    """Those of an op's inputs that a derivative may pass through. Of others only the shape counts."""
    if name in ("stop_gradient", "constant_like"):
        return ()
    return inputs[1:] if name == "full_like" else inputs


def tangent_avals(program: Program, primals: int, outputs: int) -> tuple[Aval, ...]:
    """The avals of the tangents of the first outputs, with respect to the first inputs."""
    tangents: list[Dtype | None] = []  # of each slot that is a bool; None if it does not depend on the primals

    def tangent(slot: int) -> Dtype | None:
        return tangents[slot] if slot >= 0 else program.in_avals[~slot].dtype if ~slot < primals else None

    if any(a.dtype is bool_ for a in program.out_avals[:outputs]):
        for result, (op, _, slots) in zip(program.avals, program.instructions, strict=True):
            active = [t for t in map(tangent, differentiable(op.name, slots)) if t is not None]
            tangents.append(_passed_on(op.name, result, [program.aval(s) for s in slots], active))
    found = zip(program.out_avals[:outputs], program.out_slots, strict=False)
    return tuple(a if a.dtype is not bool_ else aval(a.shape, tangent(s) or bool_) for a, s in found)


def _passed_on(name: str, result: Any, operands: list[Any], active: list[Dtype]) -> Dtype | None:
    """The dtype of the tangent of one op's result, given those of its operands."""
    if not active:
        return None
    if isinstance(result, tuple):
        return active[0]
    if result.dtype is not bool_:
        return result.dtype
    dtype = operands[0].dtype
    if name in _CONSTANT or (name in _LOGICAL and dtype is not bool_):
        return bool_
    if name in _OF_FLOATS and dtype.kind not in "fc":
        return None
    if name in _COMPARISONS:
        for operand in operands[1:]:
            dtype = promote(dtype, operand.dtype)
        return active[0] if dtype is bool_ else dtype
    return active[0]
