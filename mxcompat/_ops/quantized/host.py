"""Quantization, and products with quantized matrices, on the host: in C (`stored`) or in NumPy. NumPy unpacks a matrix
once for all rows, to float32, and rounds the product once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD, QUICK
from mxcompat._graph.policy import QUANTIZED_ELEMENTS
from mxcompat._native import native
from mxcompat._native.products import KINDS

from ..products.contraction import chosen, clipped, multiply, pull_product, rounded, swapped, wide_dtype, widened
from ..products.stored import Stored, gathered, multiplied
from .codes import decode, encode, floats, from_e4m3, grouped, pack, rounded_through, to_e4m3, unpack
from .fp8 import FROM_FP8, TO_FP8
from .matmul import GATHER_QMM, GATHER_QMM_FP, QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP
from .primitive import matrix_inputs
from .qqmm import GATHER_QQMM, QQMM, scaling_inputs
from .quantize import DEQUANTIZE, LARGEST, QUANTIZE, Scheme
from .stored import elements, stored

__all__: list[str] = []

_f32 = np.float32


if native is not None:  # NumPy's tier calls the same C functions as XLA, so XLA is not faster
    QUICK.update((QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP, GATHER_QMM, GATHER_QMM_FP, QQMM, GATHER_QQMM))


@HOST.of(TO_FP8)
def _host_to_fp8(out: Any, params: tuple, x: Any) -> Any:
    return to_e4m3(x)


@HOST.of(FROM_FP8)
def _host_from_fp8(out: Any, params: tuple, x: Any) -> Any:
    return rounded(from_e4m3(x), out.dtype._numpy)


@HOST.of(QUANTIZE)
def _host_quantize(out: Any, params: tuple, w: Any, *global_scale: Any) -> Any:
    (how,) = params
    if not w.size:
        return None
    groups = w.reshape(-1, how.group_size)
    parts = [np.empty(a.shape, a.dtype._numpy) for a in out]
    of_groups = [part.reshape(len(groups), -1) for part in parts]
    for some in _blocks(len(groups), how):
        codes, *scales = encode(groups[some], how, *global_scale)
        for part, result in zip(of_groups, (pack(codes, how.bits), *scales), strict=True):
            part[some] = result
    return tuple(parts)


def _blocks(groups: int, how: Scheme) -> Iterator[slice]:
    """Return slices of the groups that are small enough for the processor's cache."""
    step = QUANTIZED_ELEMENTS // how.group_size
    return (slice(start, start + step) for start in range(0, groups, step))


def _repeated(x: Any, how: Scheme, shape: tuple[int, ...]) -> Any:
    """Return a value for each element, from a value for each group, or from one value for all."""
    return np.broadcast_to(x, shape) if x.shape[-1] == 1 != shape[-1] else x.repeat(how.group_size, -1)


