"""The walk over conversions: values to other types, pointers to pointers of other types, and bits as another type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .buffers import Memory, Shifted
from .errors import Problem
from .expressions import ExpressionWalk
from .places import ValuePlace
from .types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    SCALARS,
    VOID,
    ArrayType,
    FunctionType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    scalar_leaves,
    size_of,
)  # fmt: skip
from .values import (
    Array,
    Either,
    NoValue,
    Pointer,
    Scalar,
    Stack,
    Struct,
    Value,
    Vector,
    leaves,
    rebuild,
    static,
)
from .walk_base import Records

__all__ = ["ConversionWalk"]


class ConversionWalk(ExpressionWalk):
    """The walk over conversions."""

    # The subclasses define these names.
    constructors: Callable[[StructType], list[Any]]
    converted_struct: Callable[[Struct, ScalarType], Value]
    made_struct: Callable[..., Value]

    def as_type(self, value: Value, type: Type, explicit: bool = False) -> Value:
        """Return the value converted to a type."""
        old = value.type
        if old is type:
            return value
        if isinstance(type, ScalarType):
            if isinstance(value, Scalar):
                return self.n.convert(value, type)
            if isinstance(value, Pointer) and type is BOOL:
                return self.as_bool(value)
            if isinstance(value, Struct):
                return self.converted_struct(value, type)
        elif isinstance(type, VectorType):
            if isinstance(value, Vector) and value.type.count == type.count:
                return Vector(type, tuple([self.n.convert(p, type.element) for p in value.parts]))
            if isinstance(value, Scalar):
                return Vector(type, (self.n.convert(value, type.element),) * type.count)
        elif isinstance(type, PointerType):
            if isinstance(value, Pointer):
                return value if value.target is None or explicit else self.cast_pointer(value, type.element)
            if isinstance(value, Scalar) and value.static and value.base == 0:
                return Pointer(type.element, None, static(self.index_type, 0))
        elif isinstance(type, StructType):
            if type is COMPLEX and isinstance(value, (Scalar, Vector)):
                if isinstance(value, Vector) and value.type.count == 2:
                    return Struct(COMPLEX, tuple([self.n.convert(p, FLOAT) for p in value.parts]))
                if isinstance(value, Scalar):
                    return Struct(COMPLEX, (self.n.convert(value, FLOAT), static(FLOAT, 0)))
            if self.constructors(type):
                return self.made_struct(type, [ValuePlace(value)])
            if isinstance(value, Struct) and value.type.name == type.name:
                return Struct(type, value.parts)
        elif isinstance(type, ArrayType):
            array = self._array_from(value, type)
            if array is not None:
                return array
        elif isinstance(type, FunctionType) or type is VOID:
            return value if type is not VOID else NoValue(VOID)
        raise Problem(f"a value of type {old} cannot become one of type {type}")

    def _array_from(self, value: Value, type: ArrayType) -> Value | None:
        if isinstance(value, Pointer) and value.target is not None:
            if isinstance(value.target, (Memory, Records)):
                start = self.n.binary("/", value.offset, static(self.index_type, type.count))
                return self.load(value.target, type, start)
            if value.target.type is type:
                return value.target.get(self)
        if isinstance(value, (Array, Stack)) and value.type.count == type.count:  # type: ignore[attr-defined]
            return value
        return None

    def cast_pointer(self, value: Value, element: Type) -> Pointer:
        """Return a pointer as a pointer to another type. Its offset counts elements of that type."""
        if not isinstance(value, Pointer):
            if isinstance(value, Scalar) and value.static and value.base == 0:
                return Pointer(element, None, static(self.index_type, 0))
            raise Problem(f"a value of type {value.type} cannot become a pointer")
        old = value.type.element  # type: ignore[attr-defined]
        if old is element or element is VOID or value.target is None:
            return value if element is not VOID else Pointer(old, value.target, value.offset)
        if isinstance(old, ArrayType) and not isinstance(element, ArrayType):
            return self.cast_pointer(
                Pointer(old.element, value.target, self._scaled(value.offset, old.count, 1)), element
            )
        if isinstance(value.target, Shifted):
            return self.cast_pointer(Pointer(scalar_leaves(old)[0], value.target.memory, value.offset), element)
        if isinstance(value.target, Memory) and isinstance(element, VectorType):
            many = size_of(element) // math.gcd(size_of(element), size_of(old))
            terms = (value.offset.base, *dict(value.offset.coefs).values())
            if not (isinstance(terms[0], int) and all(k % many == 0 for k in terms)):
                start = self._scaled(value.offset, size_of(old), size_of(element.element))
                return Pointer(element, value.target.shifted, start)
        if isinstance(value.target, Records):
            raise Problem(f"memory of structs is read as {element}")
        if isinstance(value.target, Either):
            of = value.target
            first, second = (
                self.cast_pointer(self.advanced(p, value.offset), element) for p in (of.first, of.second)
            )  # fmt: skip
            return Pointer(element, Either(of.mask, first, second), static(self.index_type, 0))
        return Pointer(element, value.target, self._scaled(value.offset, size_of(old), size_of(element)))

    def _scaled(self, offset: Scalar, old: int, new: int) -> Scalar:
        if old == new:
            return offset
        if old % new == 0:
            return self.n.binary("*", offset, static(self.index_type, old // new))
        if offset.static and int(offset.base) * old % new:
            raise Problem("a pointer is read as one to a larger type at a place that is no multiple of its size")
        return self.n.binary(
            "/", self.n.binary("*", offset, static(self.index_type, old)), static(self.index_type, new)
        )

    def bits_as(self, value: Value, type: Type) -> Value:
        """Reinterpret the bits of a value as another type of the same size, as `as_type` does."""
        kinds = scalar_leaves(type)
        numbers = [leaf for leaf in leaves(value) if isinstance(leaf, Scalar)]
        if not kinds or not numbers or sum(k.bits for k in kinds) != sum(leaf.type.bits for leaf in numbers):
            raise Problem(f"as_type from {value.type} to {type}, which are not of one size")
        old, new = numbers[0].type, kinds[0]
        if old.bits == new.bits:
            parts = [self._bits(leaf, new) for leaf in numbers]
        elif old.bits > new.bits:
            parts = [part for leaf in numbers for part in self._halves(leaf, new)]
        else:
            step = new.bits // old.bits
            parts = [self._joined(numbers[k : k + step], new) for k in range(0, len(numbers), step)]
        return rebuild(self.zero(type), iter(parts))

    def _bits(self, leaf: Scalar, new: ScalarType) -> Scalar:
        if leaf.type.kind in "ui" and new.kind in "ui":
            return self.n.convert(leaf, new)
        return self.n.make(new, self.space.bitcast(self.space.asarray(self.n.array(leaf)), new.dtype)[()])

    def _halves(self, leaf: Scalar, new: ScalarType) -> list[Scalar]:
        wide = self._bits(leaf, SCALARS[_UNSIGNED[leaf.type.bits]])
        narrow = SCALARS[_UNSIGNED[new.bits]]
        parts = []
        for k in range(wide.type.bits // new.bits):
            parts.append(self.n.convert(self.n.shift(">>", wide, static(INT, k * new.bits)), narrow))
        return [self._bits(p, new) for p in parts]

    def _joined(self, parts: list[Scalar], new: ScalarType) -> Scalar:
        wide = SCALARS[_UNSIGNED[new.bits]]
        whole = static(wide, 0)
        for k, part in enumerate(parts):
            bits = self.n.convert(self._bits(part, SCALARS[_UNSIGNED[part.type.bits]]), wide)
            whole = self.n.same_type("|", whole, self.n.shift("<<", bits, static(INT, k * part.type.bits)))
        return self._bits(whole, new)


_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
