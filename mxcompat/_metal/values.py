"""Values during the walk, for all threads at once. They are immutable; a variable is a cell that holds one.

A `Scalar` is a number of each thread. Integers are kept in affine form as long as they are: a base plus a multiple of
the position along each axis of threads. So an index that follows the threads is recognized, and a read by it is a
slice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .congruence import UNKNOWN, Congruence
from .types import BOOL, FunctionType, ScalarType, StructType, Type, VectorType, array_of, pointer_to

__all__ = [
    "FALSE", "TRUE", "Array", "Cell", "Closure", "Either", "NoValue", "Pointer", "Scalar", "Stack", "Struct",
    "Value", "Vector", "leaves", "rebuild", "static",
]  # fmt: skip


class Value:
    """A value."""

    __slots__ = ("type",)
    type: Type


class Scalar(Value):
    """A number or bool of each thread: `base + sum(c * position along axis for axis, c in coefs)`.

    Args:
        type: its type.
        base: a known number (an int, a bool, or a NumPy float), or an array over the axes of threads. It has extent 1
            along the axes on which it does not depend.
        coefs: pairs of an axis and its nonzero coefficient, in the order of axes. The base does not depend on these
            axes.
        low, high: bounds of an integer, or None if unknown. They are the bounds before an unsigned value is wrapped
            around, so the value may only be congruent to an integer within them.
        pins: for a bool, pairs of an axis and the only position along it at which the bool can be true.
        known: the congruence of a base that is an array of integers.
    """

    __slots__ = ("base", "coefs", "high", "known", "low", "pins")
    type: ScalarType

    def __init__(
        self, type: ScalarType, base: Any, coefs: tuple[tuple[int, int], ...] = (), low: int | None = None,
        high: int | None = None, pins: tuple[tuple[int, int], ...] = (), known: Congruence = UNKNOWN,
    ) -> None:  # fmt: skip
        self.type, self.base, self.coefs, self.low, self.high, self.pins = type, base, coefs, low, high, pins
        self.known = known

    @property
    def congruence(self) -> Congruence:
        """The congruence of the base."""
        return (0, self.base) if isinstance(self.base, int) else self.known

    @property
    def static(self) -> bool:
        """True if the value is known and the same for all threads."""
        return not self.coefs and isinstance(self.base, (int, float, np.generic))

    def __repr__(self) -> str:
        return f"{self.type}({self.base!r} + {self.coefs} in [{self.low}, {self.high}])"


class Vector(Value):
    """A vector; its components are scalars."""

    __slots__ = ("parts",)
    type: VectorType

    def __init__(self, type: VectorType, parts: tuple[Scalar, ...]) -> None:
        self.type, self.parts = type, parts


class Struct(Value):
    """A struct; its fields in order."""

    __slots__ = ("parts",)
    type: StructType

    def __init__(self, type: StructType, parts: tuple[Value, ...]) -> None:
        self.type, self.parts = type, parts


class Array(Value):
    """A local array with a separate value for each element, used as long as all indices are known."""

    __slots__ = ("parts",)

    def __init__(self, element: Type, parts: tuple[Value, ...], type: Type | None = None) -> None:
        self.type, self.parts = type or array_of(element, len(parts)), parts


class Stack(Value):
    """A local array with an unknown index: an array for each scalar of an element, with an axis of elements in front of
    the axes of threads."""

    __slots__ = ("arrays", "element")

    def __init__(self, element: Type, count: int, arrays: tuple[Any, ...]) -> None:
        self.type, self.element, self.arrays = array_of(element, count), element, arrays


class Pointer(Value):
    """A pointer: a place that is known, and an offset in elements of its type.

    Args:
        target: a `Memory`, or a location of a local variable.
        offset: a scalar of type long.
    """

    __slots__ = ("offset", "target")

    def __init__(self, element: Type, target: Any, offset: Scalar) -> None:
        self.type, self.target, self.offset = pointer_to(element), target, offset


class Either:
    """The target of one of two pointers, selected by data: `mask ? first : second`."""

    __slots__ = ("first", "mask", "second")

    def __init__(self, mask: Scalar, first: Pointer, second: Pointer) -> None:
        self.mask, self.first, self.second = mask, first, second


class Closure(Value):
    """A lambda, a function or a member function that is bound to its object."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Value]) -> None:
        self.type, self.call = FunctionType(), call


class NoValue(Value):
    """The result of a function that returns nothing."""

    __slots__ = ()

    def __init__(self, type: Type) -> None:
        self.type = type


class Cell:
    """A variable.

    Args:
        value: its current value.
        depth: the number of branches and loops around its declaration. An assignment at the same depth need not keep
            the old value for threads that have left.
    """

    __slots__ = ("const", "depth", "guarded", "mask", "number", "value")

    def __init__(self, value: Any, depth: int, number: int, mask: Any = None, const: bool = False) -> None:
        self.value, self.depth, self.number, self.mask, self.const = value, depth, number, mask, const
        self.guarded: Any = None


TRUE, FALSE = Scalar(BOOL, True, (), 1, 1), Scalar(BOOL, False, (), 0, 0)


def static(type: ScalarType, value: Any) -> Scalar:
    """Return a scalar with a known value."""
    if type.kind == "f":
        return Scalar(type, type.dtype.type(value))
    if type is BOOL:
        return TRUE if value else FALSE
    value = type.wrap(int(value))
    return Scalar(type, value, (), value, value)


def leaves(value: Value) -> list[Any]:
    """Return the leaves of a value in order: its scalars, the arrays of a stack, and the offset of a pointer."""
    if isinstance(value, Scalar):
        return [value]
    if isinstance(value, (Vector, Struct, Array)):
        return [leaf for part in value.parts for leaf in leaves(part)]
    if isinstance(value, Stack):
        return list(value.arrays)
    if isinstance(value, Pointer):
        return [value.offset]
    return []


def rebuild(like: Value, parts: Any) -> Value:
    """Return a value like another, with its leaves (see `leaves`) taken from the iterator `parts`."""
    if isinstance(like, Scalar):
        return next(parts)
    if isinstance(like, Vector):
        return Vector(like.type, tuple([next(parts) for _ in like.parts]))
    if isinstance(like, Struct):
        return Struct(like.type, tuple([rebuild(p, parts) for p in like.parts]))
    if isinstance(like, Array):
        return Array(like.type.element, tuple([rebuild(p, parts) for p in like.parts]), like.type)  # type: ignore[attr-defined]
    if isinstance(like, Stack):
        return Stack(like.element, like.type.count, tuple([next(parts) for _ in like.arrays]))  # type: ignore[attr-defined]
    if isinstance(like, Pointer):
        return Pointer(like.type.element, like.target, next(parts))  # type: ignore[attr-defined]
    return like
