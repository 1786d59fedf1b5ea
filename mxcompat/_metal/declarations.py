"""The walk over declarations: types by their names, variables, initializers, and conversions between types."""

from __future__ import annotations

import re
from typing import Any

from . import matrices
from .conversions import ConversionWalk
from .cuda import DYNAMIC
from .errors import NoSuchType, Problem
from .places import CellPlace, MemoryPlace, Place, ValuePlace
from .syntax import Construct, Declaration, Declarator, Expression, Initializers, StructDefinition, TypeAlias, TypeName
from .types import (
    COMPLEX,
    SCALARS,
    UINT,
    VOID,
    ArrayType,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    array_of,
    matrix_of,
    pointer_to,
    size_of,
    vector_of,
)  # fmt: skip
from .values import (
    Array,
    Closure,
    Pointer,
    Scalar,
    Struct,
    Value,
    Vector,
    static,
)

__all__ = ["DeclarationWalk"]


class DeclarationWalk(ConversionWalk):
    """The walk over declarations."""

    def resolve(self, type: TypeName) -> Type:
        """Return the type that a type name stands for."""
        resolved = self._base(type)
        for _ in range(type.pointers):
            resolved = pointer_to(resolved)
        return resolved

    def _base(self, type: TypeName) -> Type:
        if type.of is not None:
            return self.place(type.of).type
        if type.outer is not None:
            return self._of_type(type)
        entity = self.scope.get(type.name)
        # inside a template, its name may stand for an instance with other arguments
        if isinstance(entity, StructType) and type.arguments is not None:
            entity = next((n for n in self.scope.all(type.name) if not isinstance(n, Type)), entity)
        if isinstance(entity, Type):
            return entity
        if isinstance(entity, (StructDefinition, TypeAlias)):
            return self.instantiated(entity, type)
        if isinstance(entity, list) and entity and isinstance(entity[0], StructDefinition):
            return self.instantiated(entity, type)
        return self._builtin_type(type)

    def _builtin_type(self, type: TypeName) -> Type:
        name = type.name
        if name in SCALARS:
            return SCALARS[name]
        if name == "void":
            return VOID
        if name == "complex64_t":
            return COMPLEX
        if name == "dim3":
            return vector_of(UINT, 3)
        packed = name.startswith("packed_")
        base = name.removeprefix("packed_")
        if base[-1:] in "234" and base[:-1] in SCALARS:
            return vector_of(SCALARS[base[:-1]], int(base[-1]), packed)
        shape = re.fullmatch(r"(float|half)([234])x([234])", name)
        if shape is not None:
            return matrix_of(vector_of(SCALARS[shape[1]], int(shape[3])), int(shape[2]))
        if name.startswith("atomic_"):
            return SCALARS[name.removeprefix("atomic_")]
        arguments = type.arguments
        if arguments is not None:
            if name in ("atomic", "_atomic"):
                return self.type_argument(arguments[0])
            if name in ("vec", "packed_vec"):
                element = self.type_argument(arguments[0])
                assert isinstance(element, ScalarType)
                return vector_of(element, int(self.scalar(arguments[1]).base), name != "vec")
            if name == "array":
                return array_of(self.type_argument(arguments[0]), int(self.scalar(arguments[1]).base))
            if name in ("conditional_t", "enable_if_t"):
                held = self.truth(arguments[0])
                if name == "enable_if_t":
                    if not held.base:
                        raise NoSuchType("no type, because the condition of enable_if is false", type.at)
                    return self.type_argument(arguments[1]) if len(arguments) > 1 else VOID
                return self.type_argument(arguments[1] if held.base else arguments[2])
            if name in ("remove_cv_t", "remove_reference_t", "decay_t"):
                return self.type_argument(arguments[0])
            if name in ("make_unsigned_t", "make_signed_t"):
                of = self.type_argument(arguments[0])
                return SCALARS[("u" if name == "make_unsigned_t" else "") + of.name.removeprefix("u")]
        raise Problem(f"the type {name!r} is not in the supported language", type.at)

    def _of_type(self, type: TypeName) -> Type:
        assert type.outer is not None
        if type.outer.name in ("enable_if", "conditional", "remove_cv", "decay"):
            inner = TypeName(type.at, f"{type.outer.name}_t", type.outer.arguments)
            return self._builtin_type(inner)
        of = self.resolve(type.outer)
        if isinstance(of, StructType) and of.scope is not None:
            entity = of.scope.get(type.name)
            if isinstance(entity, Type):
                return entity
        raise Problem(f"{type.outer.name} has no type {type.name!r}", type.at)

    def type_argument(self, argument: Any) -> Type:
        if not isinstance(argument, TypeName):
            raise Problem("expected a type as template argument")
        return self.resolve(argument)

    def with_dimensions(self, type: Type, dimensions: Any) -> Type:
        for size in reversed(dimensions):
            count = self.scalar(size)
            if not count.static:
                raise Problem("the size of an array has to be known", size.at)
            if int(count.base) < 1:
                raise Problem(f"an array of {int(count.base)} elements", size.at)
            type = array_of(type, int(count.base))
        return type

    def declare(self, statement: Declaration) -> None:
        for item in statement.items:
            self.place_now = item.at
            if item.names:
                self._bind(item)
            elif item.type.reference and item.value is not None:
                self.scope.names[item.name] = self._referenced(item)
            else:
                self._variable(item)

    def _referenced(self, item: Declarator) -> Place:
        assert item.value is not None
        place = self.place(item.value)
        if item.type.name != "auto":
            type = self.with_dimensions(self.resolve(item.type), item.dimensions)
            if place.type is not type:
                if isinstance(place, ValuePlace) or item.type.const:
                    return ValuePlace(self.as_type(place.get(self), type))
                return self.pointed(self.cast_pointer(place.pointer(self), type))
        return self.fixed(place)

    def fixed(self, place: Place) -> Place:
        """Return the place to which a reference is bound."""
        return place

    def _bind(self, item: Declarator) -> None:
        assert item.value is not None
        value = self.value(item.value)
        parts = getattr(value, "parts", ())
        if len(parts) != len(item.names):
            raise Problem(f"{len(item.names)} names are bound to a value of type {value.type}", item.at)
        for name, part in zip(item.names, parts, strict=True):
            self.scope.names[name] = CellPlace(part.type, self.cell(part))

    def _variable(self, item: Declarator) -> None:
        dimensions = item.dimensions
        if item.type.name == "auto":
            value = self._automatic(item)
            self.scope.names[item.name] = (
                value if isinstance(value, Closure) else CellPlace(value.type, self.cell(value, item.type.const))
            )
            return
        of = self.resolve(item.type)
        if dimensions and dimensions[0] is None:
            inner = self.with_dimensions(of, dimensions[1:])
            if isinstance(item.value, Initializers):
                of = array_of(inner, len(item.value.items))
            else:
                of = array_of(inner, self._requested(item, inner))
        else:
            of = self.with_dimensions(of, dimensions)
        if item.type.space == "threadgroup" and not item.type.pointers:
            self._group_variable(item, of)
            return
        if of is VOID:
            raise Problem(f"a variable of type {of}", item.at)
        if isinstance(item.value, Initializers):
            value = self.initialized(of, item.value.items, item.value.names)
        elif item.value is not None:
            value = self.as_type(self.value(item.value), of)
        elif item.arguments is not None:
            value = self.initialized(of, item.arguments, [], constructor=True)
        else:
            value = self.default(of)
        self.scope.names[item.name] = CellPlace(of, self.cell(value, item.type.const and not item.type.pointers))

    def _requested(self, item: Declarator, of: Type) -> int:
        """Return the number of elements of an array in dynamic shared memory."""
        count = int(self.scope.get(DYNAMIC).value.base) // size_of(of)
        if item.type.space != "threadgroup" or not count:
            raise Problem("the size of this array is not known", item.at)
        return count

    def _automatic(self, item: Declarator) -> Value:
        if item.value is None:
            raise Problem("auto without a value", item.at)
        if isinstance(item.value, Initializers) and len(item.value.items) == 1:
            return self.value(item.value.items[0])
        return self.value(item.value)

    def _group_variable(self, item: Declarator, of: Type) -> None:
        """Declare a variable in the memory of a group. If a loop repeats the declaration, it is the same memory."""
        memory = self.group_variable(item, of)
        self.scope.names[item.name] = MemoryPlace(of, memory, static(self.index_type, 0))
        if item.value is not None:
            place = self.scope.names[item.name]
            place.set(self, self.value_as(item.value, of))

    def group_variable(self, item: Declarator, of: Type) -> Any:
        raise NotImplementedError

    def default(self, type: Type) -> Value:
        """Return the value of a variable without an initializer: from the default constructor, from the initial values
        of the fields, or zero."""
        if isinstance(type, StructType) and type.definition is not None:
            return self.made_struct(type, [])
        return self.zero(type)

    def construct_type(self, expression: Construct) -> Type:
        return self.resolve(expression.type)

    def initialized(
        self, type: Type, items: list[Expression], names: list[str | None], constructor: bool = False
    ) -> Value:
        """Return a value of a type, made from the initializers in `{…}` or `(…)`."""
        if isinstance(type, MatrixType):
            return matrices.made(self, type, [self.value(item) for item in items]) if items else self.zero(type)
        if isinstance(type, ArrayType):
            return self._array(type, items)
        if isinstance(type, StructType):
            if type is COMPLEX or not self.constructors(type):
                return self._struct(type, items, names)
            return self.made_struct(type, [self.place(item) for item in items])
        if isinstance(type, VectorType):
            return self.made_vector(type, [self.value(item) for item in items])
        if not items:
            return self.zero(type)
        if len(items) != 1:
            raise Problem(f"{len(items)} values for one of type {type}")
        return self.as_type(self.value_as(items[0], type), type, explicit=True)

    def _array(self, type: ArrayType, items: list[Expression]) -> Value:
        if len(items) > type.count:
            raise Problem(f"{len(items)} values for {type}")
        if len(items) == 1 and type.element is not VOID and not isinstance(items[0], Initializers):
            first = self.value(items[0])
            if isinstance(first, Pointer) and isinstance(type.element, ScalarType):
                return self.as_type(first, type)
            parts = [self.as_type(first, type.element)]
        else:
            parts = [self.value_as(item, type.element) for item in items]
        rest = (self.zero(type.element),) * (type.count - len(parts))
        return Array(type.element, (*parts, *rest))

    def _struct(self, type: StructType, items: list[Expression], names: list[str | None]) -> Value:
        if len(items) == 1 and not any(names) and not isinstance(items[0], Initializers):
            value = self.value(items[0])
            if value.type is type or (type is COMPLEX and isinstance(value, (Scalar, Struct))):
                return self.as_type(value, type)
            return self._with_fields(type, {0: self.as_type(value, type.fields[0][1])})
        if len(items) > len(type.fields):
            raise Problem(f"{len(items)} values for {type}")
        values = {}
        for k, (item, name) in enumerate(zip(items, names or [None] * len(items), strict=True)):
            place = k if name is None else type.places[name]
            values[place] = self.value_as(item, type.fields[place][1])
        return self._with_fields(type, values)

    def _with_fields(self, type: StructType, values: dict[int, Value]) -> Value:
        if type.union:
            place = CellPlace(type, self.cell(self.zero(type)))
            for k, value in values.items():
                self.member(place, type.fields[k][0]).set(self, value)
            return place.get(self)
        whole = self.default(type) if len(values) < len(type.fields) else None
        parts = [
            values[k] if k in values else whole.parts[k]  # type: ignore[union-attr]
            for k in range(len(type.fields))
        ]
        return Struct(type, tuple(parts))

    def made_vector(self, type: VectorType, values: list[Value]) -> Value:
        """Return a vector made from numbers and vectors, such as `float4(a, b.xy, c)`."""
        parts: list[Scalar] = []
        for value in values:
            if isinstance(value, Vector):
                parts.extend(value.parts)
            elif isinstance(value, Scalar):
                parts.append(value)
            elif isinstance(value, Pointer) and isinstance(value.type, PointerType) and len(values) == 1:
                target = self.pointed(value)
                return self.as_type(target.get(self), type)
            else:
                raise Problem(f"a value of type {value.type} in a vector")
        if len(parts) == 1:
            parts *= type.count
        if not parts:
            return self.zero(type)
        if len(values) == 1 and len(parts) > type.count:
            parts = parts[: type.count]
        if len(parts) != type.count:
            raise Problem(f"{len(parts)} components for a value of type {type}")
        return Vector(type, tuple([self.n.convert(p, type.element) for p in parts]))

    # The subclasses define these names.

    def instantiated(self, entity: Any, type: TypeName) -> Type:
        raise NotImplementedError

    def constructors(self, type: StructType) -> list[Any]:
        raise NotImplementedError

    def made_struct(self, type: StructType, arguments: list[Place]) -> Value:
        raise NotImplementedError

    def converted_struct(self, value: Struct, type: ScalarType) -> Value:
        raise NotImplementedError
