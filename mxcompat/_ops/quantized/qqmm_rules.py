"""Rules of products of two quantized matrices: in C (`stored`) or in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, COST, HOST, PULLBACK, QUICK
from mxcompat._native import native

from ..cost import quantized_cost
from ..products.contraction import multiply, pull_product, rounded
from ..products.stored import multiplied
from .codes import decode, rounded_through
from .qqmm import GATHER_QQMM, QQMM, scaling_inputs
from .quantize import LARGEST, Scheme
from .selected import Selected, flattened
from .stored import stored

__all__: list[str] = []


def _weights(w: Any, scales: Any, global_scale: Any, how: Scheme) -> Any:
    """Return the second matrix of a quantized product, rounded by quantization, in float32."""
    if scales is None:
        return rounded_through(w, how, global_scale)
    out = decode(w, scales, None, how)
    return out if global_scale is None else out * (global_scale.reshape(()) / LARGEST)


@HOST.of(QQMM)
def _host_qqmm(out: Any, params: tuple, x: Any, w: Any, *inputs: Any) -> Any:
    how, quantized = params
    if not (x.size and w.size):
        return None
    scales, _, _, (scale_x, scale_w) = scaling_inputs(inputs, quantized, False, False)
    x = rounded_through(x, how, scale_x)
    units = None if scale_w is None else np.ravel(scale_w) / LARGEST
    matrix = None if scales is None else stored(how, scales, None, w, units)
    if matrix is not None:
        return multiplied(x, matrix, (), True, out.dtype._numpy)
    return rounded(multiply(x, _weights(w, scales, scale_w, how).T), out.dtype._numpy)


@PULLBACK.of(QQMM)
def _pull_qqmm(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, w: Any, *inputs: Any) -> Any:
    how, quantized = params
    if any(needs_grad[2:]) or not (x.size and w.size):
        return None
    scales, _, _, (scale_x, scale_w) = scaling_inputs(inputs, quantized, False, False)
    left = rounded_through(x, how, scale_x) if needs_grad[1] else x.astype(np.float32, copy=False)
    gx, gy = pull_product(g.astype(np.float32, copy=False), left, _weights(w, scales, scale_w, how).T, needs_grad)
    return gx, gy if gy is None else gy.T, *[None] * len(inputs)


@BATCH.of(QQMM)
def _batch_qqmm(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    return None if any(batched[1:]) else apply(op, inputs, params)


@HOST.of(GATHER_QQMM)
def _host_gather_qqmm(out: Any, params: tuple, x: Any, w: Any, *inputs: Any) -> Any:
    how, quantized, left, right = params
    if not (x.size and w.size):
        return None
    scales, lhs, rhs, (scale_x, scale_w) = scaling_inputs(inputs, quantized, left, right)
    matrices, codes = flattened(w), flattened(scales)
    count = len(matrices)
    if scale_x is not None and scale_x.size > 1:
        each = zip(flattened(x), scale_x.ravel(), strict=True)
        x = np.stack([rounded_through(a, how, s) for a, s in each]).reshape(x.shape)
    else:
        x = rounded_through(x, how, scale_x)
    units = None if scale_w is None else np.broadcast_to(scale_w.ravel(), (count,))

    def build(k: int) -> Any:
        scale = None if units is None else units[k]
        return _weights(matrices[k], None if codes is None else codes[k], scale, how).T

    parts = None if codes is None else stored(how, codes, None, w, None if units is None else units / LARGEST)
    found = Selected(lhs, rhs, build, w.shape[:-2], (x.shape[-1], w.shape[-2]), parts, True)
    return found.product(x, out.dtype._numpy)


if native is not None:  # NumPy's tier calls the same C functions as XLA, so XLA is not faster
    QUICK.update((QQMM, GATHER_QQMM))


COST.of(QQMM, GATHER_QQMM)(quantized_cost)
