"""Batching rules of the ops of `mx.fast`.

Norms and losses work on the last axis and accept any leading axes. Attention and rotary embeddings have an axis of
batches, into which the batch axis of `vmap` is merged.
"""

from __future__ import annotations

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, all_batched
from ..define import TABLE
from ..elementwise import arithmetic, casts  # noqa: F401  # for their records, in TABLE
from ..elementwise.casts import cast_node
from .attention import ATTENTION
from .norms import CROSS_ENTROPY, LAYER_NORM, RMS_NORM
from .rope import ROPE

__all__: list[str] = []


def _reshaped(node: Node, shape: tuple[int, ...]) -> Node:
    return apply(TABLE["reshape"], (node,), (shape,))


def _merged(node: Node, on: bool, size: int, batch: int) -> Node:
    """Return a node `(B, …)`, where B is `batch` or 1, as `(size * batch, …)`. A batched node is `(size, B, …)`."""
    rest = node.aval.shape[1 + on :]
    shape = (size, batch, *rest)
    if not on:
        node = _reshaped(node, (1, *node.aval.shape))
    if node.aval.shape != shape:
        node = apply(TABLE["broadcast_to"], (node,), (shape,))
    return _reshaped(node, (size * batch, *rest))


def _split(node: Node, size: int, batch: int) -> Node:
    return _reshaped(node, (size, batch, *node.aval.shape[1:]))


@BATCH.of(RMS_NORM, LAYER_NORM)
def _norm(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, eps, *scales = inputs
    if batched[1]:
        return None
    if not any(batched[2:]):
        return apply(op, inputs, params)
    # the op multiplies by the weights last; here, each batch element has its own weights
    weighted = params[0] if params else True
    dtype = x.aval.dtype
    for scale in scales if weighted else ():
        dtype = promote(dtype, scale.aval.dtype)
    out = apply(op, (cast_node(x, dtype), eps), (False, False) if params else ())
    ndim = x.aval.ndim - batched[0]
    for k, (scale, on) in enumerate(zip(scales, batched[2:], strict=True)):
        pair = aligned((out, cast_node(scale, dtype)), (batched[0], on), ndim)
        out = apply(TABLE["multiply" if weighted and k == 0 else "add"], pair)
    return out


@BATCH.of(CROSS_ENTROPY)
def _cross_entropy(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    return apply(op, all_batched(inputs, batched, size), params)


@BATCH.of(ATTENTION)
def _attention(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    masked = params[1]
    if batched[3] or any(batched[4 + masked :]):
        return None  # the op takes only one scale, one length and one row of sinks
    batch = inputs[0].aval.shape[batched[0]]
    merged = [_merged(n, on, size, batch) for n, on in zip(inputs[:3], batched[:3], strict=True)]
    masks = inputs[4 : 4 + masked]
    if masked:
        masks = (_mask(masks[0], batched[4], size, batch),)
    return _split(apply(op, (*merged, inputs[3], *masks, *inputs[4 + masked :]), params), size, batch)


def _mask(mask: Node, on: bool, size: int, batch: int) -> Node:
    """Return a mask that broadcasts to `(size * batch, N, Tq, Tkv)`."""
    shape = mask.aval.shape
    if not on and (len(shape) < 4 or shape[0] == 1):
        return mask
    if on and len(shape) < 5:
        mask = _reshaped(mask, (size, *[1] * (5 - len(shape)), *shape[1:]))
    return _merged(mask, on, size, batch)


@BATCH.of(ROPE)
def _rope(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, offset, *rest = inputs
    if any(batched[2:]):
        return None
    if not batched[1] and offset.aval.size == 1:
        return apply(op, inputs, params)
    batch = x.aval.shape[batched[0]]
    if batched[1] and offset.aval.ndim == 1:
        offset = _reshaped(offset, (size, 1))
    merged = _merged(x, batched[0], size, batch), _merged(offset, batched[1], size, batch)
    return _split(apply(op, (*merged, *rest), params), size, batch)
