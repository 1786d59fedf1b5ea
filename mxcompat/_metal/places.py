"""Names and places: the entities of names in a scope, and the places where values are read and written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .buffers import Shifted
from .errors import Problem
from .types import ArrayType, ScalarType, Type, VectorType
from .values import Array, Cell, Pointer, Scalar, Stack, Struct, Value, Vector, static

if TYPE_CHECKING:
    from .buffers import Memory
    from .walk_base import WalkBase

__all__ = [
    "CellPlace", "EitherPlace", "ElementPlace", "MemoryPlace", "OutsidePlace", "PartPlace", "Place", "Scope",
    "SwizzlePlace", "ValuePlace", "with_parts",
]  # fmt: skip


class Scope:
    """The names that are declared in a scope, with a reference to the enclosing scope."""

    __slots__ = ("names", "outer")

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[Any]:
        """Yield the entities of a name in this scope and in the enclosing scopes, from the inside out."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                yield scope.names[name]
            scope = scope.outer


class Place:
    """A place that holds a value, as an lvalue in C does."""

    __slots__ = ("type",)
    type: Type

    def get(self, walk: WalkBase) -> Value:
        raise NotImplementedError

    def set(self, walk: WalkBase, value: Value) -> None:
        raise NotImplementedError

    def pointer(self, walk: WalkBase) -> Value:
        """Return the result of `&`: a pointer to this place."""
        return Pointer(self.type, self, static(walk.index_type, 0))


