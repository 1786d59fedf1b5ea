"""The walk over expressions: places, values and operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import matrices
from .errors import Problem
from .operators import OperatorWalk
from .places import Place, ValuePlace
from .syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    Construct,
    Expression,
    Index,
    Initializers,
    Lambda,
    Literal,
    Member,
    Name,
    Postfix,
    Scoped,
    SizeOf,
    TypeName,
    Unary,
)  # fmt: skip
from .types import (
    BOOL,
    INT,
    SCALARS,
    ULONG,
    VOID,
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
from .values import FALSE, TRUE, Closure, NoValue, Pointer, Scalar, Struct, Value, Vector, static

__all__ = ["ExpressionWalk"]


class ExpressionWalk(OperatorWalk):
    """The walk over expressions."""

    def effect(self, expression: Expression) -> None:
        """Walk an expression whose value is not used."""
        if isinstance(expression, Call):
            self.call(expression, used=False)
        elif isinstance(expression, Binary) and expression.op == ",":
            self.effect(expression.left)
            self.effect(expression.right)
        elif isinstance(expression, Postfix):
            self._step(expression, expression.operand, expression.op)
        else:
            self.value(expression)

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression."""
        self.place_now = expression.at
        rule = _VALUES.get(type(expression))
        return rule(self, expression) if rule is not None else self.decayed(self.place(expression))

    def scalar(self, expression: Expression) -> Scalar:
        value = self.value(expression)
        if not isinstance(value, Scalar):
            raise Problem(f"expected a number, but found a value of type {value.type}", expression.at)
        return value

    def truth(self, expression: Expression) -> Scalar:
        """Return the value of an expression as a bool."""
        return self.as_bool(self.value(expression))

    def as_bool(self, value: Value) -> Scalar:
        if isinstance(value, Pointer):
            return FALSE if value.target is None else TRUE
        truth = self.as_type(value, BOOL)
        assert isinstance(truth, Scalar)
        return truth

    def value_as(self, expression: Expression, type: Type | None) -> Value:
        """Return the value of an expression, converted to `type` unless it is None."""
        if isinstance(expression, Initializers):
            if type is None:
                raise Problem("the type of { } is not known here", expression.at)
            return self.initialized(type, expression.items, expression.names)
        value = self.value(expression)
        return value if type is None else self.as_type(value, type)

    def place(self, expression: Expression) -> Place:
        """Return the place that an expression names. A value without a place gets a temporary one."""
        self.place_now = expression.at
        rule = _PLACES.get(type(expression))
        return rule(self, expression) if rule is not None else ValuePlace(self.value(expression))

    def _assign_place(self, expression: Assign) -> Place:
        value = self._assign(expression)
        place = self.place(expression.target) if isinstance(expression.target, Name) else ValuePlace(value)
        return place

    def _literal(self, expression: Literal) -> Value:
        if expression.type == "string":
            return NoValue(VOID)
        return static(SCALARS[expression.type], expression.value)

    def _unary(self, expression: Unary) -> Value:
        op = expression.op
        if op == "&":
            return self.place(expression.operand).pointer(self)
        if op in ("*", "++", "--"):
            return self._unary_place(expression).get(self)
        value = self.value(expression.operand)
        if isinstance(value, Struct):
            return self.overloaded(f"operator{op}", [ValuePlace(value)], expression)
        if op == "!" and isinstance(value, Pointer):
            return self.n.negate(self.as_bool(value))
        if isinstance(value.type, MatrixType) and op == "-":
            return matrices.operator(self, "*", static(SCALARS["float"], -1), value)
        if isinstance(value, Vector):
            if op == "!":
                of = vector_of(BOOL, value.type.count)
                return Vector(of, tuple([self.n.unary("!", p) for p in value.parts]))
            kind = value.type.element
            return Vector(value.type, tuple([self.n.convert(self.n.unary(op, p), kind) for p in value.parts]))
        if not isinstance(value, Scalar):
            raise Problem(f"{op} of a value of type {value.type}", expression.at)
        return self.n.unary(op, value)

    def _step(self, expression: Expression, operand: Expression, op: str) -> Value:
        """Apply `++` or `--`, and return the value before it."""
        place = self.place(operand)
        old = place.get(self)
        if isinstance(old, Pointer):
            place.set(self, self.advanced(old, static(INT, 1), op[0]))
        elif isinstance(old, Scalar):
            place.set(self, self.n.convert(self.n.binary(op[0], old, static(INT, 1)), old.type))
        elif isinstance(old, Vector):
            place.set(self, self.as_type(self.operate(op[0], old, static(INT, 1), expression), old.type))
        else:
            raise Problem(f"{op} of a value of type {old.type}", expression.at)
        return old

    def _postfix(self, expression: Postfix) -> Value:
        return self._step(expression, expression.operand, expression.op)

    def _binary(self, expression: Binary) -> Value:
        op = expression.op
        if op == ",":
            self.effect(expression.left)
            return self.value(expression.right)
        if op in ("&&", "||"):
            return self._short(expression)
        left = self.value(expression.left)
        right = self.value(expression.right)
        self.place_now = expression.at
        return self.operate(op, left, right, expression)

    def _short(self, expression: Binary) -> Value:
        """Return the result of `&&` or `||`. The right operand is evaluated only for threads that need it."""
        left = self.truth(expression.left)
        both = expression.op == "&&"
        if left.static and bool(left.base) != both:
            return left
        if left.static:
            return self.truth(expression.right)
        whole = self.mask
        self.mask = self.narrowed(whole, left if both else self.n.negate(left))
        self.depth += 1
        try:
            right = self.truth(expression.right)
        finally:
            self.mask = whole
            self.depth -= 1
        return self.n.logical("&" if both else "|", left, right)

    def _assign(self, expression: Assign) -> Value:
        target = expression.target
        if expression.op == "":
            value = None
            if not isinstance(expression.value, Initializers):
                value = self.value(expression.value)
            place = self.place(target)
            if value is None:
                value = self.value_as(expression.value, place.type)
            if isinstance(place.type, StructType) and place.type is not value.type:
                method = self.operator_of(place.type, "operator=")
                if method is not None:
                    return self.call_method(place, method, [ValuePlace(value)])
            value = self.as_type(value, place.type)
        else:
            place = self.place(target)
            right = self.value(expression.value)
            self.place_now = expression.at
            old = place.get(self)
            if isinstance(old, Struct):
                method = self.operator_of(old.type, f"operator{expression.op}=")
                if method is not None:
                    return self.call_method(place, method, [ValuePlace(right)])
            value = self.as_type(self.operate(expression.op, old, right, expression), place.type)
        self.place_now = expression.at
        place.set(self, value)
        return value

    def _conditional(self, expression: Conditional) -> Value:
        condition = self.value(expression.condition)
        if isinstance(condition, Vector):
            a, b = self.value(expression.then), self.value(expression.other)
            return self.choose(condition, a, b)
        known = self.as_bool(condition)
        whole = self.mask
        values: list[Value] = []
        self.depth += 1
        try:
            for chosen, part in ((known, expression.then), (self.n.negate(known), expression.other)):
                self.mask = self.narrowed(whole, chosen)
                if isinstance(part, Initializers):
                    raise Problem("{ } in a conditional expression", part.at)
                values.append(self.value(part))
        finally:
            self.mask = whole
            self.depth -= 1
        a, b = values
        if isinstance(a, NoValue):
            return a
        of = self.common_type(a, b, expression)
        return self.select(known, self.as_type(a, of), self.as_type(b, of))

    def _size_of(self, expression: SizeOf) -> Value:
        of = expression.operand
        kind = self.resolve(of) if isinstance(of, TypeName) else self.place(of).type
        return static(ULONG, size_of(kind))

    def _cast_place(self, expression: Cast) -> Place:
        if not expression.type.reference:
            return ValuePlace(self.value(expression))
        of = self.resolve(expression.type)
        return self.pointed(self.cast_pointer(self.place(expression.operand).pointer(self), of))

    def _cast(self, expression: Cast) -> Value:
        of = self.resolve(expression.type)
        if expression.kind == "as_type":
            return self.bits_as(self.value(expression.operand), of)
        if of is VOID:
            self.effect(expression.operand)
            return NoValue(VOID)
        if expression.type.reference:
            return self._cast_place(expression).get(self)
        value = self.value(expression.operand)
        self.place_now = expression.at
        if isinstance(of, PointerType):
            return self.cast_pointer(value, of.element)
        return self.as_type(value, of, explicit=True)

    def _lambda(self, expression: Lambda) -> Value:
        return self.closure(expression.function)

    def _initializers(self, expression: Initializers) -> Value:
        raise Problem("the type of { } is not known here", expression.at)

    def _construct(self, expression: Construct) -> Value:
        of = self.construct_type(expression)
        if not isinstance(of, (ScalarType, VectorType, StructType, ArrayType)):
            if isinstance(of, PointerType) and len(expression.arguments) == 1:
                return self.cast_pointer(self.value(expression.arguments[0]), of.element)
            raise Problem(f"a value of type {of} cannot be made", expression.at)
        return self.initialized(of, expression.arguments, [], constructor=not expression.braces)

    def _call(self, expression: Call) -> Value:
        return self.call(expression, used=True)

    # The subclasses define these names.

    def call(self, expression: Call, used: bool) -> Value:
        raise NotImplementedError

    def construct_type(self, expression: Construct) -> Type:
        raise NotImplementedError

    def initialized(
        self, type: Type, items: list[Expression], names: list[str | None], constructor: bool = False
    ) -> Value:
        raise NotImplementedError

    def cast_pointer(self, value: Value, element: Type) -> Pointer:
        raise NotImplementedError

    def bits_as(self, value: Value, type: Type) -> Value:
        raise NotImplementedError

    def operator_of(self, type: StructType, name: str) -> Any:
        raise NotImplementedError

    def call_method(self, of: Place, functions: Any, arguments: list[Place]) -> Value:
        raise NotImplementedError

    def function_value(self, expression: Name, functions: Any) -> Value:
        raise NotImplementedError

    def closure(self, function: Any) -> Closure:
        raise NotImplementedError

    def scoped(self, expression: Scoped) -> Value:
        raise NotImplementedError

    def trait(self, name: str, arguments: Any, at: Any) -> Value:
        raise NotImplementedError


_VALUES: dict[type, Callable[..., Value]] = {
    Literal: ExpressionWalk._literal,
    Unary: ExpressionWalk._unary,
    Postfix: ExpressionWalk._postfix,
    Binary: ExpressionWalk._binary,
    Assign: ExpressionWalk._assign,
    Conditional: ExpressionWalk._conditional,
    SizeOf: ExpressionWalk._size_of,
    Cast: ExpressionWalk._cast,
    Lambda: ExpressionWalk._lambda,
    Initializers: ExpressionWalk._initializers,
    Construct: ExpressionWalk._construct,
    Call: ExpressionWalk._call,
    Scoped: lambda walk, e: walk.scoped(e),
}

_PLACES: dict[type, Callable[..., Place]] = {
    Name: ExpressionWalk._name,
    Index: ExpressionWalk._index,
    Member: ExpressionWalk._member,
    Unary: ExpressionWalk._unary_place,
    Assign: ExpressionWalk._assign_place,
    Cast: ExpressionWalk._cast_place,
    Call: lambda walk, e: walk.called_place(e),  # type: ignore[attr-defined]
}
