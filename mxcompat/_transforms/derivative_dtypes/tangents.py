"""Dtypes of the tangents that `jvp` returns with each output.

A tangent in the dtype of its value stays in it. Other dtypes come from the user, from the rule of a custom function, or
from a comparison (a bool has no derivative). As in MLX, each op then decides: most multiply the tangent by an array of
the values' dtype, so the two are promoted. Others pass it on or cast it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import repeat
from typing import Any

from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import ITEM
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import BODY, TANGENT_DTYPE
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.tangents import refuse_bools

from ..calls import smooth_inputs

__all__ = ["of_operands", "tangent_avals", "tangent_dtypes"]

_HAND_ON = {TABLE[name] for name in (
    "add", "as_strided", "atleast", "broadcast_to", "conj", "contiguous", "cumsum", "depends", "diag", "diagonal",
    "diff", "dynamic_slice", "expand_dims", "flatten", "flip", "full", "full_like", "gather", "gather_axis",
    "hadamard_transform", "imag", "masked_scatter", "max", "maximum", "min", "minimum", "negative", "partition",
    "positive", "real", "repeat", "reshape", "roll", "slice", "sort", "split", "squeeze", "subtract", "sum", "tile",
    "topk", "trace", "transpose", "triangle", "unflatten", "unstack", "where",
)}  # fmt: skip
"""Ops that only move, add or select elements."""

_SUMS = {TABLE[name] for name in ("cumsum", "sum", "trace")}
"""Ops that accumulate small integers in wider ones."""

_CHOOSE = {TABLE["addmm"]: slice(1, 3), TABLE["remainder"]: slice(1, 2)}
"""Maps each op to operands. The op passes the tangents on unchanged unless one of these operands has a tangent."""

_NEGATE = {TABLE["diff"], TABLE["negative"], TABLE["subtract"]}
"""Ops that negate the last tangent."""

_JOIN = {TABLE["concatenate"], TABLE["stack"]}
"""Ops that join tangents with zeros for the operands that have none."""

_EACH = {TABLE["broadcast_arrays"], TABLE["meshgrid"]}
"""Ops with one result for each operand."""

_WRITE = {TABLE["dynamic_slice_update"], TABLE["pad"], TABLE["slice_update"]}
"""Ops that write into their first operand's tangent, or into zeros."""

_ROUND = {TABLE[name] for name in ("layer_norm", "rms_norm", "softmax")}
"""Ops that compute in float32, and cast the result if the value has half precision. `softmax` does so only if
`precise`."""

_CAST = {TABLE[name] for name in (
    "argmax", "argmin", "argsort", "ceil", "count_nonzero", "fft", "floor", "floor_divide", "istft",
    "random_categorical", "random_categorical_line", "random_randint", "round", "scatter_axis", "searchsorted", "sign",
    "stft", "trunc",
)}  # fmt: skip
"""Ops whose tangent is zero, or comes from a kernel that casts."""


def tangent_avals(program: Program, in_dtypes: Sequence[Dtype], outputs: int) -> tuple[Aval, ...]:
    """Return the avals of the tangents of the first `outputs` outputs. `in_dtypes` are the dtypes of the tangents of
    the first inputs."""
    dtypes = tangent_dtypes(program, in_dtypes)
    outputs_and_slots = zip(program.out_avals[:outputs], program.out_slots, strict=False)
    return tuple([aval(a.shape, dtypes.get(s, a.dtype)) for a, s in outputs_and_slots])


def tangent_dtypes(program: Program, in_dtypes: Sequence[Dtype | None]) -> dict[int, Any]:
    """Return the dtypes of tangents by slot, for slots that depend on inputs with a tangent. An op with several results
    has a tuple, with None for a result without a tangent."""
    return _tangent_dtypes(program, tuple(in_dtypes))


@analysis
def _tangent_dtypes(program: Program, in_dtypes: tuple[Dtype | None, ...]) -> dict[int, Any]:
    return _forward_dtypes(program, {~k: d for k, d in enumerate(in_dtypes) if d is not None})


