"""Rules of products with quantized matrices: in C (`stored`) or in NumPy.

NumPy unpacks a matrix once for all rows, to float32, and rounds the product once. A product is batched if its quantized
matrices are not mapped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, CONTRACTION, COST, HOST, PADDING, PULLBACK, PUSHFORWARD, QUICK
from mxcompat._native import native
from mxcompat._native.products import KINDS

from ..batching import aligned
from ..cost import quantized_cost
from ..padding.padded import Exact, Padding, Paddings, again, check_matrices, check_rows, stretched
from ..products.contraction import multiply, pull_product, rounded, swapped, wide_dtype, widened
from ..products.stored import multiplied
from .codes import decode, grouped, unpack
from .matmul import GATHER_QMM, GATHER_QMM_FP, QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP
from .primitive import matrix_inputs
from .quantize import LARGEST, Scheme
from .selected import Selected, flattened
from .stored import stored

__all__: list[str] = []


def _first(x: Any, *parts: Any) -> tuple[Any, ...]:
    """Return the parts of the quantized matrices, or of the first matrix only if x is a vector or one matrix."""
    if x.ndim > 2 or parts[-1].ndim <= 2:
        return parts
    return tuple([a if a is None else a.reshape(-1, *a.shape[-2:])[0] for a in parts])


def _matrix(parts: tuple[Any, ...], how: Scheme, transpose: bool) -> Any:
    """Return the right operand in float32, from scales, biases and words."""
    scales, biases, w = parts
    y = decode(w, scales, biases, how)
    return swapped(y) if transpose else y


def _product(x: Any, parts: tuple[Any, ...], how: Scheme, transpose: bool, dtype: Any, result: Any) -> Any:
    """Return the product of x, cast to `dtype`, and quantized matrices. The product has the dtype `result`."""
    scales, biases, w = parts
    matrices = stored(how, scales, biases, w) if x.size and w.size else None
    if matrices is None:
        return rounded(multiply(widened(x, dtype), _matrix(parts, how, transpose)), result)
    return multiplied(x if x.dtype in KINDS else x.astype(dtype), matrices, w.shape[:-2], transpose, result)


@HOST.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _host_product(out: Any, params: tuple, x: Any, *inputs: Any) -> Any:
    how, transpose = params
    return _product(x, _first(x, *matrix_inputs(how, inputs)[:3]), how, transpose, out.dtype._numpy, out.dtype._numpy)


@PULLBACK.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _pull_product(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, *inputs: Any) -> Any:
    how, transpose = params
    stored = matrix_inputs(how, inputs)[:3]
    parts = _first(x, *stored)
    if not any(needs_grad[1:]) and (x.ndim <= 2 or parts[2].ndim == 2):
        work = wide_dtype(out.dtype)
        return _product(g, parts, how, not transpose, out.dtype, work), *[None] * len(inputs)
    if any(needs_grad[1:]) and parts[2] is not stored[2]:
        return None
    y = _matrix(parts, how, transpose)
    gx, gy = pull_product(widened(g, out.dtype), widened(x, out.dtype), y, (needs_grad[0], any(needs_grad[1:])))
    rest: list[Any] = [None] * len(inputs)
    if gy is not None:
        gy = grouped(swapped(gy) if transpose else gy, how)
        rest[0] = (gy * grouped(unpack(parts[2], how.bits), how)).sum(-1)
        rest[1] = gy.sum(-1)
    return gx, *rest


@PUSHFORWARD.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _push_product(tangents: Any, out: Any, params: tuple, x: Any, *inputs: Any) -> Any:
    how, transpose = params
    t, *moved = tangents
    parts = _first(x, *matrix_inputs(how, inputs)[:3])
    x = widened(x, out.dtype)
    total = np.zeros((), x.dtype) if t is None else _product(t, parts, how, transpose, out.dtype, x.dtype)
    if any(m is not None for m in moved):  # add the tangents of scales and biases, because the matrix is linear in both
        filled = [np.zeros(p.shape, p.dtype) if m is None else m for m, p in zip(moved, parts[:2], strict=False)]
        if parts[2] is not inputs[2]:
            return None
        total = total + _product(x, (*filled, parts[2]), how, transpose, x.dtype, x.dtype)
    return total


@BATCH.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _batch_product(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    x, w = inputs[0], inputs[-1]
    if any(batched[1:]) or (w.aval.ndim > 2 and x.aval.ndim - 1 <= 2):
        return None
    (x,) = aligned((x,), (True,), w.aval.ndim)
    return apply(op, (x, *inputs[1:]), params)


@PADDING.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _padded_product(node: Node, axis: int, pad: Padding) -> Node:
    x, *matrix = node.inputs
    check_matrices(x, *matrix)
    k = axis - node.aval.ndim
    if k == -2:
        return again(node, (pad(x, x.aval.ndim - 2), *matrix))
    if k < -2:
        return again(node, tuple([stretched(i, k, pad) for i in node.inputs]))
    if not node.params[1]:
        raise Exact  # the words pack several elements along this axis
    return again(node, (x, *[pad(i, i.aval.ndim - 2) for i in matrix]))


@CONTRACTION.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _product_contraction(node: Node, paddings: Paddings) -> tuple[tuple[Node, ...], tuple]:
    x, *matrix = node.inputs
    check_matrices(x, *matrix)
    k = x.aval.ndim - 1
    pad = paddings.reading(matrix[0], matrix[0].aval.ndim - 2)
    check_rows(x, pad)
    return (pad.blank(x, k, 0.0), *[pad.blank(i, i.aval.ndim - 2, 0.0) for i in matrix]), node.params


def _gathered(params: tuple, x: Any, inputs: tuple) -> Selected | None:
    how, transpose, left, right, scaled = params
    scales, biases, w, rest = matrix_inputs(how, inputs)
    if not (w.size and x.size):
        return None
    remaining = list(rest)
    lhs = remaining.pop(0) if left else None
    rhs = remaining.pop(0) if right else None
    flat = [flattened(a) for a in (scales, biases, w)]
    units = remaining[0].reshape(-1) / LARGEST if scaled else None

    def build(k: int) -> Any:
        y = _matrix(tuple([a if a is None else a[k] for a in flat]), how, transpose)
        return y if units is None else y * units[k]

    columns = scales.shape[-1] * how.group_size
    shape = (columns, w.shape[-2]) if transpose else (w.shape[-2], columns)
    return Selected(lhs, rhs, build, w.shape[:-2], shape, stored(how, scales, biases, w, units), transpose)


@HOST.of(GATHER_QMM, GATHER_QMM_FP)
def _host_gather(out: Any, params: tuple, x: Any, *inputs: Any) -> Any:
    chosen = _gathered(params, x, inputs)
    return None if chosen is None else chosen.product(x, out.dtype._numpy)


if native is not None:  # XLA calls the same C functions as NumPy's tier, so it is not faster
    QUICK.update((QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP, GATHER_QMM, GATHER_QMM_FP))


@PULLBACK.of(GATHER_QMM, GATHER_QMM_FP)
def _pull_gather(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *inputs: Any) -> Any:
    chosen = _gathered(params, x, inputs)
    if chosen is None or any(needs_grad[1:]):
        return None
    return chosen.pull(widened(g, y.dtype), widened(x, y.dtype)), *[None] * len(inputs)


@PUSHFORWARD.of(GATHER_QMM, GATHER_QMM_FP)
def _push_gather(tangents: Any, y: Any, params: tuple, x: Any, *inputs: Any) -> Any:
    chosen = _gathered(params, x, inputs)
    if chosen is None or any(t is not None for t in tangents[1:]):
        return None
    return chosen.product(widened(tangents[0], y.dtype), wide_dtype(y.dtype))


@BATCH.of(GATHER_QMM, GATHER_QMM_FP)
def _batch_gather(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    how, _, left, right, _ = params
    place = 4 if how.mode == "affine" else 3  # the index of the first input that holds matrix numbers
    if left or not right or any(on for k, on in enumerate(batched) if k not in (0, place)):
        return None
    batch = max(inputs[0].aval.ndim - batched[0] - 2, inputs[place].aval.ndim - batched[place])
    operands = list(inputs)
    (operands[0],) = aligned(inputs[:1], batched[:1], batch + 2)
    (operands[place],) = aligned(inputs[place : place + 1], batched[place : place + 1], batch)
    return apply(op, tuple(operands), params)


COST.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP, GATHER_QMM, GATHER_QMM_FP)(quantized_cost)
