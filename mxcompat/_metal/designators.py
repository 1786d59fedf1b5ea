"""The walk over expressions that name a place: variables, elements, members and dereferenced pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .buffers import Memory, Shifted, as_index
from .errors import Problem
from .masks import StatementWalk
from .places import (
    EitherPlace,
    ElementPlace,
    MemoryPlace,
    OutsidePlace,
    PartPlace,
    Place,
    SwizzlePlace,
    ValuePlace,
)
from .syntax import (
    Expression,
    Index,
    Member,
    Name,
    Unary,
)  # fmt: skip
from .types import (
    INT,
    ArrayType,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    size_of,
    vector_of,
)  # fmt: skip
from .values import Either, Pointer, Scalar, Value, Vector, static
from .views import ViewPlace
from .walk_base import Records

__all__ = ["PlaceWalk"]

_COMPONENTS = {**{c: k for k, c in enumerate("xyzw")}, **{c: k for k, c in enumerate("rgba")}}


class PlaceWalk(StatementWalk):
    """The walk over places."""

    # The subclasses define these names.
    call_method: Callable[..., Value]
    function_value: Callable[..., Value]
    operator_of: Callable[[StructType, str], Any]
    place: Callable[[Expression], Place]
    trait: Callable[..., Value]
    _step: Callable[..., Value]
    _unary: Callable[..., Value]

    def decayed(self, place: Place) -> Value:
        """Return the value of a place. An array decays to a pointer to its first element."""
        kind = place.type
        if not isinstance(kind, ArrayType) or isinstance(kind, MatrixType):
            return place.get(self)
        if isinstance(place, MemoryPlace):
            start = self.n.binary("*", place.index, static(self.index_type, kind.count))
            return Pointer(kind.element, place.memory, start)
        return Pointer(kind.element, place, static(self.index_type, 0))

    def _name(self, expression: Name) -> Place:
        entity = self.lookup(expression)
        if isinstance(entity, Place):
            return entity
        if isinstance(entity, Value):
            return ValuePlace(entity)
        if expression.id.endswith("_v") and expression.arguments:
            return ValuePlace(self.trait(expression.id.removesuffix("_v"), expression.arguments, expression.at))
        raise Problem(f"use of undeclared name {expression.id!r}", expression.at)

    def lookup(self, expression: Name) -> Any:
        """Return the entity of a name in scope, or None."""
        if expression.spaces:
            scoped = self.scope.get(f"{expression.spaces[-1]}::")
            if scoped is not None and expression.id in scoped:
                return scoped[expression.id]
        entity = self.scope.get(expression.id)
        if isinstance(entity, list) and entity and not callable(entity):
            return self.function_value(expression, entity)
        return entity

    def element(self, of: Place, index: Scalar) -> Place:
        """Return the place `of[index]`."""
        kind = of.type
        if isinstance(kind, PointerType):
            pointer = of.get(self)
            assert isinstance(pointer, Pointer)
            return self.pointed(self.advanced(pointer, index))
        if isinstance(of, MemoryPlace) and isinstance(kind, (ArrayType, VectorType)):
            room = kind.count if isinstance(kind, ArrayType) else kind.room
            start = self.n.binary("*", of.index, static(self.index_type, room))
            memory = of.memory
            if isinstance(memory, Shifted):
                start, memory = of.index, memory.memory
            return MemoryPlace(kind.element, memory, self.n.binary("+", start, self.n.convert(index, self.index_type)))
        if isinstance(kind, (ArrayType, VectorType)):
            if index.static and 0 <= int(index.base) < kind.count:
                return PartPlace(kind.element, of, int(index.base))
            if index.static:
                return OutsidePlace(kind, index)
            return ElementPlace(kind.element, of, index)
        raise Problem(f"a value of type {kind} has no elements")

    def advanced(self, pointer: Pointer, index: Scalar, op: str = "+") -> Pointer:
        step = as_index(self.n, index)
        if isinstance(pointer.target, Shifted):
            room = pointer.type.element.room  # type: ignore[attr-defined]
            step = self.n.binary("*", step, static(self.index_type, room))
        offset = pointer.offset
        if offset.static and offset.base == 0 and op == "+":
            moved = step
        else:
            moved = self.n.binary(op, offset, step)
        return Pointer(pointer.type.element, pointer.target, moved)  # type: ignore[attr-defined]

    def pointed(self, pointer: Pointer) -> Place:
        """Return the place that a pointer points to."""
        of, element = pointer.target, pointer.type.element  # type: ignore[attr-defined]
        if of is None:
            raise Problem("a null pointer is followed")
        if isinstance(of, Either):
            first, second = (self.pointed(self.advanced(p, pointer.offset)) for p in (of.first, of.second))
            return EitherPlace(element, of.mask, first, second)
        if isinstance(of, (Memory, Records, Shifted)):
            return MemoryPlace(element, of, pointer.offset)  # type: ignore[arg-type]
        if isinstance(of.type, (ArrayType, VectorType)) and of.type is not element:
            if of.type.element is not element:
                return self.reinterpreted(of, element, pointer.offset)
            return self.element(of, pointer.offset)
        if pointer.offset.static and pointer.offset.base == 0:
            return of if of.type is element else self.reinterpreted(of, element, pointer.offset)
        raise Problem(f"a pointer to a variable of type {of.type} is moved away from it")

    def reinterpreted(self, of: Place, element: Type, offset: Scalar) -> Place:
        """Return a view of a local variable as a value of another type. The offset counts values of that type."""
        return ViewPlace(element, of, offset)

    bits_as: Callable[[Value, Type], Value]

    def member(self, of: Place, name: str) -> Place:
        """Return the place `of.name`."""
        kind = of.type
        if isinstance(kind, StructType):
            position = kind.places.get(name)
            if position is None:
                raise Problem(f"{kind} has no field {name!r}")
            if isinstance(of, MemoryPlace):
                memory, part, index = self.parts(of.memory, kind, of.index)[position]
                return MemoryPlace(part, memory, index)
            if kind.union:
                sizes = [size_of(t) for _, t in kind.fields]
                largest = sizes.index(max(sizes))
                if position != largest:  # the largest field of a union holds the bits; the other fields are views of it
                    return ViewPlace(kind.fields[position][1], self.member(of, kind.fields[largest][0]), static(INT, 0))
            return PartPlace(kind.fields[position][1], of, position)
        if isinstance(kind, VectorType):
            positions = tuple([_COMPONENTS.get(c, 4) for c in name])
            if not positions or max(positions) >= kind.count or len(positions) > 4:
                raise Problem(f"{kind} has no component {name!r}")
            if len(positions) == 1:
                if isinstance(of, MemoryPlace):
                    return self.element(of, static(INT, positions[0]))
                return PartPlace(kind.element, of, positions[0])
            return SwizzlePlace(vector_of(kind.element, len(positions)), of, positions)
        if isinstance(kind, ScalarType) and set(name) <= set("xr"):
            value = of.get(self)
            assert isinstance(value, Scalar)
            return ValuePlace(value if len(name) == 1 else Vector(vector_of(kind, len(name)), (value,) * len(name)))
        raise Problem(f"a value of type {kind} has no member {name!r}")

    def dereferenced(self, of: Place) -> Place:
        kind = of.type
        if isinstance(kind, ArrayType):
            return self.element(of, static(INT, 0))
        if not isinstance(kind, PointerType):
            raise Problem(f"a value of type {kind} is no pointer")
        pointer = of.get(self)
        assert isinstance(pointer, Pointer)
        return self.pointed(pointer)

    def _index(self, expression: Index) -> Place:
        of = self.place(expression.target)
        kind = of.type
        if isinstance(kind, StructType):
            overload = self.operator_of(kind, "operator[]")
            if overload is not None:
                return ValuePlace(self.call_method(of, overload, [self.place(expression.index)]))
        index = self.scalar(expression.index)
        self.place_now = expression.at
        return self.element(of, index)

    def _member(self, expression: Member) -> Place:
        of = self.place(expression.target)
        if expression.arrow:
            of = self.dereferenced(of)
        self.place_now = expression.at
        return self.member(of, expression.name)

    def _unary_place(self, expression: Unary) -> Place:
        if expression.op == "*":
            return self.dereferenced(self.place(expression.operand))
        if expression.op in ("++", "--"):
            self._step(expression, expression.operand, expression.op)
            return self.place(expression.operand)
        return ValuePlace(self._unary(expression))
