"""The walk over calls: functions are walked where they are called. Overloads, templates, structs and lambdas."""

from __future__ import annotations

from typing import Any

from .declarations import DeclarationWalk
from .errors import Problem
from .masks import Frame, children
from .places import CellPlace, Place, Scope, ValuePlace
from .syntax import (
    Call,
    Expression,
    Function,
    Member,
    Name,
    Parameter,
    Return,
    Scoped,
    StructDefinition,
    TypeAlias,
    TypeName,
)  # fmt: skip
from .types import (
    BOOL,
    COMPLEX,
    VOID,
    ArrayType,
    FunctionType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    common,
)  # fmt: skip
from .values import FALSE, Closure, NoValue, Scalar, Struct, Value, static

__all__ = ["CallWalk"]


class CallWalk(DeclarationWalk):
    """The walk over calls."""

    calls = 0

    # Definitions

    def define_function(self, statement: Function) -> None:
        found = self.scope.names.get(statement.name)
        if not isinstance(found, list):
            found = self.scope.names[statement.name] = []
        if statement.body is not None:
            found.append((statement, self.scope))

    def define_struct(self, statement: StructDefinition) -> None:
        if statement.templates or statement.specialized is not None:
            found = self.scope.names.get(statement.name)
            if not isinstance(found, list):
                found = self.scope.names[statement.name] = []
            found.append(statement)
            return
        self.scope.names[statement.name] = self._struct_type(statement, statement.name)

    def _struct_type(self, statement: StructDefinition, name: str) -> StructType:
        scope = Scope(self.scope)
        made = StructType(name, (), statement, scope, statement.union)
        scope.names[statement.name] = made
        outer, self.scope = self.scope, scope
        try:
            fields: list[tuple[str, Type]] = []
            for base in statement.bases:
                of = self.resolve(base)
                if isinstance(of, StructType):
                    fields.extend(of.fields)
                    for method, found in of.methods.items():
                        made.methods.setdefault(method, []).extend(found)
            self.run_all(statement.members)
            for field in statement.fields:
                if field.type.reference:
                    raise Problem("a field that is a reference is not in the supported language", field.at)
                fields.append((field.name, self.with_dimensions(self.resolve(field.type), field.dimensions)))
        finally:
            self.scope = outer
        made.fields = tuple(fields)
        made.places = {field: k for k, (field, _) in enumerate(fields)}
        for method in statement.methods:
            if method.body is not None:
                made.methods.setdefault(method.name, []).append((method, scope))
        return made

    def instantiated(self, found: Any, type: TypeName) -> Type:
        """A struct or alias template, for its arguments."""
        given = tuple([self._argument(a) for a in type.arguments or ()])
        if isinstance(found, TypeAlias):
            outer, self.scope = self.scope, Scope(self.scope)
            try:
                self._bind_templates(found.templates, given)
                return self.resolve(found.type)
            finally:
                self.scope = outer
        key = (type.name, *[g if isinstance(g, Type) else (g.type, g.base) for g in given])
        if key not in self.instances:
            statement = next((s for s in found if s.specialized is None), found[0])
            for one in found:
                if one.specialized is not None and not one.templates:
                    special = [self._argument(a) for a in one.specialized]
                    if len(special) == len(given) and all(_same(a, b) for a, b in zip(special, given, strict=True)):
                        statement = one
            outer, self.scope = self.scope, Scope(self.scope)
            try:
                if statement.specialized is None:
                    self._bind_templates(statement.templates, given)
                label = ", ".join(g.name if isinstance(g, Type) else str(g.base) for g in given)
                self.instances[key] = self._struct_type(statement, f"{type.name}<{label}>")
            finally:
                self.scope = outer
        return self.instances[key]

    instances: dict[Any, Type]

    def _argument(self, given: Any) -> Type | Scalar:
        if isinstance(given, TypeName):
            return self.resolve(given)
        if isinstance(given, Name):
            found = self.lookup(given)
            if isinstance(found, Type):
                return found
        return self.scalar(given)

    def _bind_templates(self, parameters: Any, given: Any) -> None:
        if len(given) > len(parameters):
            raise Problem(f"{len(given)} template arguments for {len(parameters)} parameters")
        for k, parameter in enumerate(parameters):
            if k < len(given):
                value = given[k]
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

    # Calls

    def call(self, expression: Call, used: bool) -> Value:
        function = expression.function
        if isinstance(function, Member):
            of = self.place(function.target)
            if function.arrow:
                of = self.dereferenced(of)
            return self._method(of, function, expression)
        if isinstance(function, Name):
            found = self.scope.get(function.id)
            if isinstance(found, list):
                arguments = [self.place_or_items(a) for a in expression.arguments]
                self.place_now = expression.at
                return self.overload(function.id, found, arguments, function.arguments)
            if found is None:
                return self.builtin(function, expression, used)
            if isinstance(found, Type):
                return self.initialized(found, expression.arguments, [], constructor=True)
        if isinstance(function, Scoped):
            return self.scoped_call(function, expression)
        of = self.place(function)
        value = of.get(self) if isinstance(of.type, FunctionType) else None
        if isinstance(value, Closure):
            return value.call([self.place_or_items(a) for a in expression.arguments])
        if isinstance(of.type, StructType):
            method = self.operator_of(of.type, "operator()")
            if method is not None:
                return self.call_method(of, method, [self.place(a) for a in expression.arguments])
        raise Problem("this cannot be called", expression.at)

    def place_or_items(self, expression: Expression) -> Any:
        from .syntax import Initializers

        return expression if isinstance(expression, Initializers) else self.place(expression)

    def _method(self, of: Place, function: Member, expression: Call) -> Value:
        kind = of.type
        if isinstance(kind, StructType) and function.name in kind.methods:
            arguments = [self.place_or_items(a) for a in expression.arguments]
            return self.call_method(of, kind.methods[function.name], arguments, function.arguments)
        if isinstance(kind, (VectorType, ArrayType)) and function.name == "size":
            return static(self.index_type, kind.count)
        found = self.member(of, function.name)
        value = found.get(self)
        if isinstance(value, Closure):
            return value.call([self.place(a) for a in expression.arguments])
        raise Problem(f"{kind} has no function {function.name!r}", function.at)

    def call_method(self, of: Place, functions: Any, arguments: list[Any], templates: Any = None) -> Value:
        return self.overload("member", functions, arguments, templates, of)

    def overload(self, name: str, functions: Any, arguments: list[Any], templates: Any = None, of: Any = None) -> Value:
        """Call the function of several that fits the arguments best."""
        best: tuple[Any, ...] | None = None
        for statement, scope in functions:
            least = sum(p.default is None for p in statement.parameters)
            if not least <= len(arguments) <= len(statement.parameters):
                continue
            bound = self._bound(statement, scope, arguments, templates)
            if bound is None:
                continue
            score = self._score(statement, bound, arguments) - 0.5 * bool(statement.templates)
            if best is None or score > best[0]:
                best = (score, statement, bound)
        if best is None:
            kinds = ", ".join(str(a.type) if isinstance(a, Place) else "{ }" for a in arguments)
            raise Problem(f"no function {name} takes ({kinds})")
        return self.invoke(best[1], best[2], arguments, of)

    def _bound(self, statement: Function, scope: Scope, arguments: list[Any], templates: Any) -> Scope | None:
        """The scope of a function's body with its template parameters bound; None if they do not fit."""
        inner = Scope(scope)
        if statement.specialized is not None:
            wanted = [self._argument(a) for a in statement.specialized]
            given = [self._argument(a) for a in templates or ()]
            if given and (
                len(given) != len(wanted) or not all(_same(a, b) for a, b in zip(wanted, given, strict=True))
            ):
                return None
        elif statement.templates:
            known: dict[str, Any] = {}
            given = [self._argument(a) for a in templates or ()]
            for parameter, value in zip(statement.templates, given, strict=False):
                known[parameter.name] = value
            names = {p.name for p in statement.templates}
            for parameter, argument in zip(statement.parameters, arguments, strict=False):
                if isinstance(argument, Place) and not self._deduce(parameter, argument.type, names, known):
                    return None
            outer, self.scope = self.scope, inner
            try:
                for parameter in statement.templates:
                    if parameter.name in known:
                        self._bind_template(parameter, known[parameter.name])
                    elif parameter.default is not None:
                        self._bind_template(parameter, self._argument(parameter.default))
                    elif parameter.name:
                        return None
            finally:
                self.scope = outer
        return inner

    def _deduce(self, parameter: Parameter, given: Type, names: set[str], known: dict[str, Any]) -> bool:
        of = parameter.type
        for size in parameter.dimensions:
            if isinstance(given, ArrayType):
                if isinstance(size, Name) and size.id in names:
                    known.setdefault(size.id, static(self.index_type, given.count))
                given = given.element
            elif isinstance(given, PointerType):
                given = given.element
        for _ in range(of.pointers):
            if not isinstance(given, (PointerType, ArrayType)):
                return False
            given = given.element
        if of.name in names and of.arguments is None:
            if isinstance(given, ArrayType) and not of.reference and not parameter.dimensions:
                from .types import pointer_to

                given = pointer_to(given.element)
            known.setdefault(of.name, given)
        elif of.name in ("vec", "array") and of.arguments and isinstance(given, (VectorType, ArrayType)):
            for argument, value in zip(
                of.arguments, (given.element, static(self.index_type, given.count)), strict=False
            ):  # fmt: skip
                name = argument.name if isinstance(argument, TypeName) else getattr(argument, "id", None)
                if name in names:
                    known.setdefault(name, value)
        return True

    def _score(self, statement: Function, scope: Scope, arguments: list[Any]) -> float:
        outer, self.scope = self.scope, scope
        total = 0.0
        try:
            for parameter, argument in zip(statement.parameters, arguments, strict=False):
                if not isinstance(argument, Place) or parameter.type.name == "auto":
                    continue
                wanted = self.resolve(parameter.type)
                if parameter.dimensions:
                    from .types import pointer_to

                    wanted = pointer_to(wanted)
                total += _likeness(argument.type, wanted)
        finally:
            self.scope = outer
        return total

    def invoke(self, statement: Function, scope: Scope, arguments: list[Any], of: Place | None = None) -> Value:
        """Walk a function."""
        if self.calls > 60:
            raise Problem(f"{statement.name} calls itself: recursion is not in the supported language", statement.at)
        before, frame = self.scope, getattr(self, "frame", None)
        whole, depth, at = self.mask, self.depth, self.place_now
        inner = Scope(scope)
        if of is not None:
            self._bind_fields(inner, of)
        self.calls += 1
        try:
            self.scope = inner
            self.depth += _leaves_early(statement)
            for k, parameter in enumerate(statement.parameters):
                inner.names[parameter.name] = self._parameter(parameter, arguments[k] if k < len(arguments) else None)
            result = None
            if statement.result is not None and statement.result.name != "auto":
                result = self.resolve(statement.result)
            reference = statement.result is not None and statement.result.reference
            self.frame = Frame(None if result is VOID else result, self.cell(None), self.cell(FALSE))
            assert statement.body is not None
            self.run_all(statement.body.body)
            found = self.returned_value(self.frame)
            if isinstance(found, NoValue) and result not in (None, VOID) and not reference:
                found = self.zero(result)  # type: ignore[arg-type]
            return found
        finally:
            self.scope, self.mask, self.depth, self.place_now = before, whole, depth, at
            self.calls -= 1
            if frame is not None:
                self.frame = frame

    def _bind_fields(self, scope: Scope, of: Place) -> None:
        kind = of.type
        assert isinstance(kind, StructType)
        for name in kind.places:
            scope.names[name] = self.member(of, name)
        for name, methods in kind.methods.items():
            if name != kind.name and name not in scope.names:
                scope.names[name] = Closure(lambda arguments, m=methods: self.call_method(of, m, arguments))
        scope.names["this"] = ValuePlace(of.pointer(self))

    def _parameter(self, parameter: Parameter, argument: Any) -> Place:
        if parameter.type.name == "auto":
            of = argument.type
        else:
            of = self.resolve(parameter.type)
        if argument is None:
            assert parameter.default is not None
            return CellPlace(of, self.cell(self.value_as(parameter.default, of)))
        if not isinstance(argument, Place):
            return CellPlace(of, self.cell(self.initialized(of, argument.items, argument.names)))
        if parameter.type.reference:
            if parameter.dimensions:
                return argument
            if argument.type is of:
                return argument
            if not (parameter.type.const or isinstance(argument, ValuePlace)):
                if (
                    isinstance(of, ScalarType)
                    and isinstance(argument.type, ScalarType)
                    and of.dtype == argument.type.dtype
                ):
                    return argument
                raise Problem(f"a reference to {of} cannot be bound to a value of type {argument.type}")
            return CellPlace(of, self.cell(self.as_type(self.decayed(argument), of)))
        if parameter.dimensions or isinstance(of, PointerType):
            value = self.decayed(argument)
            if isinstance(of, PointerType) and not parameter.dimensions:
                value = self.as_type(value, of)
            return CellPlace(value.type, self.cell(value))
        if isinstance(argument.type, ArrayType) and not isinstance(of, ArrayType):
            value = self.decayed(argument)
            return CellPlace(value.type, self.cell(self.as_type(value, of) if parameter.type.name != "auto" else value))
        return CellPlace(of, self.cell(self.as_type(argument.get(self), of)))

    # Lambdas

    def closure(self, function: Function) -> Closure:
        scope = self.scope
        if function.captures:
            scope = self._captured(function)
        return Closure(lambda arguments: self.invoke(function, scope, arguments))

    def _captured(self, function: Function) -> Scope:
        """The scope of a lambda that takes copies."""
        scope = Scope(self.scope)
        names = _names_in(function) if "=" in function.captures else function.captures
        for name in names:
            found = self.scope.get(name)
            if isinstance(found, CellPlace):
                scope.names[name] = CellPlace(found.type, self.cell(found.get(self)))
        return scope

    def function_value(self, expression: Name, functions: Any) -> Value:
        return Closure(lambda arguments: self.overload(expression.id, functions, arguments, expression.arguments))

    # Structs

    def constructors(self, type: StructType) -> list[Any]:
        return type.methods.get(type.definition.name, []) if type.definition is not None else []

    def made_struct(self, type: StructType, arguments: list[Place]) -> Value:
        """A struct from its constructor; without one, of its fields' initial values."""
        parts: list[Value] = []
        declared = {f.name: f for f in type.definition.fields} if type.definition is not None else {}
        outer, self.scope = self.scope, type.scope or self.scope
        try:
            for name, of in type.fields:
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
            type.name, [(self._with_initializers(s), scope) for s, scope in constructors], arguments, None, place
        )
        return place.get(self)

    def _with_initializers(self, statement: Function) -> Function:
        """A constructor whose initializers are assignments in front of its body."""
        if not statement.initializers:
            return statement
        from .syntax import Assign, Block, Construct, ExpressionStatement

        assert statement.body is not None
        found: list[Any] = []
        for name, items in statement.initializers:
            target = Member(statement.at, Name(statement.at, "this"), name, True)
            decltype = TypeName(statement.at, "decltype", of=target)
            value = Construct(statement.at, decltype, items, False)
            found.append(ExpressionStatement(statement.at, Assign(statement.at, "", target, value)))
        body = Block(statement.body.at, [*found, *statement.body.body])
        return Function(statement.at, statement.name, None, statement.parameters, body, statement.templates)

    def converted_struct(self, value: Struct, type: ScalarType) -> Value:
        if value.type is COMPLEX:
            real = value.parts[0]
            assert isinstance(real, Scalar)
            return self.n.convert(real, type)
        for name, methods in value.type.methods.items():
            if name.startswith("operator ") and name != "operator ":
                found = self.call_method(ValuePlace(value), methods, [])
                return self.as_type(found, type)
        raise Problem(f"a value of type {value.type} cannot become one of type {type}")

    def operator_of(self, type: StructType, name: str) -> Any:
        return type.methods.get(name)

    def overloaded(self, name: str, operands: list[Place], expression: Any) -> Value:
        """An operator of structs."""
        from .complex_numbers import operator as complex_operator

        if any(o.type is COMPLEX for o in operands):
            return complex_operator(self, name, [o.get(self) for o in operands])
        first = operands[0].type
        if isinstance(first, StructType) and name in first.methods:
            return self.call_method(operands[0], first.methods[name], operands[1:])
        found = self.scope.get(name)
        if isinstance(found, list):
            return self.overload(name, found, operands)
        kinds = " and ".join(str(o.type) for o in operands)
        raise Problem(f"there is no {name} for {kinds}", expression.at)

    # Types' names

    def scoped(self, expression: Scoped) -> Value:
        """`Type::name`."""
        from .limits import limit

        found = self.scope.get(f"{expression.type.name}::")
        if isinstance(found, dict) and expression.name in found:
            return found[expression.name].get(self)
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
                return Closure(lambda arguments: self.call_method(place, methods, arguments, expression.arguments))
        raise Problem(f"{of} has no member {expression.name!r}", expression.at)

    def trait(self, name: str, arguments: Any, at: Any) -> Value:
        """The answer to a question about types."""
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

    def scoped_call(self, function: Scoped, expression: Call) -> Value:
        value = self.scoped(function)
        if isinstance(value, Closure):
            return value.call([self.place_or_items(a) for a in expression.arguments])
        if expression.arguments:
            raise Problem(f"{function.name} takes no arguments", expression.at)
        return value

    def builtin(self, function: Name, expression: Call, used: bool) -> Value:
        raise NotImplementedError


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Type) or isinstance(b, Type):
        return a is b
    return a.static and b.static and a.base == b.base


