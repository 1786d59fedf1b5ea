"""Helpers for the BATCH rules of all families.

The batch axis is the first axis of each batched input and of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op

from .define import TABLE

__all__ = [
    "aligned", "all_batched", "batched_elementwise", "broadcast_unbatched", "inner", "later", "rank", "reshaped",
    "swapped_in",
]  # fmt: skip


def rank(inputs: Sequence[Node], batched: Sequence[bool]) -> int:
    """Return the largest number of axes among the inputs, without the batch axis."""
    return max([n.aval.ndim - on for n, on in zip(inputs, batched, strict=True)])


def aligned(inputs: Sequence[Node], batched: Sequence[bool], ndim: int) -> tuple[Node, ...]:
    """Return the inputs, reshaped so that they broadcast against each other as before the batching.

    A batched input with fewer than `ndim` axes besides the batch axis gets axes of size 1 after the batch axis.
    Unbatched inputs broadcast unchanged.
    """
    return tuple([_raised(n, ndim) if on else n for n, on in zip(inputs, batched, strict=True)])


def _raised(node: Node, ndim: int) -> Node:
    missing = ndim + 1 - node.aval.ndim
    return node if missing <= 0 else apply(TABLE["expand_dims"], (node,), (tuple(range(1, 1 + missing)),))


def broadcast_unbatched(node: Node, size: int) -> Node:
    """Return an unbatched node with a batch axis, along which it is repeated."""
    return apply(TABLE["broadcast_to"], (node,), ((size, *node.aval.shape),))


def all_batched(inputs: Sequence[Node], batched: Sequence[bool], size: int) -> tuple[Node, ...]:
    """Return the inputs with a batch axis each."""
    return tuple([n if on else broadcast_unbatched(n, size) for n, on in zip(inputs, batched, strict=True)])


def batched_elementwise(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    """Batch an op whose inputs broadcast against each other and whose params name no axis."""
    if len(inputs) > 1:
        inputs = aligned(inputs, batched, rank(inputs, batched))
    return apply(op, inputs, params)


def later(axis: int) -> int:
    """Return an axis shifted past the new first axis."""
    return axis if axis < 0 else axis + 1


def reshaped(x: Node, *shape: int) -> Node:
    """Return a node reshaped to another shape."""
    return x if x.aval.shape == shape else apply(TABLE["reshape"], (x,), (shape,))


def swapped_in(x: Node, source: int) -> Node:
    """Return a node with an axis moved to the front."""
    order = (source, *[k for k in range(x.aval.ndim) if k != source])
    return apply(TABLE["transpose"], (x,), (order,)) if source else x


def inner(x: Node) -> Any:
    """Return the aval of a batched node without the batch axis."""
    return aval(x.aval.shape[1:], x.aval.dtype)
