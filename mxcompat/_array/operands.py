"""Operands: turning what a user passes to an op into nodes.

A Python number takes its dtype from the array beside it (it is weak); everything else brings its own.
"""

from __future__ import annotations

from typing import Any

from mxcompat._graph import aval as avals
from mxcompat._graph.aval import Dtype, aval
from mxcompat._graph.node import Node, scalar

from .array import array
from .construct import node_of
from .promotion import scalar_dtype

__all__ = ["node", "pair"]


def node(value: Any, like: Dtype | None = None) -> Node:
    """The node of an operand. `like` is the dtype of the array beside it, if there is one.

    Raises:
        ValueError: if it cannot be an array, or is a number outside the range of its dtype.
    """
    kind = type(value)
    if kind is array:
        return value._node
    if kind is float or kind is int or kind is bool or kind is complex:
        return scalar_node(value, scalar_dtype(kind, like))
    return node_of(value, like)


def scalar_node(value: Any, dtype: Dtype) -> Node:
    """A leaf for a Python number, of the given dtype."""
    kind = dtype.kind
    if kind == "f":
        value = float(value)
        if value == 0.0 and str(value)[0] == "-":  # equal to 0.0, so it must not meet it in a cache of values
            return node_of(value, dtype)
    elif kind == "c":
        value = complex(value)
    elif kind == "b":
        value = bool(value)
    else:
        value = int(value)
        low, high = _RANGES[dtype]
        if not low <= value <= high:
            raise ValueError(f"Converting {value} to {dtype.name} would result in overflow.")
    return scalar(value, aval((), dtype))


def pair(a: Any, b: Any) -> tuple[Node, Node]:
    """The nodes of the two operands of a binary op."""
    if type(a) is array:
        x = a._node
        return x, b._node if type(b) is array else node(b, x.aval.dtype)
    if type(b) is array:
        y = b._node
        return node(a, y.aval.dtype), y
    return node(a), node(b)


_RANGES = {
    d: (-(2 ** (8 * d.size - 1)), 2 ** (8 * d.size - 1) - 1) if d.kind == "i" else (0, 2 ** (8 * d.size) - 1)
    for d in avals.DTYPES
    if d.kind in "iu"
}
