"""Rules of the rotary embedding. For batching, the batch axis of `vmap` is merged into the axis of batches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD, RESIDUALS, Residuals
from mxcompat._graph.policy import SEPARATE_ELEMENTS

from ..batching import reshaped
from .half_precision import widened
from .merged_batches import merged_batch, split_batch
from .rope import ROPE, inverse_frequencies

__all__: list[str] = []


def _angles(length: int, offset: Any, scale: Any, inverse: Any) -> Any:
    steps = np.arange(length, dtype=np.int32) + offset[..., None]
    return (steps.astype(np.float32) * scale)[..., None] * inverse


@functools.lru_cache(16)
def _remembered(length: int, offset: int, scale: float, half: int, base: float) -> tuple[Any, Any]:
    angles = _angles(length, np.array(offset).astype(np.int32), np.float32(scale), inverse_frequencies(half, base))
    return np.cos(angles), np.sin(angles)


def _waves(x: Any, params: tuple, offset: Any, scale: Any, freqs: tuple) -> tuple[Any, Any]:
    """Return the cosine and the sine of each angle, which broadcast to half of the features of x."""
    dims, _, base = params
    length, half = x.shape[-2], dims // 2
    if base is not None and not offset.ndim and length * half <= SEPARATE_ELEMENTS:
        return _remembered(length, int(offset), float(scale), half, base)
    inverse = 1 / freqs[0].astype(np.float32) if base is None else inverse_frequencies(half, base)
    angles = _angles(length, offset.astype(np.int32), scale.astype(np.float32), inverse)
    if offset.ndim:
        angles = angles.reshape(angles.shape[0], *[1] * (x.ndim - 3), *angles.shape[1:])
    return np.cos(angles), np.sin(angles)


def _turned(x: Any, cos: Any, sin: Any, params: tuple, dtype: np.dtype) -> Any:
    """Return x with each pair of features rotated."""
    dims, traditional, _ = params
    out = np.empty(x.shape, dtype)
    if dims < x.shape[-1]:
        out[..., dims:] = x[..., dims:]
    one, other = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(dims // 2), slice(dims // 2, dims))
    a, b = widened(x[..., one]), widened(x[..., other])
    out[..., one] = a * cos - b * sin
    out[..., other] = a * sin + b * cos
    return out


@HOST.of(ROPE)
def _rope(out: Aval, params: tuple, x: Any, offset: Any, scale: Any, *freqs: Any) -> Any:
    cos, sin = _waves(x, params, offset, scale, freqs)
    return _turned(x, cos, sin, params, out.dtype._numpy)


@PULLBACK.of(ROPE)
def _rope_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any, offset: Any, scale: Any, *freqs: Any) -> Any:
    """Return the cotangent of the features, or None (for XLA) if another cotangent is needed."""
    if any(needs_grad[1:]):
        return None
    cos, sin = _waves(x, params, offset, scale, freqs)
    return (_turned(g, cos, -sin, params, g.dtype), *[None] * (2 + len(freqs)))


@PUSHFORWARD.of(ROPE)
def _rope_forth(tangents: Any, y: Any, params: tuple, x: Any, offset: Any, scale: Any, *freqs: Any) -> Any:
    if any(t is not None for t in tangents[1:]):
        return None
    cos, sin = _waves(x, params, offset, scale, freqs)
    return _turned(tangents[0], cos, sin, params, tangents[0].dtype)


RESIDUALS[ROPE] = Residuals(slice(1, None), False)


@BATCH.of(ROPE)
def _batch_rope(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, offset, *rest = inputs
    if any(batched[2:]):
        return None
    if not batched[1] and offset.aval.size == 1:
        return apply(op, inputs, params)
    batch = x.aval.shape[batched[0]]
    if batched[1] and offset.aval.ndim == 1:
        offset = reshaped(offset, size, 1)
    merged = merged_batch(x, batched[0], size, batch), merged_batch(offset, batched[1], size, batch)
    return split_batch(apply(op, (*merged, *rest), params), size, batch)
