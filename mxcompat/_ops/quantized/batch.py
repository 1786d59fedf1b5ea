"""Batching of quantization, and of products whose quantized matrices are not mapped."""

from __future__ import annotations

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, all_batched
from .fp8 import FROM_FP8, TO_FP8
from .matmul import GATHER_QMM, GATHER_QMM_FP, QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP
from .qqmm import QQMM
from .quantize import DEQUANTIZE, QUANTIZE

__all__: list[str] = []

_Inputs = tuple[Node, ...]
_Flags = tuple[bool, ...]


@BATCH.of(TO_FP8, FROM_FP8)
def _batch_codes(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node:
    return apply(op, inputs, params)


@BATCH.of(QUANTIZE, QQMM)
def _batch_first(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    return None if any(batched[1:]) else apply(op, inputs, params)


@BATCH.of(DEQUANTIZE)
def _batch_dequantize(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    if params[0].mode == "affine":
        return apply(op, all_batched(inputs, batched, size), params)
    if any(batched[2:]):
        return None
    return apply(op, (*all_batched(inputs[:2], batched[:2], size), *inputs[2:]), params)


@BATCH.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _batch_product(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    x, w = inputs[0], inputs[-1]
    if any(batched[1:]) or (w.aval.ndim > 2 and x.aval.ndim - 1 <= 2):
        return None
    (x,) = aligned((x,), (True,), w.aval.ndim)
    return apply(op, (x, *inputs[1:]), params)


@BATCH.of(GATHER_QMM, GATHER_QMM_FP)
def _batch_gather(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    how, _, left, right, _ = params
    place = 4 if how.mode == "affine" else 3  # the index of the first input that holds matrix numbers
    if left or not right or any(on for k, on in enumerate(batched) if k not in (0, place)):
        return None
    batch = max(inputs[0].aval.ndim - batched[0] - 2, inputs[place].aval.ndim - batched[place])
    operands = list(inputs)
    (operands[0],) = aligned(inputs[:1], batched[:1], batch + 2)
    (operands[place],) = aligned(inputs[place : place + 1], batched[place : place + 1], batch)
    return apply(op, tuple(operands), params)
