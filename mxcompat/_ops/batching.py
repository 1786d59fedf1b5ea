"""Batching: what the BATCH rules of all families are made of. The new axis is the first, of each batched input and of
the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op

from .define import TABLE
from .movement import arrange, shape  # noqa: F401  # for their records, in TABLE

__all__ = ["aligned", "all_batched", "batched_elementwise", "broadcast_unbatched", "rank"]


def rank(inputs: Sequence[Node], batched: Sequence[bool]) -> int:
    """The largest number of axes among the inputs, the new one not counted."""
    return max([n.aval.ndim - on for n, on in zip(inputs, batched, strict=True)])


def aligned(inputs: Sequence[Node], batched: Sequence[bool], ndim: int) -> tuple[Node, ...]:
    """The inputs, such that they broadcast against each other as they did: a batched one with fewer than `ndim` axes
    besides the new one gets axes of size one right after that. Unbatched ones broadcast as they are."""
    return tuple([_raised(n, ndim) if on else n for n, on in zip(inputs, batched, strict=True)])


def _raised(node: Node, ndim: int) -> Node:
    missing = ndim + 1 - node.aval.ndim
    return node if missing <= 0 else apply(TABLE["expand_dims"], (node,), (tuple(range(1, 1 + missing)),))


def broadcast_unbatched(node: Node, size: int) -> Node:
    """A node that has no new axis, with one: the same along it."""
    return apply(TABLE["broadcast_to"], (node,), ((size, *node.aval.shape),))


def all_batched(inputs: Sequence[Node], batched: Sequence[bool], size: int) -> tuple[Node, ...]:
    """The inputs, all of them with the new axis."""
    return tuple([n if on else broadcast_unbatched(n, size) for n, on in zip(inputs, batched, strict=True)])


def batched_elementwise(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    """The rule for ops whose inputs broadcast against each other, and whose params name no axis."""
    if len(inputs) > 1:
        inputs = aligned(inputs, batched, rank(inputs, batched))
    return apply(op, inputs, params)
