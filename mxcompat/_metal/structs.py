"""The walk over structs: their definitions, templates, constructors, operators and the names in their scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .declarations import DeclarationWalk
from .errors import NoSuchType, Problem
from .places import CellPlace, Place, Scope, ValuePlace
from .syntax import (
    Function,
    Member,
    Name,
    Scoped,
    StructDefinition,
    TypeAlias,
    TypeName,
)  # fmt: skip
from .types import (
    BOOL,
    COMPLEX,
    INT,
    ArrayType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
)  # fmt: skip
from .values import Closure, Scalar, Struct, Value, static

__all__ = ["StructWalk", "same"]


class StructWalk(DeclarationWalk):
    """The walk over structs."""

    instances: dict[Any, Type]

    # The subclasses define these names.
    overload: Callable[..., Value]

    def define_struct(self, statement: StructDefinition) -> None:
        if statement.templates or statement.specialized is not None:
            definitions = self.scope.names.get(statement.name)
            if not isinstance(definitions, list):
                definitions = self.scope.names[statement.name] = []
            definitions.append(statement)
            return
        self.scope.names[statement.name] = self._struct_type(statement, statement.name)

    def _struct_type(self, statement: StructDefinition, name: str) -> StructType:
        scope = Scope(self.scope)
        struct = StructType(name, (), statement, scope, statement.union)
        scope.names[statement.name] = struct
        outer, self.scope = self.scope, scope
        try:
            fields: list[tuple[str, Type]] = []
            for base in statement.bases:
                of = self.resolve(base)
                if isinstance(of, StructType):
                    struct.bases[base.name] = of
                    fields.extend(of.fields)
                    for method, overloads in of.methods.items():
                        if overloads is not self.constructors(of):
                            struct.methods.setdefault(method, []).extend(overloads)
            self.run_all(statement.members)
            for field in statement.fields:
                if field.type.reference:
                    raise Problem("a field that is a reference is not in the supported language", field.at)
                fields.append((field.name, self.with_dimensions(self.resolve(field.type), field.dimensions)))
        finally:
            self.scope = outer
        struct.fields = tuple(fields)
        struct.places = {field: k for k, (field, _) in enumerate(fields)}
        for method in statement.methods:
            if method.body is not None:
                struct.methods.setdefault(method.name, []).append((method, scope))
        return struct

    def instantiated(self, template: Any, type: TypeName) -> Type:
        """Return the type that a struct template or an alias template gives for the arguments of a type name."""
        arguments = tuple([self._argument(a) for a in type.arguments or ()])
        if isinstance(template, TypeAlias):
            outer, self.scope = self.scope, Scope(self.scope)
            try:
                self._bind_templates(template.templates, arguments)
                return self.resolve(template.type)
            finally:
                self.scope = outer
        statement = next((s for s in template if s.specialized is None), template[0])
        arguments = self._completed(statement, arguments)
        key = (type.name, *[g if isinstance(g, Type) else (g.type, g.base) for g in arguments])
        if key not in self.instances:
            outer, self.scope = self.scope, Scope(self.scope)
            try:
                statement, known = self._specialization(template, arguments) or (statement, None)
                if known is None:
                    self._bind_templates(statement.templates, arguments)
                for parameter in statement.templates if known is not None else ():
                    self._bind_template(parameter, known[parameter.name])
                label = ", ".join(g.name if isinstance(g, Type) else str(g.base) for g in arguments)
                instance = self._struct_type(statement, f"{type.name}<{label}>")
                instance.arguments = (type.name, arguments)
                self.instances[key] = instance
            finally:
                self.scope = outer
        return self.instances[key]

    def _completed(self, statement: StructDefinition, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return template arguments together with the defaults of the parameters that have none."""
        complete = list(arguments)
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            for k, parameter in enumerate(statement.templates):
                if k == len(complete) and parameter.default is not None:
                    complete.append(self._argument(parameter.default))
                if k < len(complete) and parameter.name:
                    self._bind_template(parameter, complete[k])
        finally:
            self.scope = outer
        return tuple(complete)

    def _specialization(
        self, candidates: Any, arguments: tuple[Any, ...]
    ) -> tuple[StructDefinition, dict[str, Any]] | None:
        """Return the specialization of a struct template for these arguments, and its parameters' values by name.

        If several match, the most special one is taken, which has the fewest parameters.
        """
        best: tuple[StructDefinition, dict[str, Any]] | None = None
        for one in candidates:
            if one.specialized is None or len(one.specialized) > len(arguments):
                continue
            known = self._matched(one, arguments)
            if known is not None and (best is None or len(known) < len(best[1])):
                best = one, known
        return best

    def _matched(self, one: StructDefinition, arguments: tuple[Any, ...]) -> dict[str, Any] | None:
        names = {p.name for p in one.templates}
        known: dict[str, Any] = {}
        patterns = list(zip(one.specialized or (), arguments, strict=False))
        open_ = [(p, value) for p, value in patterns if not _fits(p, value, names, known)]
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            for parameter in one.templates:
                if parameter.name not in known:
                    return None
                self._bind_template(parameter, known[parameter.name])
            held = all(same(self._argument(pattern), value) for pattern, value in open_)
        except NoSuchType:
            return None
        finally:
            self.scope = outer
        return known if held else None

    def _argument(self, argument: Any) -> Type | Scalar:
        if isinstance(argument, TypeName):
            return self.resolve(argument)
        if isinstance(argument, Name):
            entity = self.lookup(argument)
            if isinstance(entity, Type):
                return entity
        return self.scalar(argument)

    def _bind_templates(self, parameters: Any, arguments: Any) -> None:
        if len(arguments) > len(parameters):
            raise Problem(f"{len(arguments)} template arguments for {len(parameters)} parameters")
        for k, parameter in enumerate(parameters):
            if k < len(arguments):
                value = arguments[k]
            elif parameter.default is not None:
                value = self._argument(parameter.default)
            else:
                raise Problem(f"the template parameter {parameter.name!r} is not known", parameter.at)
            self._bind_template(parameter, value)

    def _bind_template(self, parameter: Any, value: Any) -> None:
        if parameter.kind is None:
            self.scope.names[parameter.name] = value
        else:
            kind = self.resolve(parameter.kind) if parameter.kind.name != "auto" else value.type
            self.scope.names[parameter.name] = ValuePlace(self.as_type(value, kind))

    def constructors(self, type: StructType) -> list[Any]:
        return type.methods.get(type.definition.name, []) if type.definition is not None else []

    def made_struct(self, type: StructType, arguments: list[Place]) -> Value:
        """Return a struct made by its constructor or, without a constructor, from the initial values of its fields."""
        parts = [part for base in type.bases.values() for part in self.made_struct(base, []).parts]
        declared = {f.name: f for f in type.definition.fields} if type.definition is not None else {}
        outer, self.scope = self.scope, type.scope or self.scope
        try:
            for name, of in type.fields[len(parts) :]:
                field = declared.get(name)
                value = field.value if field is not None else None
                parts.append(self.value_as(value, of) if value is not None else self.default(of))
        finally:
            self.scope = outer
        whole = Struct(type, tuple(parts))
        constructors = self.constructors(type)
        if not constructors or (not arguments and all(s.parameters for s, _ in constructors)):
            return whole
        if len(arguments) == 1 and arguments[0].type is type:
            return arguments[0].get(self)
        place = CellPlace(type, self.cell(whole))
        self.overload(
            type.name, [(self._with_initializers(s, type), scope) for s, scope in constructors], arguments, None, place
        )
        return place.get(self)

    def _with_initializers(self, statement: Function, type: StructType) -> Function:
        """Return a constructor with its initializers of members and bases rewritten as assignments before its body."""
        if not statement.initializers:
            return statement
        from .syntax import Assign, Block, Construct, Declaration, Declarator, ExpressionStatement

        assert statement.body is not None
        assignments: list[Any] = []
        at, this = statement.at, Name(statement.at, "this")
        for name, items in statement.initializers:
            if name in type.bases and name not in type.places:
                whole = Declarator(at, f"{name} of this", TypeName(at, name), arguments=items)
                assignments.append(Declaration(at, [whole]))
                fields = [(f, Member(at, Name(at, whole.name), f, False)) for f, _ in type.bases[name].fields]
            else:
                decltype = TypeName(at, "decltype", of=Member(at, this, name, True))
                fields = [(name, Construct(at, decltype, items, False))]
            for field, value in fields:
                assign = Assign(at, "", Member(at, this, field, True), value)
                assignments.append(ExpressionStatement(at, assign))
        body = Block(statement.body.at, [*assignments, *statement.body.body])
        return Function(statement.at, statement.name, None, statement.parameters, body, statement.templates)

    def converted_struct(self, value: Struct, type: ScalarType) -> Value:
        if value.type is COMPLEX:
            real = value.parts[0]
            assert isinstance(real, Scalar)
            return self.n.convert(real, type)
        for name, methods in value.type.methods.items():
            if name.startswith("operator ") and name != "operator ":
                converted = self.call_method(ValuePlace(value), methods, [])
                return self.as_type(converted, type)
        raise Problem(f"a value of type {value.type} cannot become one of type {type}")

    def operator_of(self, type: StructType, name: str) -> Any:
        return type.methods.get(name)

    def overloaded(self, name: str, operands: list[Place], expression: Any) -> Value:
        """Apply an operator to operands of which at least one is a struct."""
        from .complex_numbers import operator as complex_operator

        if any(o.type is COMPLEX for o in operands):
            return complex_operator(self, name, [o.get(self) for o in operands])
        first = operands[0].type
        if isinstance(first, StructType) and name in first.methods:
            return self.call_method(operands[0], first.methods[name], operands[1:])
        overloads = self.scope.get(name)
        if isinstance(overloads, list):
            return self.overload(name, overloads, operands)
        kinds = " and ".join(str(o.type) for o in operands)
        raise Problem(f"there is no {name} for {kinds}", expression.at)

    def scoped(self, expression: Scoped) -> Value:
        """Return the value of `Type::name`."""
        from .limits import limit

        members = self.scope.get(f"{expression.type.name}::")
        if isinstance(members, dict) and expression.name in members:
            return members[expression.name].get(self)
        if expression.type.name in ("Limits", "numeric_limits"):
            assert expression.type.arguments
            return limit(self.type_argument(expression.type.arguments[0]), expression.name, expression.type.name)
        if expression.type.name.startswith("is_") and expression.name == "value":
            return self.trait(expression.type.name, expression.type.arguments, expression.type.at)
        of = self.resolve(expression.type)
        if isinstance(of, StructType) and of.scope is not None:
            inside = of.scope.names.get(expression.name)
            if isinstance(inside, Place):
                return inside.get(self)
            if expression.name in of.methods:
                methods = of.methods[expression.name]
                place = CellPlace(of, self.cell(self.zero(of)))
                templates = expression.arguments
                return Closure(lambda arguments: self.overload("member", methods, arguments, templates, place))
        raise Problem(f"{of} has no member {expression.name!r}", expression.at)

    def trait(self, name: str, arguments: Any, at: Any) -> Value:
        """Return the value of a type trait."""
        kinds = [self.type_argument(a) for a in arguments or ()]
        one = kinds[0]
        kind = one.kind if isinstance(one, ScalarType) else ""
        held = {
            "is_same": len(kinds) > 1 and kinds[0] is kinds[1], "is_floating_point": kind == "f",
            "is_integral": bool(kind) and kind in "bui", "is_signed": bool(kind) and kind in "if",
            "is_unsigned": bool(kind) and kind in "bu",
        }.get(name)  # fmt: skip
        if held is None:
            raise Problem(f"{name} is not in the supported language", at)
        return static(BOOL, held)


def _fits(pattern: Any, argument: Any, names: set[str], known: dict[str, Any]) -> bool:
    """Deduce the parameters in a pattern, such as `T`, `T*` or `vec<T, N>`. Return False if the pattern has no
    parameters to deduce, so that it must equal the argument."""
    name = pattern.name if isinstance(pattern, TypeName) else getattr(pattern, "id", None)
    for _ in range(getattr(pattern, "pointers", 0)):
        if not isinstance(argument, PointerType):
            return False
        argument = argument.element
    if name in names:
        return same(known.setdefault(name, argument), argument)
    values: tuple[Any, ...] = ()
    if name in ("vec", "array") and isinstance(argument, (VectorType, ArrayType)):
        values = (argument.element, static(INT, argument.count))
    elif isinstance(argument, StructType) and argument.arguments[0] == name:
        values = argument.arguments[1]
    inner = getattr(pattern, "arguments", None) or ()
    return bool(values) and all(_fits(p, v, names, known) for p, v in zip(inner, values, strict=False))


def same(a: Any, b: Any) -> bool:
    """Return True if two template arguments are the same type or number."""
    if isinstance(a, Type) or isinstance(b, Type):
        return a is b
    return a.static and b.static and a.base == b.base