def of_operands(op: Op, params: tuple, slots: Sequence[int], known: Mapping[int, Any]) -> list[Any]:
    """Return the entries of `known` for an instruction's operands; None for an operand without a tangent."""
    smooth = range(len(slots))[: op.indices][smooth_inputs(op, params)]
    return [known.get(s) if k in smooth else None for k, s in enumerate(slots)]


def _forward_dtypes(program: Program, dtypes: dict[int, Any]) -> dict[int, Any]:
    for slot, (op, params, slots) in enumerate(program.instructions):
        tangents = of_operands(op, params, slots, dtypes)
        if op is ITEM:
            if tangents[0] is not None and tangents[0][params[0]] is not None:
                dtypes[slot] = tangents[0][params[0]]
        elif any(tangents):
            operands, result = [program.aval(s) for s in slots], program.avals[slot]
            of = _result_dtypes if isinstance(result, tuple) else _result_dtype
            dtypes[slot] = of(op, params, tangents, operands, result)  # type: ignore[arg-type]
    return dtypes


def _result_dtypes(
    op: Op, params: tuple, tangents: list[Dtype | None], operands: list[Aval], results: tuple[Aval, ...]
) -> tuple[Dtype | None, ...]:
    """Return the dtypes of the tangents of an op with several results."""
    if op in _EACH:
        return tuple(tangents)
    own: list[Dtype | None] = []
    if op in BODY:
        program = BODY[op](params)
        dtypes = tangent_dtypes(program, tangents[: len(program.in_avals)])
        own = [dtypes.get(s) for s in program.out_slots]
    return (*own, *[_result_dtype(op, params, tangents, operands, a) for a in results[len(own) :]])


def _result_dtype(op: Op, params: tuple, tangents: list[Dtype | None], operands: list[Aval], result: Aval) -> Dtype:
    """Return the dtype of a result's tangent, given those of the operands; at least one operand has a tangent."""
    if op in _NEGATE:
        refuse_bools(tangents[-1])
    rule = TANGENT_DTYPE.get(op)
    if rule is not None:
        return rule(tangents, operands, result)
    entering = [
        *map(_entering_dtype, tangents, operands, repeat(_promoted(op, operands, result)), repeat(result.dtype))
    ]
    if _is_cast(op, params, entering, operands, result):
        return result.dtype
    active = [t for t in entering if t is not None]
    handed = active[0] if op in _WRITE else reduce(promote, active)
    if op in _SUMS:
        handed = summed_dtype(handed)
    return handed if _keeps_promoted(op, entering) else promote(handed, result.dtype)


def _promoted(op: Op, operands: list[Aval], result: Aval) -> Dtype:
    """Return the dtype to which an op casts its operands."""
    dtypes = [a.dtype for a in operands[: op.indices]]
    return reduce(promote, [*dtypes, result.dtype] if result.dtype._kind in "fc" else dtypes)


def _entering_dtype(tangent: Dtype | None, operand: Aval, promoted: Dtype, natural: Dtype) -> Dtype | None:
    """Return the dtype in which an operand's tangent enters the op.

    It is `natural`, unless the tangent's dtype differs from the operand's.
    """
    if tangent is None:
        return None
    is_cast = operand.dtype is not promoted and operand.dtype is not natural
    return natural if tangent is operand.dtype or is_cast else tangent


def _is_cast(op: Op, params: tuple, entering: list[Dtype | None], operands: list[Aval], result: Aval) -> bool:
    """Return True if the op casts the tangent to the dtype of the result, or if the tangents have it already."""
    if op in _CAST or all(t is None or t is result.dtype for t in entering):
        return True
    if op in _WRITE:
        return entering[0] is None or "edge" in params
    if op in _ROUND and result.dtype._kind in "fc":
        return result.dtype._numpy.itemsize == 2 and (op is not TABLE["softmax"] or params[1])
    if op in _ROUND:
        return True
    return op is TABLE["imag"] and operands[0].dtype._kind != "c"


def _keeps_promoted(op: Op, entering: list[Dtype | None]) -> bool:
    """Return True if the result's tangent has the promoted dtype of the operands' tangents."""
    if op in _CHOOSE:
        return not any(entering[_CHOOSE[op]])
    if op in _JOIN:
        return None not in entering
    return op in _HAND_ON or op in _WRITE or (op is TABLE["einsum"] and len(entering) == 1)