def _likeness(given: Type, wanted: Type) -> float:
    """How well a parameter's type fits an argument's."""
    if given is wanted:
        return 4
    if isinstance(given, ScalarType) and isinstance(wanted, ScalarType):
        if common(given, wanted) is wanted and (given.kind == "f") == (wanted.kind == "f"):
            return 3
        return 2 if (given.kind == "f") == (wanted.kind == "f") else 1
    if isinstance(given, ArrayType) and isinstance(wanted, PointerType):
        return 3 if given.element is wanted.element else 0
    if type(given) is type(wanted):
        return 1
    if isinstance(given, ScalarType) and isinstance(wanted, (VectorType, StructType)):
        return 0
    return -20


def _leaves_early(statement: Function) -> int:
    """1 if a function returns other than at its end."""
    assert statement.body is not None
    body = statement.body.body
    found = getattr(statement, "name", "") and sum(_returns(s) for s in body)
    return int(bool(found and not (found == 1 and isinstance(body[-1], Return))))


def _returns(node: Any) -> int:
    if isinstance(node, Return):
        return 1
    if isinstance(node, Function):
        return 0
    return sum(_returns(c) for c in children(node))


def _names_in(node: Any) -> set[str]:
    found = {node.id} if isinstance(node, Name) else set()
    for child in children(node):
        found |= _names_in(child)
    return found