@HOST.of(DEQUANTIZE)
def _host_dequantize(out: Any, params: tuple, scales: Any, w: Any, *more: Any) -> Any:
    how, _ = params
    dtype = out.dtype._numpy
    if how.mode != "affine":
        unit = more[0].reshape(()) / LARGEST if more else _f32(1)
        values = elements(how, scales, None, w, _f32, dtype, float(unit))
        if values is not None:
            return values
        if not more:
            return rounded(decode(w, scales, None, how, _wide(dtype)), dtype)
        return rounded(floats(w, how) * (from_e4m3(scales) * unit).repeat(how.group_size, -1), dtype)
    (biases,) = more
    step = promote(from_numpy(scales.dtype), from_numpy(biases.dtype))._numpy  # type: ignore[arg-type]
    values = elements(how, scales, biases, w, step, dtype) if biases.shape == scales.shape else None
    if values is not None:
        return values
    groups = (*out.shape[:-1], out.shape[-1] // how.group_size)
    scales, biases = (np.broadcast_to(rounded(x, step), groups).reshape(-1, 1) for x in (scales, biases))
    words = w.reshape(len(scales), how.group_size * how.bits // 32)
    values = np.empty(out.shape, dtype)
    of_groups = values.reshape(len(scales), how.group_size)
    for some in _blocks(len(scales), how):
        x = unpack(words[some], how.bits).astype(step)
        np.multiply(x, scales[some], x)
        of_groups[some] = rounded(np.add(x, biases[some], x), dtype)  # MLX rounds twice here
    return values


def _wide(dtype: Any) -> Any:
    return dtype if dtype == np.float64 else _f32


@PULLBACK.of(DEQUANTIZE)
def _pull_dequantize(g: Any, y: Any, params: tuple, needs_grad: tuple, scales: Any, w: Any, *more: Any) -> Any:
    how, _ = params
    if how.mode != "affine":
        return None
    g = grouped(widened(g, y.dtype), how)
    gb = g.sum(-1)
    if more[0].shape[-1] == 1 != scales.shape[-1]:
        gb = gb.sum(-1, keepdims=True)
    return (g * grouped(unpack(w, how.bits), how)).sum(-1), None, gb


@PUSHFORWARD.of(DEQUANTIZE)
def _push_dequantize(tangents: Any, y: Any, params: tuple, scales: Any, w: Any, *more: Any) -> Any:
    how, _ = params
    if how.mode != "affine":
        return None
    codes, kind, total = unpack(w, how.bits), widened(y, y.dtype).dtype, np.zeros((), y.dtype)
    if tangents[0] is not None:
        total = codes.astype(kind) * _repeated(tangents[0].astype(kind), how, codes.shape)
    return total if tangents[2] is None else total + _repeated(tangents[2].astype(kind), how, codes.shape)


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


@HOST.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _host_product(out: Any, params: tuple, x: Any, *inputs: Any) -> Any:
    how, transpose = params
    return _product(x, _first(x, *matrix_inputs(how, inputs)[:3]), how, transpose, out.dtype._numpy, out.dtype._numpy)


def _product(x: Any, parts: tuple[Any, ...], how: Scheme, transpose: bool, dtype: Any, result: Any) -> Any:
    """Return the product of x, cast to `dtype`, and quantized matrices. The product has the dtype `result`."""
    scales, biases, w = parts
    matrices = stored(how, scales, biases, w) if x.size and w.size else None
    if matrices is None:
        return rounded(multiply(widened(x, dtype), _matrix(parts, how, transpose)), result)
    return multiplied(x if x.dtype in KINDS else x.astype(dtype), matrices, w.shape[:-2], transpose, result)


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


def _flat(a: Any) -> Any:
    return a if a is None else a.reshape(-1, *a.shape[-2:])


class _Chosen:
    """Products of selected matrices of x with selected quantized matrices.

    Args:
        lhs, rhs: the numbers of the selected matrices, or None for all matrices in place.
        build: returns the unpacked matrix with a number.
        batch: the leading axes of the quantized matrices.
        shape: the shape of each quantized matrix as right operand.
        matrices: all matrices as C reads them, or None if C cannot.
        transpose: multiply by the transposed matrices.
    """

    def __init__(
        self, lhs: Any, rhs: Any, build: Any, batch: tuple[int, ...], shape: tuple[int, int],
        matrices: Stored | None, transpose: bool,
    ) -> None:  # fmt: skip
        self.count = math.prod(batch)
        self.lhs, self.build, self.shape = lhs, build, shape
        self.matrices, self.transpose = matrices, transpose
        self.rhs = np.arange(self.count).reshape(batch) if rhs is None else clipped(rhs, self.count)

    def rows(self, x: Any) -> Any:
        """Return, for each product, the position of its left matrix among the matrices of x."""
        count = math.prod(x.shape[:-2])
        return np.arange(count).reshape(x.shape[:-2]) if self.lhs is None else clipped(self.lhs, count)

    def product(self, x: Any, dtype: Any) -> Any:
        """Return the products in a dtype. x is first cast to this dtype, unless C reads x as it is."""
        if self.matrices is not None:
            x = x if x.dtype in KINDS else x.astype(dtype)
            return gathered(x, self.matrices, self.rows(x), self.rhs, self.transpose, dtype)
        x = widened(x, dtype)
        return rounded(chosen(_flat(x)[self.rows(x)], self.rhs, self.build, self.count, self.shape), dtype)

    def pull(self, g: Any, x: Any) -> Any:
        """Return the cotangent of x."""
        lead = g.shape[:-2]
        inner, columns = self.shape
        rhs = np.broadcast_to(self.rhs, lead)
        if self.matrices is not None:
            numbers = np.arange(rhs.size).reshape(lead)
            back = gathered(g, self.matrices, numbers, rhs, not self.transpose, g.dtype)
        else:
            back = chosen(g, rhs, lambda k: self.build(k).T, self.count, (columns, inner))
        gx = np.zeros((math.prod(x.shape[:-2]), *x.shape[-2:]), g.dtype)
        np.add.at(gx, np.broadcast_to(self.rows(x), lead).ravel(), _flat(back))
        return gx.reshape(x.shape)


def _gathered(params: tuple, x: Any, inputs: tuple) -> _Chosen | None:
    how, transpose, left, right, scaled = params
    scales, biases, w, rest = matrix_inputs(how, inputs)
    if not (w.size and x.size):
        return None
    remaining = list(rest)
    lhs = remaining.pop(0) if left else None
    rhs = remaining.pop(0) if right else None
    flat = [_flat(a) for a in (scales, biases, w)]
    units = remaining[0].reshape(-1) / LARGEST if scaled else None

    def build(k: int) -> Any:
        y = _matrix(tuple([a if a is None else a[k] for a in flat]), how, transpose)
        return y if units is None else y * units[k]

    columns = scales.shape[-1] * how.group_size
    shape = (columns, w.shape[-2]) if transpose else (w.shape[-2], columns)
    return _Chosen(lhs, rhs, build, w.shape[:-2], shape, stored(how, scales, biases, w, units), transpose)


@HOST.of(GATHER_QMM, GATHER_QMM_FP)
def _host_gather(out: Any, params: tuple, x: Any, *inputs: Any) -> Any:
    chosen = _gathered(params, x, inputs)
    return None if chosen is None else chosen.product(x, out.dtype._numpy)


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
    left = rounded_through(x, how, scale_x) if needs_grad[1] else x.astype(_f32, copy=False)
    gx, gy = pull_product(g.astype(_f32, copy=False), left, _weights(w, scales, scale_w, how).T, needs_grad)
    return gx, gy if gy is None else gy.T, *[None] * len(inputs)


@HOST.of(GATHER_QQMM)
def _host_gather_qqmm(out: Any, params: tuple, x: Any, w: Any, *inputs: Any) -> Any:
    how, quantized, left, right = params
    if not (x.size and w.size):
        return None
    scales, lhs, rhs, (scale_x, scale_w) = scaling_inputs(inputs, quantized, left, right)
    matrices, codes = _flat(w), _flat(scales)
    count = len(matrices)
    if scale_x is not None and scale_x.size > 1:
        each = zip(_flat(x), scale_x.ravel(), strict=True)
        x = np.stack([rounded_through(a, how, s) for a, s in each]).reshape(x.shape)
    else:
        x = rounded_through(x, how, scale_x)
    units = None if scale_w is None else np.broadcast_to(scale_w.ravel(), (count,))

    def build(k: int) -> Any:
        scale = None if units is None else units[k]
        return _weights(matrices[k], None if codes is None else codes[k], scale, how).T

    parts = None if codes is None else stored(how, codes, None, w, None if units is None else units / LARGEST)
    products = _Chosen(lhs, rhs, build, w.shape[:-2], (x.shape[-1], w.shape[-2]), parts, True)
    return products.product(x, out.dtype._numpy)
