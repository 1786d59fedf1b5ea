"""Dtypes of cotangents that differ from their value's dtype. As in MLX, they depend on the ops in the derivative's
path.

Most ops multiply the cotangent by an array of the values' dtype, so the two are promoted. Others pass it on or cast it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mxcompat._array.construct import CAST
from mxcompat._array.nest import NEST
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Dtype
from mxcompat._graph.ir.node import ITEM
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._ops.define import TABLE

from ..calls import CALL, CHECKPOINT, PURE_CALL
from ..transform_ops import VMAP

__all__ = ["gradient_dtypes"]

_HAND_ON = {TABLE[name] for name in (
    "add", "atleast", "broadcast_arrays", "broadcast_to", "concatenate", "conj", "contiguous", "cumsum", "depends",
    "dynamic_slice_update", "expand_dims", "flatten", "hadamard_transform", "masked_scatter", "max", "maximum", "min",
    "minimum", "negative", "pad", "positive", "real", "repeat", "reshape", "roll", "scatter", "scatter_axis",
    "slice_update", "squeeze", "stack", "subtract", "sum", "tile", "transpose", "triangle", "unflatten", "where",
)}  # fmt: skip
"""Ops that only move, add or select elements."""

_CAST = {CAST, NEST} | {TABLE[name] for name in (
    "as_strided", "astype", "ceil", "convolve", "cross_entropy", "cummax", "cummin", "diag", "diagonal", "diff",
    "dynamic_slice", "fft", "flip", "floor", "floor_divide", "full", "full_like", "gather", "gather_axis",
    "gather_mm", "imag", "istft", "layer_norm", "linalg_cross", "median", "meshgrid", "partition", "rms_norm",
    "rope", "round", "sign", "slice", "sort", "stft", "topk", "trace", "trunc",
)}  # fmt: skip
"""Ops whose pullback casts the cotangent, writes it into zeros of the argument's dtype, or has its own kernel."""

_SLICE, _WHOLE = TABLE["slice"], {":", "+"}
"""A slice passes the dtype on if it takes whole axes and inserts new ones."""


def gradient_dtypes(program: Program, primals: int, cotangents: Sequence[Dtype]) -> list[Dtype]:
    """Return the dtypes of the gradients, given those of the first outputs' cotangents."""
    cotangent_dtypes = dict(zip(program.out_slots, cotangents, strict=False))
    dtypes = _cotangent_dtypes(program, {~k for k in range(primals)}, cotangent_dtypes)
    return [dtypes.get(~k, a.dtype) for k, a in enumerate(program.in_avals[:primals])]


def _cotangent_dtypes(program: Program, primals: set[int], cotangents: dict[int, Dtype]) -> dict[int, Dtype]:
    """Return the dtypes of cotangents by slot, for `primals` and all slots that depend on them."""
    active = set(primals)
    for slot, (op, _, slots) in enumerate(program.instructions):
        if not active.isdisjoint(slots[: op.indices][op.smooth]):
            active.add(slot)
    dtypes: dict[int, Dtype] = {}
    # the dtypes of cotangents for each result of an op with several, by the result's number
    several: dict[int, dict[int, Dtype]] = {}

    def add(known: dict[int, Dtype], key: int, dtype: Dtype) -> None:
        known[key] = promote(known[key], dtype) if key in known else dtype

    for slot, dtype in cotangents.items():
        add(dtypes, slot, dtype)
    for slot in reversed(range(len(program.instructions))):
        op, params, slots = program.instructions[slot]
        results = several.get(slot) or ({0: dtypes[slot]} if slot in dtypes else {})
        if op is ITEM and results:
            add(several.setdefault(slots[0], {}), params[0], results[0])
        elif results:
            for s, dtype in zip(slots, _argument_dtypes(program, slot, results, active), strict=True):
                if s in active:
                    add(dtypes, s, dtype)
    return dtypes


def _argument_dtypes(program: Program, slot: int, results: dict[int, Dtype], active: set[int]) -> list[Dtype]:
    """Return the dtypes of the cotangents of an instruction's operands, given those of its results."""
    op, params, slots = program.instructions[slot]
    avals = program.avals[slot] if isinstance(program.avals[slot], tuple) else (program.avals[slot],)
    own = [program.aval(s).dtype for s in slots]
    differing = [d for k, d in results.items() if avals[k].dtype._kind in "fc" and d is not avals[k].dtype]
    if not differing or op in (PURE_CALL, CHECKPOINT):  # MLX differentiates the Programs of these ops on their own
        return own
    if op in (CALL, VMAP):
        inner: Program = params[0]
        inner_cotangents = {inner.out_slots[k]: d for k, d in results.items()}
        dtypes = _cotangent_dtypes(inner, {~k for k, s in enumerate(slots) if s in active}, inner_cotangents)
        return [dtypes.get(~k, d) for k, d in enumerate(own)]
    cotangent = reduce(promote, differing)
    return [_argument_dtype(op, params, cotangent, d) if d._kind in "fc" else d for d in own]


def _argument_dtype(op: Op, params: tuple, cotangent: Dtype, argument: Dtype) -> Dtype:
    if op in _HAND_ON or (op is _SLICE and _WHOLE.issuperset(params[0])):
        return cotangent
    return argument if op in _CAST else promote(cotangent, argument)
