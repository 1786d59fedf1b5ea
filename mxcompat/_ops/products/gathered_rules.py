"""Rules of products of selected matrices, blocks and segments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, COST, HOST, PULLBACK, PUSHFORWARD

from ..batching import aligned, broadcast_unbatched, rank
from ..cost import product_cost
from .batched_sums import own_shapes
from .contraction import bilinear, chosen, clipped, multiply, pull_product, rounded, widened
from .gathered import BLOCK_MASKED_MM, GATHER_MM, SEGMENTED_MM, mask_shape

__all__: list[str] = []


def _matrices(x: Any, y: Any) -> tuple[Any, Any]:
    return x if x.ndim > 1 else x[None], y if y.ndim > 1 else y[:, None]


def _numbers(indices: tuple, params: tuple, x: Any, y: Any) -> tuple[Any, Any] | None:
    """Return the numbers of the matrices of x and y for each product, counted through all leading axes.

    The result is None if there are no matrices to select.
    """
    remaining = list(indices)
    numbers = []
    for a, some in zip((x, y), params, strict=True):
        count = math.prod(a.shape[:-2])
        if not count:
            return None
        numbers.append(clipped(remaining.pop(0), count) if some else np.arange(count).reshape(a.shape[:-2]))
    return numbers[0], numbers[1]


def _flat(x: Any) -> Any:
    return x.reshape(-1, *x.shape[-2:])


def _gathered(x: Any, y: Any, numbers: tuple[Any, Any], shape: tuple[int, ...]) -> Any:
    """Return the products in the shape of the result."""
    every = _flat(y)
    return chosen(_flat(x)[numbers[0]], numbers[1], every.__getitem__, len(every), y.shape[-2:]).reshape(shape)


@HOST.of(GATHER_MM)
def _host_gather(out: Any, params: tuple, x: Any, y: Any, *indices: Any) -> Any:
    dtype = out.dtype._numpy
    x, y = _matrices(x, y)
    numbers = _numbers(indices, params, x, y)
    if numbers is None or not x.size or not y.size:
        return None
    return rounded(_gathered(widened(x, dtype), widened(y, dtype), numbers, out.shape), dtype)


@PULLBACK.of(GATHER_MM)
def _pull_gather(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any, *indices: Any) -> Any:
    left, right = _matrices(widened(x, out.dtype), widened(y, out.dtype))
    numbers = _numbers(indices, params, left, right)
    if numbers is None or not x.size or not y.size:
        return None
    batch = np.broadcast_shapes(*[n.shape for n in numbers])
    rows, which = [np.broadcast_to(n, batch).ravel() for n in numbers]
    g = widened(g, out.dtype).reshape(len(rows), left.shape[-2], right.shape[-1])
    every, matrices = _flat(left), _flat(right)
    gx = gy = None
    if needs_grad[0]:
        gx = np.zeros(every.shape, every.dtype)
        np.add.at(gx, rows, chosen(g, which, lambda k: matrices[k].T, len(matrices), matrices.shape[:0:-1]))
        gx = gx.reshape(x.shape)
    if needs_grad[1]:
        gy = np.zeros(matrices.shape, matrices.dtype)
        for k in np.unique(which):
            places = np.flatnonzero(which == k)
            lines = every[rows[places]].reshape(-1, every.shape[-1])
            gy[k] = lines.T.dot(g[places].reshape(-1, g.shape[-1]))
        gy = gy.reshape(y.shape)
    return gx, gy, *[None] * len(indices)


@PUSHFORWARD.of(GATHER_MM)
def _push_gather(tangents: Any, out: Any, params: tuple, x: Any, y: Any, *indices: Any) -> Any:
    numbers = _numbers(indices, params, *_matrices(x, y))
    if numbers is None or not x.size or not y.size:
        return None
    return bilinear(lambda a, b: _gathered(*_matrices(a, b), numbers, out.shape), tangents[:2], out.dtype, x, y)


@BATCH.of(GATHER_MM)
def _batch_gather(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    left, _ = params
    if left or batched[1] or inputs[0].aval.ndim - batched[0] < 2:
        return None
    x, y, indices = inputs
    batch = max(x.aval.ndim - batched[0] - 2, indices.aval.ndim - batched[2])
    (x,), (indices,) = aligned((x,), batched[:1], batch + 2), aligned((indices,), batched[2:], batch)
    return apply(op, (x, y, indices), params)


def _masked(x: Any, mask: Any) -> Any:
    if mask is None:
        return x
    return np.where(mask, x, x.dtype.type(0)) if mask.dtype == bool else x * rounded(mask, x.dtype)


def _mask(mask: Any, size: int, x: Any) -> Any:
    """Return an element of the mask for each of the matrices x."""
    rows, columns = x.shape[-2:]
    mask = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, mask_shape((), rows, columns, size)))
    return mask.repeat(size, -2).repeat(size, -1)[..., :rows, :columns]


def _masks(masks: tuple, params: tuple, x: Any, y: Any, like: Any) -> list[Any]:
    size, has_masks = params
    left = iter(masks)
    return [
        _mask(next(left), size, a) if has_mask else None for has_mask, a in zip(has_masks, (like, x, y), strict=True)
    ]


def _product_of_blocks(x: Any, y: Any, params: tuple, masks: tuple, shape: tuple[int, ...]) -> Any:
    x, y = _matrices(x, y)
    like = np.broadcast_to(np.zeros((), bool), (x.shape[-2], y.shape[-1]))
    out_mask, x_mask, y_mask = _masks(masks, params, x, y, like)
    return _masked(multiply(_masked(x, x_mask), _masked(y, y_mask)), out_mask).reshape(shape)


@HOST.of(BLOCK_MASKED_MM)
def _host_masked(out: Any, params: tuple, x: Any, y: Any, *masks: Any) -> Any:
    dtype = out.dtype._numpy
    return rounded(_product_of_blocks(widened(x, dtype), widened(y, dtype), params, masks, out.shape), dtype)


@PULLBACK.of(BLOCK_MASKED_MM)
def _pull_masked(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any, *masks: Any) -> Any:
    if any(needs_grad[2:]):
        return None
    left, right = _matrices(widened(x, out.dtype), widened(y, out.dtype))
    g = widened(g, out.dtype).reshape(*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], -1)
    out_mask, x_mask, y_mask = _masks(masks, params, left, right, g)
    gx: Any
    gy: Any
    gx, gy = pull_product(_masked(g, out_mask), _masked(left, x_mask), _masked(right, y_mask), needs_grad)
    gx = _masked(gx, x_mask) if needs_grad[0] else None
    gy = _masked(gy, y_mask) if needs_grad[1] else None
    gx = gx[..., 0, :] if needs_grad[0] and x.ndim == 1 else gx
    gy = gy[..., 0] if needs_grad[1] and y.ndim == 1 else gy
    return gx, gy, *[None] * len(masks)


@PUSHFORWARD.of(BLOCK_MASKED_MM)
def _push_masked(tangents: Any, out: Any, params: tuple, x: Any, y: Any, *masks: Any) -> Any:
    if any(t is not None for t in tangents[2:]):
        return None
    return bilinear(lambda a, b: _product_of_blocks(a, b, params, masks, out.shape), tangents[:2], out.dtype, x, y)


@BATCH.of(BLOCK_MASKED_MM)
def _batch_masked(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    if min(map(len, own_shapes(inputs[:2], batched[:2]))) < 2:
        return None
    if not any(batched[:2]):
        inputs, batched = (broadcast_unbatched(inputs[0], size), *inputs[1:]), (True, *batched[1:])
    return apply(op, aligned(inputs, batched, rank(inputs, batched)), params)


def _segment_mask(x: Any, segments: Any) -> Any:
    """Return a mask `(..., 1, K)` of the indices of the inner axis that are in each segment."""
    places = np.arange(x.shape[1]).astype(segments.dtype)
    return ((places >= segments[..., :1]) & (places < segments[..., 1:]))[..., None, :]


def _segmented(x: Any, y: Any, inside: Any) -> Any:
    return multiply(np.where(inside, x, x.dtype.type(0)), y)


@HOST.of(SEGMENTED_MM)
def _host_segmented(out: Any, params: tuple, x: Any, y: Any, segments: Any) -> Any:
    dtype = out.dtype._numpy
    return rounded(_segmented(widened(x, dtype), widened(y, dtype), _segment_mask(x, segments)), dtype)


@PULLBACK.of(SEGMENTED_MM)
def _pull_segmented(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any, segments: Any) -> Any:
    x, y = widened(x, out.dtype), widened(y, out.dtype)
    inside = _segment_mask(x, segments)
    gx, gy = pull_product(widened(g, out.dtype), np.where(inside, x, x.dtype.type(0)), y, needs_grad)
    return np.where(inside, gx, gx.dtype.type(0)) if needs_grad[0] else None, gy, None


@PUSHFORWARD.of(SEGMENTED_MM)
def _push_segmented(tangents: Any, out: Any, params: tuple, x: Any, y: Any, segments: Any) -> Any:
    inside = _segment_mask(x, segments)
    return bilinear(lambda a, b: _segmented(a, b, inside), tangents[:2], out.dtype, x, y)


@BATCH.of(SEGMENTED_MM)
def _batch_segmented(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    return None if any(batched[:2]) else apply(op, inputs, params)


COST.of(GATHER_MM, BLOCK_MASKED_MM, SEGMENTED_MM)(product_cost)
