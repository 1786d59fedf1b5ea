"""Arguments: arrays, axes, shapes, dtypes and flags as users write them, checked and made plain, here and nowhere else.

What comes out of axes and shapes is hashable and holds nothing but `int`, so that it can be an op's parameter. The
messages are MLX's where MLX has any of its own; what its binding layer would say is in `_array/errors.py`.
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
    "INVALID", "any_number", "axes_of", "axis_of", "check_axis_types", "flag", "integer", "integers", "is_sequence",
    "plain", "require_array", "require_axis", "require_dtype", "require_ints", "require_text", "shape_of", "variadic",
]  # fmt: skip

INVALID = "Invalid axis {axis} for array with {ndim} dimensions."
OUT_OF_BOUNDS = "[{name}] Axis {axis} is out of bounds for array with {ndim} dimensions."
"""What MLX says of an axis that an array has not: of most ops the second, of reductions the first."""

_LOW, _HIGH = -(2**31), 2**31 - 1


def integer(value: Any) -> int:
    """A plain int. Raises TypeError for what is not an integer of 32 bits."""
    n = index(value)
    if not _LOW <= n <= _HIGH:
        raise incompatible("", f"expected an int of 32 bits, got {n}.")
    return n


def _size(value: Any) -> int:
    """The same, of a shape. Raises OverflowError beyond 32 bits."""
    n = index(value)
    if not _LOW <= n <= _HIGH:
        raise OverflowError(f"Integer value {n} is outside the supported range [{_LOW}, {_HIGH}].")
    return n


def is_sequence(value: Any) -> bool:
    """Whether it counts as a sequence: it has a length and items by place (a generator, a dict and a 0-d array have
    not), and is no text."""
    has_items = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    return has_items and not isinstance(value, (dict, str, bytes)) and getattr(value, "ndim", 1) > 0


def integers(value: Any, convert: Callable[[Any], int] = integer) -> tuple[int, ...]:
    """A tuple of plain ints, of a sequence of integers."""
    if not is_sequence(value):
        raise expected("", "a sequence of ints", value)
    return tuple([convert(value[k]) for k in range(len(value))])


def plain(value: Any, convert: Callable[[Any], int] = _size) -> tuple[int, ...]:
    """The same, quickly where it is a tuple or list of ints already. It is a shape unless `integer` is to convert."""
    if type(value) is list:
        value = tuple(value)
    if type(value) is tuple:
        for n in value:
            if type(n) is not int or not _LOW <= n <= _HIGH:
                return integers(value, convert)
        return value
    return integers(value, convert)


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
        raise incompatible("", "expected a shape, got None.")
    try:
        if isinstance(value, int):
            shape = (int(value),)
            check_axes(shape)
        else:
            shape = integers(value, _size)
    except TypeError:
        raise bad_cast("a shape is an int or a sequence of ints") from None
    if any(n < 0 for n in shape):
        raise ValueError("[full] Negative dimensions not allowed.")
    return shape


def axis_of(axis: Any, ndim: int, name: str = "", message: str = OUT_OF_BOUNDS) -> int:
    """The axis that an argument names, counted from 0.

    Args:
        axis: an integer; a negative one counts from the end.
        ndim: how many axes there are.
        name: the op's, for the message.
        message: that of the IndexError, with fields for `name`, `axis`, `ndim`, and `place`: the axis counted from 0.

    Raises:
        IndexError: if there is no such axis.
        TypeError: if it is no integer of 32 bits.
    """
    k = index(axis)
    place = k + ndim if k < 0 else k
    if not 0 <= place < ndim:
        integer(k)
        raise IndexError(message.format(name=name, axis=k, ndim=ndim, place=place))
    return place


def check_axis_types(axis: Any) -> None:
    """Raise TypeError for what is neither None, an integer nor a sequence of integers: MLX looks at types first."""
    if axis is not None:
        integers(axis) if is_sequence(axis) else integer(axis)


def axes_of(axis: Any, ndim: int, message: str = INVALID) -> tuple[int, ...]:
    """The axes that the `axis` of a reduction names, counted from 0, in ascending order; all of them for None.

    Raises:
        IndexError: with the message, if one is out of range.
        ValueError: if one is named twice.
        TypeError: if it is neither None, an integer nor a sequence of integers (an array or a range is one, too).
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
    """The node of an argument that must be an array already. `function` is the caller's name, for the TypeError."""
    if isinstance(value, array):
        return value._node
    raise expected(function, what, value)


def require_axis(value: Any, function: str) -> int | None:
    """An axis, or None, as a plain int. Raises TypeError if it is neither."""
    if value is None or type(value) is int:
        return value
    try:
        return integer(value)
    except TypeError:
        raise expected(function, "an int axis", value) from None


def require_ints(values: Any, function: str) -> tuple[int, ...]:
    """A sequence of ints as a tuple. Raises TypeError if it is none."""
    try:
        return plain(values, integer)
    except TypeError:
        raise incompatible(function, f"Expected a sequence of ints, got {values!r}.") from None


def require_dtype(value: Any, function: str) -> Dtype:
    """A dtype. Raises TypeError if it is none."""
    if type(value) is not Dtype:
        raise expected(function, "a Dtype", value)
    return value


def flag(value: Any, function: str, argument: str) -> bool:
    """A flag as a bool. Raises TypeError if it is none."""
    if not isinstance(value, bool):
        raise incompatible(function, f"{argument} must be a bool.")
    return value


def require_text(value: Any, function: str, argument: str) -> str:
    """A string argument. Raises TypeError if it is none."""
    if not isinstance(value, str):
        raise incompatible(function, f"{argument} must be a string.")
    return value


def any_number(value: Any, function: str, argument: str) -> float:
    """A Python float, of anything that is a real number (a 0-d array is). Raises TypeError else."""
    number: Any = None if isinstance(value, (str, bytes, bytearray)) else value  # float reads text
    try:
        return float(number)
    except (TypeError, ValueError, OverflowError):
        raise incompatible(function, f"{argument} must be a number, got {type(value).__name__}.") from None


def variadic(values: Sequence[Any], name: str) -> list[Node]:
    """The nodes of `*arrays`. Raises RuntimeError for what is not an array (MLX's binding layer calls it so)."""
    nodes = []
    for value in values:
        if not isinstance(value, array):
            raise bad_cast(f"{name} takes arrays, not {type(value).__name__}")
        nodes.append(value._node)
    return nodes
