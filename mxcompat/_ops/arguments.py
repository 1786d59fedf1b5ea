"""Checks and conversions of arguments: arrays, axes, shapes, dtypes and flags. No other module has such checks.

The results for axes and shapes are hashable and contain only `int`, so that they can be parameters of an op. The error
messages are MLX's where MLX has a message of its own. The messages of MLX's binding layer are in `_array/errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from mxcompat._array.array import array
from mxcompat._array.errors import bad_cast, expected, incompatible
from mxcompat._graph.ir.aval import Dtype, check_axes
from mxcompat._graph.ir.node import Node

__all__ = [
    "INVALID", "any_integer", "any_number", "axes_of", "axis_of", "check_axis_types", "flag", "integer", "integers",
    "is_sequence", "plain", "require_array", "require_axis", "require_dtype", "require_ints", "require_text",
    "shape_of", "variadic",
]  # fmt: skip

INVALID = "Invalid axis {axis} for array with {ndim} dimensions."
OUT_OF_BOUNDS = "[{name}] Axis {axis} is out of bounds for array with {ndim} dimensions."
"""MLX's two messages for an axis that an array does not have. Reductions use the first, and most ops the second."""

_LOW, _HIGH = -(2**31), 2**31 - 1


def any_integer(value: Any) -> int:
    """Return a value as an int of any size. Raises TypeError, with MLX's words, if it is not an integer."""
    try:
        return index(value)
    except TypeError:
        raise expected("", "an int", value) from None


def integer(value: Any) -> int:
    """Return a value as a plain int. Raises TypeError if it is not a 32-bit integer."""
    n = value if type(value) is int else any_integer(value)
    if not _LOW <= n <= _HIGH:
        raise incompatible("", f"expected an int of 32 bits, got {n}.")
    return n


def _size(value: Any) -> int:
    """Return one size of a shape as a plain int. Raises OverflowError beyond 32 bits, and TypeError beyond 64."""
    n = any_integer(value)
    if not -(2**63) <= n < 2**63:
        raise incompatible("", f"expected an int of 64 bits, got {n}.")
    if not _LOW <= n <= _HIGH:
        raise OverflowError(f"Integer value {n} is outside the supported range [{_LOW}, {_HIGH}].")
    return n


def is_sequence(value: Any) -> bool:
    """Return whether a value counts as a sequence: it has a length and indexed items, and is not a string.

    A generator, a dict and a 0-dimensional array are not sequences.
    """
    has_items = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    return has_items and not isinstance(value, (dict, str, bytes)) and getattr(value, "ndim", 1) > 0


def integers(value: Any, convert: Callable[[Any], int] = integer) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple of plain ints."""
    if not is_sequence(value):
        raise expected("", "a sequence of ints", value)
    return tuple([convert(value[k]) for k in range(len(value))])


def plain(value: Any, convert: Callable[[Any], int] = _size) -> tuple[int, ...]:
    """Return the same as `integers`, with a fast path for a tuple or list of ints. The default `convert` is for
    shapes."""
    if type(value) is list:
        value = tuple(value)
    if type(value) is tuple:
        for n in value:
            if type(n) is not int or not _LOW <= n <= _HIGH:
                return integers(value, convert)
        return value
    return integers(value, convert)


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape argument of a creation function, an int or a sequence of ints, as a tuple.

    Raises:
        ValueError: if a size is negative.
        RuntimeError: if it is neither an int nor a sequence of ints (as MLX's binding layer raises it).
    """
    if type(value) is tuple:
        shape = value
        for n in shape:
            if type(n) is not int or not 0 <= n <= _HIGH:
                break
        else:
            return shape
    if value is None:
        raise incompatible("", "expected a shape, got None.")
    try:
        if isinstance(value, int):
            shape = (int(value),)
            if -(2**63) <= shape[0] < 2**63:
                check_axes(shape)
            _size(value)
        else:
            shape = integers(value, _size)
    except TypeError:
        raise bad_cast("a shape is an int or a sequence of ints") from None
    if any(n < 0 for n in shape):
        raise ValueError("[full] Negative dimensions not allowed.")
    return shape


