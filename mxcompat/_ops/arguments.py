"""Arguments of shape ops: sequences of integers, axes and shapes as users write them, checked and made plain.

What comes out is hashable and holds nothing but `int`, so that it can be an op's parameter. The messages are MLX's.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from mxcompat._array.array import array
from mxcompat._array.construct import bad_cast
from mxcompat._graph.ir.node import Node

__all__ = ["any_number", "axis_in", "integer", "integers", "is_sequence", "plain", "shape_of", "variadic"]

_LOW, _HIGH = -(2**31), 2**31 - 1


def integer(value: Any) -> int:
    """A plain int. Raises TypeError for what is not an integer, OverflowError beyond 32 bits."""
    n = index(value)
    if not _LOW <= n <= _HIGH:
        raise OverflowError(f"Integer value {n} is outside the supported range [{_LOW}, {_HIGH}].")
    return n


def is_sequence(value: Any) -> bool:
    """Whether it counts as a sequence: it has a length and items (a generator has not, a 0-d array has not)."""
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0


def integers(value: Any) -> tuple[int, ...]:
    """A tuple of plain ints, of a sequence of integers."""
    if not is_sequence(value):
        raise TypeError(f"incompatible function arguments: expected a sequence of ints, got {type(value).__name__}.")
    return tuple([integer(value[k]) for k in range(len(value))])


def plain(value: Any) -> tuple[int, ...]:
    """The same, quickly where it is a tuple or list of ints already."""
    if type(value) is list:
        value = tuple(value)
    if type(value) is tuple:
        for n in value:
            if type(n) is not int or not _LOW <= n <= _HIGH:
                return integers(value)
        return value
    return integers(value)


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape argument of a creation function: an int or a sequence of them.

    Raises:
        ValueError: if a size is negative.
        RuntimeError: if it is neither (MLX's binding layer calls it so).
    """
    if type(value) is tuple:
        shape = value
        for n in shape:
            if type(n) is not int or not 0 <= n <= _HIGH:
                break
        else:
            return shape
    if value is None:
        raise TypeError("incompatible function arguments: expected a shape, got None.")
    try:
        shape = (integer(value),) if isinstance(value, int) else integers(value)
    except TypeError:
        raise bad_cast("a shape is an int or a sequence of ints") from None
    if any(n < 0 for n in shape):
        raise ValueError("[full] Negative dimensions not allowed.")
    return shape


def axis_in(axis: Any, ndim: int, name: str) -> int:
    """The axis, counted from 0. Raises IndexError if there is none such, TypeError if it is no integer."""
    k = index(axis)
    if not -ndim <= k < ndim:
        raise IndexError(f"[{name}] Axis {k} is out of bounds for array with {ndim} dimensions.")
    return k + ndim if k < 0 else k


def any_number(value: Any, what: str) -> float:
    """A Python float, of anything that is a real number (a 0-d array is). Raises TypeError else."""
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) or not hasattr(type(value), "__float__"):
        raise TypeError(f"incompatible function arguments: {what} must be a number, got {type(value).__name__}.")
    return float(value)


def variadic(values: Sequence[Any], name: str) -> list[Node]:
    """The nodes of `*arrays`. Raises RuntimeError for what is not an array (MLX's binding layer calls it so)."""
    nodes = []
    for value in values:
        if not isinstance(value, array):
            raise bad_cast(f"{name} takes arrays, not {type(value).__name__}")
        nodes.append(value._node)
    return nodes
