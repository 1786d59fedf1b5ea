"""The calls: an expression of the sweep's tables, with one part replaced.

The number of a call determines it in every process: it seeds the choice of case, dtype, part and replacement.
"""

from __future__ import annotations

import ast
import random
from functools import cache
from typing import Any, NamedTuple

from tests.sweep import behaviours, layers, ops
from tests.sweep.cases import Case

__all__ = ["Call", "call"]

REPLACEMENTS = (
    # numbers that are huge, negative, not finite, or of another type
    "2**31 - 1", "2**31", "-2**31", "2**32", "2**63", "-2**63", "10**30", "-10**30", "-1", "0", "1", "7", "-7", "1000",
    "nan", "inf", "-inf", "1e300", "0.5", "True", "False", "1j",
    # objects that are not numbers
    "None", "'text'", "''", "'é' * 3", "b'text'", "'float32'", "{}", "{0: 1}", "{'a': x}", "set()", "object()", "...",
    "slice(None)", "slice(0, 0, 0)", "range(3)", "lambda *given: given", "print", "mx", "int", "iter([])",
    # sequences
    "[]", "()", "[[]]", "(0,)", "(0, 0)", "(1, 1)", "(-1, -1)", "(0, 1, 2)", "(1, 2, 3, 4, 5)", "(2**31, 2)",
    "(2**31 - 1,) * 3", "(2**16, 2**16)", "(10**30,)", "[None]", "['a']", "(0.5, 1)", "(True, 2)", "((1, 2), 3)",
    "[(1, 2), (3, 4)]", "[x, 1]", "[x, None]", "[x, [x]]",
    # dtypes
    "mx.float32", "mx.int8", "mx.bool_", "mx.complex64", "mx.bfloat16", "mx.float64", "mx.uint64", "np.float32",
    "float",
    # arrays of NumPy
    "np.arange(3)", "np.float32(2)", "np.int64(2**40)", "np.ones((4, 6))[::2, ::-2]", "np.array(['a'])",
    "np.array([None])", "np.ones((2, 3), np.complex128)", "np.array(1)",
    # arrays that are 0-d, empty, of another rank, not finite, or not contiguous
    "A(2)", "A(-1)", "A(nan)", "A(True)", "A([])", "mx.zeros((0, 3))", "mx.zeros((3, 0), mx.int32)", "mx.ones((2, 3))",
    "mx.ones((2, 3, 4, 5))", "mx.ones((1,) * 12)", "A([2**31 - 1, -2**31])", "A([-5, 100])", "mx.full((2, 3), nan)",
    "mx.full((3, 3), inf)", "mx.ones((3, 2)).T", "mx.ones((4, 6))[::2, ::-2]", "mx.ones((3, 3), mx.complex64)",
    "mx.ones((3, 3), mx.bool_)", "mx.ones((2, 2), mx.uint32)", "mx.broadcast_to(A(1.0), (2**16, 2**16))",
)  # fmt: skip
"""Replacements for a part."""

CHANGES = (
    "({}).astype(mx.complex64)", "({}).astype(mx.bool_)", "({}).astype(mx.int8)", "({}).astype(mx.float64)",
    "({}).astype(mx.bfloat16)", "({}).T", "({})[None]", "({})[..., :0]", "({})[::-1]", "({})[0]", "({}) * nan",
    "({}).reshape(-1)", "np.array({})", "[{}]", "({},)", "[{}] * 3", "-({})", "({}) * 1000", "({}) + 10**9", "str({})",
    "mx.broadcast_to({}, (2, 2, 2, 3))",
)  # fmt: skip
"""Changes to a part."""


class Call(NamedTuple):
    """A call: its number, the case it is made of, the dtype of its arrays, its expression, and whether XLA runs it."""

    number: int
    case: Case
    dtype: str
    expression: str
    compiled: bool

    def __str__(self) -> str:
        shapes = " ".join(f"{name}: {g.shape}" for name, g in zip("xyz", self.case.operands, strict=False))
        return f"{self.number}: {self.expression} [{self.dtype}{', xla' if self.compiled else ''}] {shapes}"


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(c for c in (*ops.cases(), *layers.cases(), *behaviours.cases()) if _places(_tree(c.expression)))


def _tree(expression: str) -> ast.Expression:
    return ast.parse(expression, mode="eval")


def _places(tree: ast.AST) -> list[tuple[list[Any] | ast.AST, int | str, ast.expr]]:
    """Return the replaceable parts: arguments, operands, subscripts and their elements, each with its parent and its
    place."""
    places: list[tuple[list[Any] | ast.AST, int | str, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Tuple, ast.List)):
            parts = node.args if isinstance(node, ast.Call) else node.elts
            places += [(parts, k, part) for k, part in enumerate(parts) if not isinstance(part, ast.Starred)]
        names = _HELD.get(type(node), ())
        places += [(node, name, getattr(node, name)) for name in names if getattr(node, name) is not None]
    return places


_HELD = {
    ast.keyword: ("value",), ast.BinOp: ("left", "right"), ast.Subscript: ("slice",), ast.Slice: ("lower", "upper"),
}  # fmt: skip


def call(number: int) -> Call:
    """Return the call with this number."""
    draw = random.Random(number)
    case = draw.choice(_cases())
    tree = _tree(case.expression)
    holder, where, part = draw.choice(_places(tree))
    change = draw.random() < 0.25 and not any(isinstance(node, ast.Slice) for node in ast.walk(part))
    text = draw.choice(CHANGES).format(ast.unparse(part)) if change else draw.choice(REPLACEMENTS)
    put = _tree(text).body
    if isinstance(holder, list):
        holder[where] = put  # type: ignore[index]
    else:
        setattr(holder, str(where), put)
    return Call(number, case, draw.choice(case.dtypes), ast.unparse(tree), draw.random() < 0.02)
