"""Helpers for the BATCH rules of all families.

The batch axis is the first axis of each batched input and of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op

from .define import TABLE
from .movement import arrange, shape  # noqa: F401  # for their records, in TABLE

__all__ = ["aligned", "all_batched", "batched_elementwise", "broadcast_unbatched", "rank"]


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
