"""Matrices: columns that are vectors, and their arithmetic."""

from __future__ import annotations

from typing import Any

from .errors import Problem
from .types import MatrixType, VectorType, matrix_of
from .values import Array, Scalar, Stack, Value, Vector, static

__all__ = ["MATRIX_FUNCTIONS", "made", "operator"]


def columns(walk: Any, value: Value) -> list[Vector]:
    """Return the columns of a matrix."""
    if isinstance(value, Stack):
        return [walk.stack_element(value, static(walk.index_type, k)) for k in range(value.type.count)]  # type: ignore[attr-defined]
    assert isinstance(value, Array)
    return list(value.parts)  # type: ignore[arg-type]


def _of(walk: Any, type: MatrixType, parts: list[Any]) -> Array:
    return Array(type.element, tuple(parts), type)


def made(walk: Any, type: MatrixType, values: list[Value]) -> Value:
    """Return a matrix made from a number (the diagonal), from another matrix, from columns, or from all elements."""
    column = type.element
    assert isinstance(column, VectorType)
    if len(values) == 1 and isinstance(values[0].type, MatrixType):
        return _of(walk, type, [walk.as_type(c, column) for c in columns(walk, values[0])])
    if len(values) == 1 and isinstance(values[0], Scalar):
        zero = static(column.element, 0)
        one = walk.n.convert(values[0], column.element)
        rows = range(column.count)
        return _of(walk, type, [
            Vector(column, tuple([one if k == j else zero for k in rows])) for j in range(type.count)
        ])  # fmt: skip
    if len(values) == type.count and all(isinstance(v, Vector) for v in values):
        return _of(walk, type, [walk.as_type(v, column) for v in values])
    parts = [p for v in values for p in (v.parts if isinstance(v, Vector) else (v,))]
    if len(parts) != type.count * column.count:
        raise Problem(f"{len(parts)} elements for a value of type {type}")
    rows = column.count
    return _of(walk, type, [walk.made_vector(column, parts[k : k + rows]) for k in range(0, len(parts), rows)])


def _product(walk: Any, matrix: list[Vector], vector: Vector) -> Vector:
    """Return the product of a matrix and a vector: the sum of the columns, weighted by the vector."""
    total: Any = None
    for column, weight in zip(matrix, vector.parts, strict=True):
        term = walk.operate("*", column, weight, None)
        total = term if total is None else walk.operate("+", total, term, None)
    return total


def operator(walk: Any, op: str, left: Value, right: Value) -> Value:
    """Apply a binary operator to operands of which at least one is a matrix."""
    a = columns(walk, left) if isinstance(left.type, MatrixType) else None
    b = columns(walk, right) if isinstance(right.type, MatrixType) else None
    of = left.type if a is not None else right.type
    assert isinstance(of, MatrixType)
    if op in ("+", "-") and a is not None and b is not None:
        return _of(walk, of, [walk.operate(op, x, y, None) for x, y in zip(a, b, strict=True)])
    if op == "*" and a is not None and b is not None:
        parts = [_product(walk, a, column) for column in b]
        return _of(walk, matrix_of(parts[0].type, len(parts)), parts)
    if op == "*" and a is not None and isinstance(right, Vector):
        return _product(walk, a, right)
    if op == "*" and b is not None and isinstance(left, Vector):
        dots = [walk.functions["dot"](walk, [left, column]) for column in b]
        return walk.made_vector(walk.vector(left.type.element, len(dots)), dots)
    if op in ("*", "/") and a is not None and isinstance(right, Scalar):
        return _of(walk, of, [walk.operate(op, x, right, None) for x in a])
    if op == "*" and b is not None and isinstance(left, Scalar):
        return _of(walk, of, [walk.operate(op, left, x, None) for x in b])
    raise Problem(f"{op} of values of types {left.type} and {right.type}")


def _transposed(walk: Any, values: list[Value]) -> Value:
    vectors = columns(walk, values[0])
    rows = [Vector(walk.vector(c[0].type, len(vectors)), c) for c in zip(*[f.parts for f in vectors], strict=True)]
    return _of(walk, matrix_of(rows[0].type, len(rows)), rows)


def _determinant(walk: Any, values: list[Value]) -> Value:
    return _minor(walk, [list(c.parts) for c in columns(walk, values[0])])


def _minor(walk: Any, rows: list[list[Scalar]]) -> Scalar:
    if len(rows) == 1:
        return rows[0][0]
    total: Any = None
    for k, first in enumerate(rows[0]):
        rest = [[*row[:k], *row[k + 1 :]] for row in rows[1:]]
        term = walk.n.same_type("*", first, _minor(walk, rest))
        total = term if total is None else walk.n.same_type("-" if k % 2 else "+", total, term)
    return total


MATRIX_FUNCTIONS = {"transpose": _transposed, "determinant": _determinant}
"""Functions of matrices, by name."""
