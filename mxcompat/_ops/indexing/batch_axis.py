"""Reshaping and index plans of nodes with a batch axis, for the batching rules of reads and writes by index."""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._graph.ir.aval import aval, int32
from mxcompat._graph.ir.node import Node, apply, scalar

from ..batching import broadcast_unbatched, reshaped
from ..define import TABLE
from .plan import Plan

__all__ = ["batched_indices", "lined_up", "numbered", "own_shape", "permuted", "spot_of", "whole"]


def own_shape(x: Node, on: bool) -> tuple[int, ...]:
    """Return the shape of an input, without the batch axis if the input has one."""
    return x.aval.shape[1:] if on else x.aval.shape


def lined_up(x: Node, on: bool, shape: tuple[int, ...], ndim: int, size: int) -> Node:
    """Return an input reshaped to `shape`. A batched input keeps its batch axis in front. Axes of size 1 follow it, so
    that it has `ndim` further axes."""
    return reshaped(x, size, *[1] * (ndim - len(shape)), *shape) if on else reshaped(x, *shape)


def whole(x: Node, on: bool, size: int) -> Node:
    return x if on else broadcast_unbatched(x, size)


def spot_of(plan: Plan, also: str) -> tuple[int, bool]:
    """Return the place in a plan's result at which the dimensions of the index arrays begin, and True if these arrays
    are adjacent.

    Args:
        also: "i" to count ints as arrays; "" to skip them.
    """
    items = [e for e in plan if e != "i"] if not also else [*plan]
    spots = [k for k, e in enumerate(items) if e == "a" or e == "i"]
    together = spots[-1] - spots[0] == len(spots) - 1
    return spots[0] if together else 0, together


def batched_indices(plan: Plan, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> list[Node] | None:
    """Return the inputs of a plan, reshaped so that they broadcast against each other; None if the start of a slice is
    batched."""
    needed = [e for e in plan if e == "i" or e == "a" or (type(e) is tuple and e[2] is None)]
    if any(on and e != "a" for e, on in zip(needed, batched, strict=True)):
        return None
    ndim = max([len(own_shape(x, on)) for x, on in zip(inputs, batched, strict=True)])
    return [lined_up(x, on, own_shape(x, on), ndim, size) for x, on in zip(inputs, batched, strict=True)]


def numbered(size: int, ndim: int) -> Node:
    """Return the indices 0, 1, 2, … of the batch axis, shaped to broadcast against index arrays with `ndim`
    dimensions."""
    start, step = (scalar(n, aval((), int32)) for n in (0, 1))
    return reshaped(apply(TABLE["arange"], (start, step), (size,)), size, *[1] * ndim)


def permuted(x: Node, order: Sequence[int]) -> Node:
    return x if [*order] == [*range(len(order))] else apply(TABLE["transpose"], (x,), (tuple(order),))