class ValuePlace(Place):
    """A value without a place, as an rvalue in C."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.type, self.value = value.type, value

    def get(self, walk: WalkBase) -> Value:
        return self.value

    def set(self, walk: WalkBase, value: Value) -> None:
        raise Problem("this value cannot be assigned to")


class CellPlace(Place):
    """A variable."""

    __slots__ = ("cell",)

    def __init__(self, type: Type, cell: Cell) -> None:
        self.type, self.cell = type, cell

    def get(self, walk: WalkBase) -> Value:
        return walk.read_cell(self.cell)

    def set(self, walk: WalkBase, value: Value) -> None:
        if self.cell.const:
            raise Problem("a constant cannot be assigned to")
        walk.assign_cell(self.cell, value)


class PartPlace(Place):
    """A component, a field or an element whose position is known."""

    __slots__ = ("of", "position")

    def __init__(self, type: Type, of: Place, position: int) -> None:
        self.type, self.of, self.position = type, of, position

    def get(self, walk: WalkBase) -> Value:
        whole = self.of.get(walk)
        if isinstance(whole, Stack):
            return walk.stack_element(whole, static(walk.index_type, self.position))
        assert isinstance(whole, (Vector, Struct, Array))
        return whole.parts[self.position]

    def set(self, walk: WalkBase, value: Value) -> None:
        whole = walk.peek(self.of)
        if isinstance(whole, Stack):
            self.of.set(walk, walk.stack_update(whole, static(walk.index_type, self.position), value))
            return
        assert isinstance(whole, (Vector, Struct, Array))
        parts = (*whole.parts[: self.position], value, *whole.parts[self.position + 1 :])
        self.of.set(walk, with_parts(whole, parts))

    def pointer(self, walk: WalkBase) -> Value:
        if (
            isinstance(self.of, MemoryPlace)
            and isinstance(self.of.type, VectorType)
            and isinstance(self.type, ScalarType)
        ):
            of = self.of
            room = of.type.room  # type: ignore[attr-defined]
            start = walk.n.binary("*", of.index, static(walk.index_type, room))
            memory = of.memory
            if isinstance(memory, Shifted):
                start, memory = of.index, memory.memory
            return Pointer(self.type, memory, walk.n.binary("+", start, static(walk.index_type, self.position)))
        if isinstance(walk.peek(self.of), (Array, Stack)):
            return Pointer(self.type, self.of, static(walk.index_type, self.position))
        return super().pointer(walk)


def with_parts(whole: Any, parts: tuple[Any, ...]) -> Value:
    """Return a vector, struct or array of the same type with other parts."""
    if isinstance(whole, Vector):
        return Vector(whole.type, parts)
    if isinstance(whole, Struct):
        return Struct(whole.type, parts)
    return Array(whole.type.element, parts, whole.type)


class OutsidePlace(Place):
    """An element outside of a local array or a vector. It reads as zero, and writes are dropped."""

    __slots__ = ("index", "whole")

    def __init__(self, whole: ArrayType | VectorType, index: Scalar) -> None:
        self.type, self.whole, self.index = whole.element, whole, index

    def get(self, walk: WalkBase) -> Value:
        walk.check_local(self.whole, self.index, "reads")
        return walk.zero(self.type)

    def set(self, walk: WalkBase, value: Value) -> None:
        walk.check_local(self.whole, self.index, "writes")


class ElementPlace(Place):
    """An element of a local array, or a component of a vector, at an unknown position."""

    __slots__ = ("index", "of")

    def __init__(self, type: Type, of: Place, index: Scalar) -> None:
        self.type, self.of, self.index = type, of, index

    def get(self, walk: WalkBase) -> Value:
        walk.check_local(self.of.type, self.index, "reads")  # type: ignore[arg-type]
        return walk.stack_element(walk.stacked(self.of), self.index)

    def set(self, walk: WalkBase, value: Value) -> None:
        walk.check_local(self.of.type, self.index, "writes")  # type: ignore[arg-type]
        whole = walk.peek(self.of)
        if isinstance(whole, Vector):
            self.of.set(walk, walk.vector_update(whole, self.index, value))
            return
        self.of.set(walk, walk.stack_update(walk.as_stack(whole), self.index, value))

    def pointer(self, walk: WalkBase) -> Value:
        return Pointer(self.type, self.of, self.index)


class SwizzlePlace(Place):
    """Several components of a vector."""

    __slots__ = ("of", "positions")

    def __init__(self, type: VectorType, of: Place, positions: tuple[int, ...]) -> None:
        self.type, self.of, self.positions = type, of, positions

    def get(self, walk: WalkBase) -> Value:
        whole = self.of.get(walk)
        assert isinstance(whole, Vector)
        assert isinstance(self.type, VectorType)
        return Vector(self.type, tuple([whole.parts[k] for k in self.positions]))

    def set(self, walk: WalkBase, value: Value) -> None:
        whole = walk.peek(self.of)
        assert isinstance(whole, Vector)
        assert isinstance(value, Vector)
        parts = list(whole.parts)
        for k, part in zip(self.positions, value.parts, strict=True):
            parts[k] = part
        self.of.set(walk, Vector(whole.type, tuple(parts)))


class EitherPlace(Place):
    """One of two places, selected by data."""

    __slots__ = ("first", "mask", "second")

    def __init__(self, type: Type, mask: Scalar, first: Place, second: Place) -> None:
        self.type, self.mask, self.first, self.second = type, mask, first, second

    def get(self, walk: WalkBase) -> Value:
        return walk.select(self.mask, self.first.get(walk), self.second.get(walk))

    def set(self, walk: WalkBase, value: Value) -> None:
        whole = walk.mask
        walk.depth += 1
        for chosen, place in ((self.mask, self.first), (walk.n.negate(self.mask), self.second)):
            walk.mask = walk.n.logical("&", whole, chosen)
            place.set(walk, value)
        walk.depth -= 1
        walk.mask = whole

    def pointer(self, walk: WalkBase) -> Value:
        return walk.select(self.mask, self.first.pointer(walk), self.second.pointer(walk))


class MemoryPlace(Place):
    """An element of memory."""

    __slots__ = ("index", "memory")

    def __init__(self, type: Type, memory: Memory, index: Scalar) -> None:
        self.type, self.memory, self.index = type, memory, index

    def get(self, walk: WalkBase) -> Value:
        return walk.load(self.memory, self.type, self.index)

    def set(self, walk: WalkBase, value: Value) -> None:
        walk.store(self.memory, self.type, self.index, value)

    def pointer(self, walk: WalkBase) -> Value:
        return Pointer(self.type, self.memory, self.index)