def axis_of(axis: Any, ndim: int, name: str = "", message: str = OUT_OF_BOUNDS) -> int:
    """Return the axis that an argument names, counted from 0.

    Args:
        axis: an integer; a negative one counts from the end.
        ndim: the number of axes.
        name: the name of the op, for the message.
        message: the message of the IndexError. Its fields are `name`, `axis`, `ndim`, and `place` (the axis from 0).

    Raises:
        IndexError: if there is no such axis.
        TypeError: if `axis` is not a 32-bit integer.
    """
    k = axis if type(axis) is int else any_integer(axis)
    place = k + ndim if k < 0 else k
    if not 0 <= place < ndim:
        integer(k)
        raise IndexError(message.format(name=name, axis=k, ndim=ndim, place=place))
    return place


def check_axis_types(axis: Any) -> None:
    """Raise TypeError for a value other than None, an integer or a sequence of integers. MLX checks the types first."""
    if axis is not None:
        integers(axis) if is_sequence(axis) else integer(axis)


def axes_of(axis: Any, ndim: int, message: str = INVALID) -> tuple[int, ...]:
    """Return the axes that the `axis` of a reduction names, counted from 0, in ascending order; all axes for None.

    Raises:
        IndexError: with the message, if an axis is out of range.
        ValueError: if an axis is named twice.
        TypeError: if it is not None, an integer or a sequence of integers (an array or a range is a sequence, too).
    """
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (list, tuple)) or is_sequence(axis):
        try:
            axes = sorted([axis_of(a, ndim, message=message) for a in axis])
        except IndexError:
            check_axis_types(axis)
            raise
        if len(set(axes)) < len(axes):
            raise ValueError("Duplicate axes detected in reduction.")
        return tuple(axes)
    return (axis_of(axis, ndim, message=message),)


def require_array(value: Any, function: str, what: str = "an array") -> Node:
    """Return the node of an argument that must already be an array. `function` is the caller's name, for the
    TypeError."""
    if isinstance(value, array):
        return value._node
    raise expected(function, what, value)


def require_axis(value: Any, function: str) -> int | None:
    """Return an axis as a plain int, or None. Raises TypeError for any other type."""
    if value is None or type(value) is int:
        return value
    try:
        return integer(value)
    except TypeError:
        raise expected(function, "an int axis", value) from None


def require_ints(values: Any, function: str) -> tuple[int, ...]:
    """Return a sequence of ints as a tuple. Raises TypeError for any other type."""
    try:
        return plain(values, integer)
    except TypeError:
        raise incompatible(function, f"Expected a sequence of ints, got {values!r}.") from None


def require_dtype(value: Any, function: str) -> Dtype:
    """Return a dtype. Raises TypeError if the value is not a dtype."""
    if type(value) is not Dtype:
        raise expected(function, "a Dtype", value)
    return value


def flag(value: Any, function: str, argument: str) -> bool:
    """Return a flag as a bool. Raises TypeError if it is not a bool."""
    if not isinstance(value, bool):
        raise incompatible(function, f"{argument} must be a bool.")
    return value


def require_text(value: Any, function: str, argument: str) -> str:
    """Return a string argument. Raises TypeError if it is not a string."""
    if not isinstance(value, str):
        raise incompatible(function, f"{argument} must be a string.")
    return value


def any_number(value: Any, function: str, argument: str) -> float:
    """Return a real number or a 0-dimensional array as a Python float. Raises TypeError for anything else."""
    number: Any = None if isinstance(value, (str, bytes, bytearray)) else value  # `float` would also parse text
    try:
        return float(number)
    except (TypeError, ValueError, OverflowError):
        raise incompatible(function, f"{argument} must be a number, got {type(value).__name__}.") from None


def variadic(values: Sequence[Any], name: str) -> list[Node]:
    """Return the nodes of `*arrays`. Raises RuntimeError if one is not an array (as MLX's binding layer raises it)."""
    nodes = []
    for value in values:
        if not isinstance(value, array):
            raise bad_cast(f"{name} takes arrays, not {type(value).__name__}")
        nodes.append(value._node)
    return nodes
