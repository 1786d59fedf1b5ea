"""Buffers with room to grow, for caches that a program repeatedly extends with zeros.

A program that generates tokens keeps keys and values in a buffer. When the buffer is full, the program concatenates it
with zeros, 256 entries at a time. XLA's shapes are static, so each size would need a new executable. Here the longer
array is a *prefix* of a larger buffer of zeros (`padded_size`). A write into a prefix becomes a write into its buffer,
and a read of its first entries becomes a read of the buffer. So the programs of all steps only see the buffer's shape,
and new executables are needed only when the buffer has quadrupled (a small one) or doubled.

A prefix is an ordinary node. It is computed only if it is read as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.policy import PADDED_BYTES, PADDED_ROOM
from mxcompat._jax import lax

from ..creation.filled import CONSTANT
from ..define import op
from ..elementwise.by_bits import by_bits
from .plan import Plan, source_axes

__all__ = ["PREFIX", "buffer_read", "buffer_written", "grown", "padded_size"]


def _prefix(x: Any, *, axis: int, size: int) -> Any:
    return lax.slice_in_dim(x, 0, size, axis=axis)


def _prefix_aval(x: Aval, *, axis: int, size: int) -> Aval:
    return aval((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


PREFIX = op("prefix", by_bits(_prefix), _prefix_aval, ("axis", "size"))
"""The first entries of a buffer along an axis. The entries behind them are zeros."""


def padded_size(n: int, array: Aval, axis: int) -> int:
    """Return the size of a buffer that is read and written in place of the first n entries of an array.

    It is at least `PADDED_ROOM`, and grows by a factor of four while that takes little memory, then of two: to read the
    empty rest of a small buffer costs less than to compile for another size.
    """
    entry = array.nbytes // array.shape[axis]
    size = PADDED_ROOM
    while size < n:
        size *= 4 if 4 * size * entry <= PADDED_BYTES else 2
    return size


def grown(nodes: Sequence[Node], axis: int, join: Any) -> Node | None:
    """Return a prefix for a buffer that is joined with zeros, or None for other operands.

    Args:
        nodes: the operands of the concatenation.
        axis: the axis of the concatenation.
        join: the op of the concatenation.
    """
    if len(nodes) != 2 or nodes[1].op is not CONSTANT or nodes[1].params[1] != 0:
        return None
    x, zeros = nodes
    buffer = x.inputs[0] if x.op is PREFIX else x
    if x.trace or buffer.op is not None or x.aval.ndim < 3 or x.aval.dtype is not zeros.aval.dtype:
        return None
    axis %= x.aval.ndim
    if x.op is PREFIX and x.params[0] != axis:
        return None
    before, more = x.aval.shape[axis], zeros.aval.shape[axis]
    if not before or before % PADDED_ROOM or more % PADDED_ROOM:
        return None
    size = before + more
    join_to = padded_size(size, x.aval, axis)
    room = buffer.aval.shape[axis]
    if room < size:
        if join_to == size and x is buffer:
            return None
        rest = (*x.aval.shape[:axis], join_to - room, *x.aval.shape[axis + 1 :])
        buffer = apply(join, (buffer, apply(CONSTANT, (), (aval(rest, x.aval.dtype), 0))), (axis,))
        room = join_to
    return buffer if room == size else apply(PREFIX, (buffer,), (axis, size))


def _growing_entry(x: Node, plan: Plan) -> Any:
    """Return the entry of a plan for the axis along which a prefix grows."""
    return source_axes(plan, x.aval.ndim)[x.params[0]]


def buffer_written(op: Any, x: Node, inputs: Sequence[Node], params: tuple[Plan, str]) -> Node | None:
    """Return the prefix of the buffer after a write, for a write into part of a prefix; None for other writes."""
    entry = _growing_entry(x, params[0])
    if x.value is not None or entry == ":" or any(node.trace for node in inputs):
        return None
    return apply(PREFIX, (apply(op, (x.inputs[0], *inputs), params),), x.params)


def buffer_read(x: Node, plan: Plan) -> Node:
    """Return the buffer of a prefix, if a read of part of the prefix reads the same elements of the buffer; else the
    prefix."""
    if x.value is not None or plan[0] == "*":
        return x
    entry = _growing_entry(x, plan)
    return x.inputs[0] if entry == "i" or type(entry) is tuple else x
