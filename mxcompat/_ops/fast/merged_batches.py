"""Arrays whose axis of batches includes the batch axis of `vmap`, for batching rules."""

from __future__ import annotations

from mxcompat._graph.ir.node import Node, apply

from ..batching import reshaped
from ..define import TABLE

__all__ = ["merged_batch", "split_batch"]


def merged_batch(node: Node, on: bool, size: int, batch: int) -> Node:
    """Return a node `(B, …)`, where B is `batch` or 1, as `(size * batch, …)`. A batched node is `(size, B, …)`."""
    rest = node.aval.shape[1 + on :]
    shape = (size, batch, *rest)
    if not on:
        node = reshaped(node, 1, *node.aval.shape)
    if node.aval.shape != shape:
        node = apply(TABLE["broadcast_to"], (node,), (shape,))
    return reshaped(node, size * batch, *rest)


def split_batch(node: Node, size: int, batch: int) -> Node:
    return reshaped(node, size, batch, *node.aval.shape[1:])
