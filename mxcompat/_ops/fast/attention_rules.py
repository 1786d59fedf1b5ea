"""Rules of attention.

In NumPy, all heads that share keys are rows of one matrix product. For batching, the batch axis of `vmap` is merged
into the axis of batches.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, CONTRACTION, COST, HOST, PULLBACK, PUSHFORWARD, READS_INPUTS, RESIDUALS
from mxcompat._graph.policy import BYTE_SECONDS, OP_SECONDS

from ..batching import reshaped
from ..cost import products_seconds
from ..padding.padded import Paddings, check_rows, stretched
from ..products.contraction import times
from .attention import ATTENTION, rows_at_a_time
from .few_queries import are_few, attended
from .merged_batches import merged_batch, split_batch

__all__: list[str] = []


class _Case(NamedTuple):
    """The inputs of one call, in the dtype of the computation.

    `k`, `v` and `mask` are cut to the valid length; `keys` is the number of keys before. `q` is already scaled. Arrays
    with queries are `(B, N, Tq, …)`; in products with the keys they are `(B, Nkv, N / Nkv * Tq, …)`.
    """

    q: Any
    k: Any
    v: Any
    scale: Any
    mask: Any
    drop: Any
    sinks: Any
    keys: int


def _case(params: tuple, wide: Any, q: Any, k: Any, v: Any, scale: Any, *rest: Any) -> _Case | None:
    causal, masked, sinks, prefix = params
    queries, keys = q.shape[2], k.shape[2]
    if not keys or not q.size:
        return None
    length = int(rest[masked]) if prefix else keys
    q, k, v = (x.astype(wide, copy=False) for x in (q, k, v))
    scale = scale.astype(wide)
    mask = rest[0] if masked else None
    if length < keys:
        k, v = k[:, :, :length], v[:, :, :length]
        if mask is not None and mask.ndim and mask.shape[-1] == keys:
            mask = mask[..., :length]
    drop = None
    if causal and (queries > 1 or length < 1):
        drop = np.arange(length - queries, length)[:, None] < np.arange(min(length, keys))
    elif mask is not None and mask.dtype.kind == "b":
        drop, mask = ~mask, None
    sink = rest[-1].astype(wide)[:, None, None] if sinks else None
    return _Case(q * scale, k, v, scale, mask, drop, sink, keys)


def _wide(dtype: Any) -> Any:
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _by_groups(x: Any, groups: int) -> Any:
    return x.reshape(x.shape[0], groups, -1, x.shape[-1])


def _times(rows: Any, matrix: Any) -> Any:
    """Return rows `(B, N, Tq, …)` times a matrix for each group of heads."""
    groups = matrix.shape[1]
    if groups == rows.shape[1]:
        return times(rows, matrix)
    return times(_by_groups(rows, groups), matrix).reshape(*rows.shape[:-1], matrix.shape[-1])


def _weights(case: _Case) -> tuple[Any, Any, Any]:
    """Return the exponentials of the scores, their sum for each query, and the share of the sink in that sum."""
    scores = _times(case.q, case.k.swapaxes(-1, -2))
    if case.mask is not None:
        scores += case.mask.astype(scores.dtype, copy=False)
    if case.drop is not None:
        np.copyto(scores, np.finfo(scores.dtype).min, where=case.drop)
    top = np.maximum.reduce(scores, -1, None, None, True)
    if case.sinks is not None:
        top = np.maximum(top, case.sinks)
    scores -= top
    np.exp(scores, scores)
    total = np.add.reduce(scores, -1, None, None, True)
    if case.sinks is None:
        return scores, total, None
    sink = np.exp(case.sinks - top)
    total += sink
    return scores, total, sink / total


def _attended(case: _Case) -> Any:
    powers, total, _ = _weights(case)
    y = _times(powers, case.v)
    y /= total
    return y


def _rows(case: _Case, part: slice) -> _Case:
    """Return the inputs for some rows of the queries."""
    mask, drop = (x if x is None or x.ndim < 2 or x.shape[-2] == 1 else x[..., part, :] for x in (case.mask, case.drop))
    return case._replace(q=case.q[:, :, part], mask=mask, drop=drop)


@HOST.of(ATTENTION)
def _attention(out: Aval, params: tuple, *inputs: Any) -> Any:
    dtype = out.dtype._numpy
    causal, masked, sinks, prefix = params
    length = int(inputs[4 + masked]) if prefix else inputs[1].shape[2]
    if prefix and length < 1:
        return None
    q, k, v, scale = inputs[:4]
    if q.dtype == k.dtype == v.dtype and are_few(q, k, v):
        mask, sink = inputs[4] if masked else None, inputs[-1] if sinks else None
        return attended(q, k, v, float(scale), length, mask, sink, causal)
    case = _case(params, _wide(dtype), *inputs)
    if case is None:
        return np.zeros(out.shape, dtype)
    batch, heads, queries, _ = case.q.shape
    rows = rows_at_a_time(batch * heads, queries, case.k.shape[2])
    if rows >= queries:
        return _attended(case).astype(dtype, copy=False)
    y = np.empty(out.shape, dtype)
    for start in range(0, queries, rows):
        part = slice(start, start + rows)
        y[:, :, part] = _attended(_rows(case, part))
    return y


def _transposed_times(left: Any, right: Any, groups: int) -> Any:
    """Return the product summed over the queries and over the heads of a group."""
    return np.matmul(_by_groups(left, groups).swapaxes(-1, -2), _by_groups(right, groups))


@COST.of(ATTENTION)
def _attention_cost(out: Any, params: tuple, q: Any, k: Any, *others: Any) -> float:
    scores = math.prod(q.shape[:-1]) * k.shape[-2]
    return 10 * OP_SECONDS + products_seconds(2 * scores * q.shape[-1]) + 20 * BYTE_SECONDS * scores


def _slopes(weights: Any, moved: Any) -> tuple[Any, Any]:
    """Return the change of the softmax due to a change `moved` of the scores, or the reverse; and the weighted mean of
    the change. `moved` is overwritten."""
    moved *= weights
    mean = np.add.reduce(moved, -1, None, None, True)
    moved -= weights * mean
    return moved, mean


def _padded(x: Any, keys: int) -> Any:
    """Return x with zeros for the keys that were cut off."""
    if x.shape[2] == keys:
        return x
    out = np.zeros((*x.shape[:2], keys, x.shape[3]), x.dtype)
    out[:, :, : x.shape[2]] = x
    return out


def _mask_back(moved: Any, shape: tuple[int, ...], keys: int) -> Any:
    if moved.shape[-1] == keys or not shape or shape[-1] != keys:
        return moved
    out = np.zeros((*moved.shape[:-1], keys), moved.dtype)
    out[..., : moved.shape[-1]] = moved
    return out


@PULLBACK.of(ATTENTION)
def _attention_back(g: Any, y: Any, params: tuple, needs_grad: Any, *inputs: Any) -> Any:
    _, masked, sinks, prefix = params
    if prefix and int(inputs[4 + masked]) < 1:
        return None
    case = _case(params, _wide(y.dtype), *inputs)
    if case is None:
        return tuple([np.zeros(x.shape, np.float32) for x in inputs])
    groups = case.k.shape[1]
    weights, total, sink = _weights(case)
    weights /= total
    g = g.astype(case.q.dtype, copy=False)
    cotangents: list[Any] = [None] * len(inputs)
    if needs_grad[2]:
        cotangents[2] = _padded(_transposed_times(weights, g, groups), case.keys)
    moved, mean = _slopes(weights, _times(g, case.v.swapaxes(-1, -2)))
    if case.drop is not None:
        np.copyto(moved, 0, where=case.drop)
    if needs_grad[0] or needs_grad[3]:
        unscaled = _times(moved, case.k)
        cotangents[0] = unscaled * case.scale
        cotangents[3] = (
            np.add.reduce(unscaled * inputs[0].astype(unscaled.dtype, copy=False), None) if needs_grad[3] else None
        )
    if needs_grad[1]:
        cotangents[1] = _padded(_transposed_times(moved, case.q, groups), case.keys)
    if masked and needs_grad[4] and case.mask is not None:
        cotangents[4] = _mask_back(moved, inputs[4].shape, case.keys)
    if sinks and needs_grad[-1]:
        cotangents[-1] = -np.add.reduce(sink * mean, (0, 2, 3))
    return tuple(cotangents)


@PUSHFORWARD.of(ATTENTION)
def _attention_forth(tangents: Any, y: Any, params: tuple, *inputs: Any) -> Any:
    _, _, sinks, prefix = params
    if prefix or tangents[3] is not None:
        return None
    case = _case(params, _wide(y.dtype), *inputs)
    if case is None:
        return np.zeros(y.shape, np.float32)
    dtype = case.q.dtype
    weights, total, sink = _weights(case)
    weights /= total
    tq, tk, tv = (None if t is None else t.astype(dtype, copy=False) for t in tangents[:3])
    moved = np.zeros_like(weights)
    if tq is not None:
        moved += _times(tq * case.scale, case.k.swapaxes(-1, -2))
    if tk is not None:
        moved += _times(case.q, tk.swapaxes(-1, -2))
    if case.mask is not None and tangents[4] is not None:
        moved += tangents[4].astype(dtype, copy=False)
    if case.drop is not None:
        np.copyto(moved, 0, where=case.drop)
    moved, _ = _slopes(weights, moved)
    if sinks and tangents[-1] is not None:
        moved -= weights * (sink * tangents[-1].astype(dtype, copy=False)[:, None, None])
    out = _times(moved, case.v)
    return out if tv is None else out + _times(weights, tv)


RESIDUALS[ATTENTION] = READS_INPUTS


def _mask(mask: Node, on: bool, size: int, batch: int) -> Node:
    """Return a mask that broadcasts to `(size * batch, N, Tq, Tkv)`."""
    shape = mask.aval.shape
    if not on and (len(shape) < 4 or shape[0] == 1):
        return mask
    if on and len(shape) < 5:
        mask = reshaped(mask, size, *[1] * (5 - len(shape)), *shape[1:])
    return merged_batch(mask, on, size, batch)


@BATCH.of(ATTENTION)
def _batch_attention(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    masked = params[1]
    if batched[3] or any(batched[4 + masked :]):
        return None  # the op takes only one scale, one length and one row of sinks
    batch = inputs[0].aval.shape[batched[0]]
    merged = [merged_batch(n, on, size, batch) for n, on in zip(inputs[:3], batched[:3], strict=True)]
    masks = inputs[4 : 4 + masked]
    if masked:
        masks = (_mask(masks[0], batched[4], size, batch),)
    return split_batch(apply(op, (*merged, inputs[3], *masks, *inputs[4 + masked :]), params), size, batch)


@CONTRACTION.of(ATTENTION)
def _attention_contraction(node: Node, paddings: Paddings) -> tuple[tuple[Node, ...], tuple]:
    q, k, v, scale, *rest = node.inputs
    causal, masked, sinks, _ = node.params
    pad = paddings.reading(k, 2)
    check_rows(q, pad)
    inputs = [q, pad(k, 2), pad(v, 2), scale]
    if masked:
        inputs.append(stretched(rest.pop(0), -1, pad))
    return (*inputs, pad.length, *rest), (causal, masked, sinks, True)
