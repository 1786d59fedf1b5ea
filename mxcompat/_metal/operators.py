"""The walk over operators: of numbers, vectors, pointers, and of structs that define their own."""

from __future__ import annotations

from typing import Any

from . import matrices
from .buffers import Shifted
from .designators import PlaceWalk
from .errors import Problem
from .places import Place, ValuePlace
from .types import BOOL, INT, SCALARS, MatrixType, Type, VectorType, common, vector_of
from .values import FALSE, TRUE, Pointer, Scalar, Struct, Value, Vector, static

__all__ = ["OperatorWalk"]

_COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")


class OperatorWalk(PlaceWalk):
    """The walk over operators."""

    def operate(self, op: str, left: Value, right: Value, expression: Any) -> Value:
        """Apply a binary operator to two values."""
        if isinstance(left, Scalar) and isinstance(right, Scalar):
            if (left.type.kind == "f" or right.type.kind == "f") and op in ("&", "|", "^", "<<", ">>", "%"):
                raise Problem(f"{op} of values of types {left.type} and {right.type}", expression.at)
            return self.n.binary(op, left, right)
        if isinstance(left.type, MatrixType) or isinstance(right.type, MatrixType):
            return matrices.operator(self, op, left, right)
        if isinstance(left, Struct) or isinstance(right, Struct):
            return self.overloaded(f"operator{op}", [ValuePlace(left), ValuePlace(right)], expression)
        if isinstance(left, Pointer) or isinstance(right, Pointer):
            return self._pointers(op, left, right, expression)
        if isinstance(left, Vector) or isinstance(right, Vector):
            return self._vectors(op, left, right, expression)
        raise Problem(f"{op} of values of types {left.type} and {right.type}", expression.at)

    def _pointers(self, op: str, left: Value, right: Value, expression: Any) -> Value:
        if op in ("+", "-") and isinstance(left, Pointer) and isinstance(right, Scalar):
            return self.advanced(left, right, op)
        if op == "+" and isinstance(right, Pointer) and isinstance(left, Scalar):
            return self.advanced(right, left)
        if isinstance(left, Pointer) and isinstance(right, Scalar) and right.static and right.base == 0:
            return TRUE if (left.target is None) == (op == "==") else FALSE
        if not isinstance(left, Pointer) or not isinstance(right, Pointer):
            raise Problem(f"{op} of values of types {left.type} and {right.type}", expression.at)
        if left.target is not right.target:
            if op in ("==", "!="):
                return TRUE if op == "!=" else FALSE
            raise Problem("two pointers into different buffers", expression.at)
        result = self.n.binary(op, left.offset, right.offset)
        if isinstance(left.target, Shifted) and op == "-":
            result = self.n.binary("/", result, static(INT, left.type.element.room))  # type: ignore[attr-defined]
        return result if result.type is BOOL else self.n.convert(result, SCALARS["long"])

    def _vectors(self, op: str, left: Value, right: Value, expression: Any) -> Value:
        of = left.type if isinstance(left, Vector) else right.type
        assert isinstance(of, VectorType)
        element = of.element
        if isinstance(left, Vector) and isinstance(right, Vector):
            if left.type.count != right.type.count:
                raise Problem(f"{op} of values of types {left.type} and {right.type}", expression.at)
            if left.type.element is not right.type.element and op not in ("<<", ">>"):
                element = common(left.type.element, right.type.element)
        xs, ys = (
            v.parts if isinstance(v, Vector) else (self.as_type(v, element),) * of.count for v in (left, right)
        )  # fmt: skip
        parts = []
        for x, y in zip(xs, ys, strict=True):
            assert isinstance(x, Scalar)
            assert isinstance(y, Scalar)
            x, y = self.n.convert(x, element), self.n.convert(y, element)
            if op in _COMPARISONS:
                parts.append(self.n.compare(op, x, y))
            elif op in ("<<", ">>"):
                parts.append(self.n.convert(self.n.shift(op, x, y), element))
            else:
                parts.append(self.n.same_type(op, x, y))
        return Vector(vector_of(BOOL if op in _COMPARISONS else element, of.count), tuple(parts))

    def choose(self, condition: Vector, a: Value, b: Value) -> Value:
        """Return `condition ? a : b` for a vector of conditions, component by component."""
        of = a.type if isinstance(a, Vector) else b.type
        a, b = self.as_type(a, of), self.as_type(b, of)
        assert isinstance(a, Vector)
        assert isinstance(b, Vector)
        parts = [self.n.select(c, x, y) for c, x, y in zip(condition.parts, a.parts, b.parts, strict=True)]
        return Vector(a.type, tuple(parts))

    def common_type(self, a: Value, b: Value, expression: Any) -> Type:
        if a.type is b.type:
            return a.type
        if isinstance(a, Scalar) and isinstance(b, Scalar):
            return common(a.type, b.type)
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Vector) and isinstance(y, Scalar):
                return x.type
            if isinstance(x, Struct) and isinstance(y, Scalar):
                return x.type
            if isinstance(x, Pointer) and isinstance(y, Scalar):
                return x.type
        return a.type

    # The subclasses define these names.

    def overloaded(self, name: str, operands: list[Place], expression: Any) -> Value:
        raise NotImplementedError

    def as_type(self, value: Value, type: Type, explicit: bool = False) -> Value:
        """Return the value converted to a type."""
        raise NotImplementedError
