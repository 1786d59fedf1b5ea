"""Rules of `quantize` and `dequantize`. In NumPy, groups are encoded and decoded in blocks that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._graph.policy import BLOCK_ELEMENTS

from ..batching import all_batched
from ..products.contraction import rounded, widened
from .codes import decode, encode, floats, from_e4m3, grouped, pack, unpack
from .quantize import DEQUANTIZE, LARGEST, QUANTIZE, Scheme
from .stored import elements

__all__: list[str] = []


def _blocks(groups: int, how: Scheme) -> Iterator[slice]:
    """Return slices of the groups that are small enough for the processor's cache."""
    step = BLOCK_ELEMENTS // how.group_size
    return (slice(start, start + step) for start in range(0, groups, step))


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


@BATCH.of(QUANTIZE)
def _batch_quantize(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    return None if any(batched[1:]) else apply(op, inputs, params)


def _wide(dtype: Any) -> Any:
    return dtype if dtype == np.float64 else np.float32


@HOST.of(DEQUANTIZE)
def _host_dequantize(out: Any, params: tuple, scales: Any, w: Any, *more: Any) -> Any:
    how, _ = params
    dtype = out.dtype._numpy
    if how.mode != "affine":
        unit = more[0].reshape(()) / LARGEST if more else np.float32(1)
        values = elements(how, scales, None, w, np.float32, dtype, float(unit))
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


def _repeated(x: Any, how: Scheme, shape: tuple[int, ...]) -> Any:
    """Return a value for each element, from a value for each group, or from one value for all."""
    return np.broadcast_to(x, shape) if x.shape[-1] == 1 != shape[-1] else x.repeat(how.group_size, -1)


@PUSHFORWARD.of(DEQUANTIZE)
def _push_dequantize(tangents: Any, y: Any, params: tuple, scales: Any, w: Any, *more: Any) -> Any:
    how, _ = params
    if how.mode != "affine":
        return None
    codes, kind, total = unpack(w, how.bits), widened(y, y.dtype).dtype, np.zeros((), y.dtype)
    if tangents[0] is not None:
        total = codes.astype(kind) * _repeated(tangents[0].astype(kind), how, codes.shape)
    return total if tangents[2] is None else total + _repeated(tangents[2].astype(kind), how, codes.shape)


@BATCH.of(DEQUANTIZE)
def _batch_dequantize(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    if params[0].mode == "affine":
        return apply(op, all_batched(inputs, batched, size), params)
    if any(batched[2:]):
        return None
    return apply(op, (*all_batched(inputs[:2], batched[:2], size), *inputs[2:]), params)
