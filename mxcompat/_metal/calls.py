"""The walk over calls: functions are walked where they are called. Overloads, templates, structs and lambdas."""

from __future__ import annotations

from typing import Any

from .buffers import Memory
from .errors import NoSuchType, Problem
from .masks import Frame, children
from .places import CellPlace, Place, Scope, ValuePlace
from .structs import StructWalk, same
from .syntax import (
    Call,
    Expression,
    Function,
    Member,
    Name,
    Parameter,
    Return,
    Scoped,
    TypeName,
)  # fmt: skip
from .types import (
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
from .values import FALSE, Closure, Either, NoValue, Value, static

__all__ = ["CallWalk"]


class CallWalk(StructWalk):
    """The walk over calls."""

    calls = 0
    bound: tuple[Place | None, Any] = (None, None)

    def define_function(self, statement: Function) -> None:
        overloads = self.scope.names.get(statement.name)
        if not isinstance(overloads, list):
            overloads = self.scope.names[statement.name] = []
        if statement.body is not None:
            overloads.append((statement, self.scope))

    def call(self, expression: Call, used: bool) -> Value:
        function = expression.function
        if isinstance(function, Member):
            of = self.place(function.target)
            if function.arrow:
                of = self.dereferenced(of)
            return self._method(of, function, expression)
        if isinstance(function, Name):
            entity = self.scope.get(function.id)
            if isinstance(entity, list):
                arguments = [self.place_or_items(a) for a in expression.arguments]
                self.place_now = expression.at
                return self.overload(function.id, entity, arguments, function.arguments)
            if entity is None:
                return self.builtin(function, expression, used)
            if isinstance(entity, Type):
                return self.initialized(entity, expression.arguments, [], constructor=True)
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

    def called_place(self, expression: Call) -> Place:
        """Return the place that a call refers to if the function returns a reference, or else the call's value."""
        value = self.value(expression)
        place, of = self.bound
        return place if place is not None and of is value else ValuePlace(value)

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
        member = self.member(of, function.name)
        value = member.get(self)
        if isinstance(value, Closure):
            return value.call([self.place(a) for a in expression.arguments])
        raise Problem(f"{kind} has no function {function.name!r}", function.at)

    def call_method(self, of: Place, functions: Any, arguments: list[Any], templates: Any = None) -> Value:
        return self.overload("member", functions, arguments, templates, of)

    def overload(self, name: str, functions: Any, arguments: list[Any], templates: Any = None, of: Any = None) -> Value:
        """Call the overload that matches the arguments best."""
        best: tuple[Any, ...] | None = None
        for statement, scope in functions:
            least = sum(p.default is None for p in statement.parameters)
            if not least <= len(arguments) <= len(statement.parameters):
                continue
            try:
                bound = self._bound(statement, scope, arguments, templates)
                if bound is None:
                    continue
                score = self._score(statement, bound, arguments) - _generality(statement)
                if len(functions) > 1:
                    score += self._score_of_spaces(statement, arguments)
            except NoSuchType:
                continue
            if best is None or score > best[0]:
                best = (score, statement, bound)
        if best is None:
            kinds = ", ".join(str(a.type) if isinstance(a, Place) else "{ }" for a in arguments)
            raise Problem(f"no function {name} takes ({kinds})")
        return self.invoke(best[1], best[2], arguments, of)

    def _bound(self, statement: Function, scope: Scope, arguments: list[Any], templates: Any) -> Scope | None:
        """Return the scope of a function's body with the template parameters bound, or None if they do not match."""
        inner = Scope(scope)
        if statement.specialized is not None:
            patterns = [self._argument(a) for a in statement.specialized]
            values = [self._argument(a) for a in templates or ()]
            if values and (
                len(values) != len(patterns) or not all(same(a, b) for a, b in zip(patterns, values, strict=True))
            ):
                return None
        elif statement.templates:
            known: dict[str, Any] = {}
            values = [self._argument(a) for a in templates or ()]
            for parameter, value in zip(statement.templates, values, strict=False):
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

    def _deduce(self, parameter: Parameter, type: Type, names: set[str], known: dict[str, Any]) -> bool:
        of = parameter.type
        for size in parameter.dimensions:
            if isinstance(type, ArrayType):
                if isinstance(size, Name) and size.id in names:
                    known.setdefault(size.id, static(self.index_type, type.count))
                type = type.element
            elif isinstance(type, PointerType):
                type = type.element
        for _ in range(of.pointers):
            if not isinstance(type, (PointerType, ArrayType)):
                return False
            type = type.element
        if of.name in names and of.arguments is None:
            if isinstance(type, ArrayType) and not of.reference and not parameter.dimensions:
                from .types import pointer_to

                type = pointer_to(type.element)
            known.setdefault(of.name, type)
        elif of.arguments:
            values: tuple[Any, ...] = ()
            if of.name in ("vec", "array") and isinstance(type, (VectorType, ArrayType)):
                values = (type.element, static(self.index_type, type.count))
            elif isinstance(type, StructType) and type.arguments[0] == of.name:
                values = type.arguments[1]
            for argument, value in zip(of.arguments, values, strict=False):
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
                type = self.resolve(parameter.type)
                if parameter.dimensions:
                    from .types import pointer_to

                    type = pointer_to(type)
                total += _likeness(argument.type, type)
            if statement.templates and statement.result is not None and statement.result.name != "auto":
                self.resolve(statement.result)  # this raises an error if the type does not exist
        finally:
            self.scope = outer
        return total

    def _score_of_spaces(self, statement: Function, arguments: list[Any]) -> float:
        """Return a bonus for each pointer and reference whose address space, and `const`, are its parameter's."""
        total = 0.0
        for parameter, argument in zip(statement.parameters, arguments, strict=False):
            if not parameter.type.space or not isinstance(argument, Place):
                continue
            is_pointer = isinstance(argument.type, (PointerType, ArrayType))
            target = getattr(self.decayed(argument), "target", None) if is_pointer else argument
            if isinstance(target, Either):
                target = target.first.target
            target = getattr(target, "memory", target)
            spaces: tuple[str, ...] = ("thread",)
            if isinstance(target, Memory):  # of all buffers, only the memory of groups has an `initial` function
                spaces = ("device", "constant") if target.initial is None else ("threadgroup",)
                total += 0.125 * (target.const == parameter.type.const)
            total += 0.25 * (parameter.type.space in spaces)
        return total

    def invoke(self, statement: Function, scope: Scope, arguments: list[Any], of: Place | None = None) -> Value:
        """Walk the body of a function, with the arguments bound to its parameters, and return its result."""
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
            self.frame = Frame(None if result is VOID else result, self.cell(None), self.cell(FALSE), reference)
            assert statement.body is not None
            self.run_all(statement.body.body)
            result_value = self.returned_value(self.frame)
            if isinstance(result_value, NoValue) and result not in (None, VOID) and not reference:
                result_value = self.zero(result)  # type: ignore[arg-type]
            self.bound = (self.frame.place, result_value)
            return result_value
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

    def closure(self, function: Function) -> Closure:
        scope = self.scope
        if function.captures:
            scope = self._captured(function)
        return Closure(lambda arguments: self.invoke(function, scope, arguments))

    def _captured(self, function: Function) -> Scope:
        """Return the scope of a lambda, with copies of the variables that it captures by value."""
        scope = Scope(self.scope)
        names = _names_in(function) if "=" in function.captures else function.captures
        for name in names:
            variable = self.scope.get(name)
            if isinstance(variable, CellPlace):
                scope.names[name] = CellPlace(variable.type, self.cell(variable.get(self)))
        return scope

    def function_value(self, expression: Name, functions: Any) -> Value:
        return Closure(lambda arguments: self.overload(expression.id, functions, arguments, expression.arguments))

    def scoped_call(self, function: Scoped, expression: Call) -> Value:
        value = self.scoped(function)
        if isinstance(value, Closure):
            return value.call([self.place_or_items(a) for a in expression.arguments])
        if expression.arguments:
            raise Problem(f"{function.name} takes no arguments", expression.at)
        return value

    def builtin(self, function: Name, expression: Call, used: bool) -> Value:
        raise NotImplementedError


def _generality(function: Function) -> float:
    """Return the disadvantage of a template against an equally good function: more for each parameter of any type."""
    names = {template.name for template in function.templates}
    return 0.5 * bool(names) + 0.01 * sum(p.type.name in names for p in function.parameters)


def _likeness(argument_type: Type, parameter_type: Type) -> float:
    """Return how well an argument's type matches a parameter's in overload resolution: a higher number is better."""
    if argument_type is parameter_type:
        return 4
    if isinstance(argument_type, ScalarType) and isinstance(parameter_type, ScalarType):
        if common(argument_type, parameter_type) is parameter_type and (argument_type.kind == "f") == (
            parameter_type.kind == "f"
        ):
            return 3
        return 2 if (argument_type.kind == "f") == (parameter_type.kind == "f") else 1
    if isinstance(argument_type, ArrayType) and isinstance(parameter_type, PointerType):
        return 3 if argument_type.element is parameter_type.element else 0
    if type(argument_type) is type(parameter_type):
        return 1
    if isinstance(argument_type, ScalarType) and isinstance(parameter_type, (VectorType, StructType)):
        return 0
    return -20


def _leaves_early(statement: Function) -> int:
    """Return 1 if a function can return before its end, else 0."""
    assert statement.body is not None
    body = statement.body.body
    returns = getattr(statement, "name", "") and sum(_returns(s) for s in body)
    return int(bool(returns and not (returns == 1 and isinstance(body[-1], Return))))


def _returns(node: Any) -> int:
    if isinstance(node, Return):
        return 1
    if isinstance(node, Function):
        return 0
    return sum(_returns(c) for c in children(node))


def _names_in(node: Any) -> set[str]:
    names = {node.id} if isinstance(node, Name) else set()
    for child in children(node):
        names |= _names_in(child)
    return names
