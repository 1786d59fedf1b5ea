"""Texts that are known without running a program: constants, names bound to constants, and joins of these."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from .scopes import Scope, Value

__all__ = ["Text", "text_of"]

_MOST = 10
"""The maximum number of names that are followed from one to the next to find a text."""


class Text(NamedTuple):
    """A text in a program.

    Args:
        text: the text. Numbers that are only known in a run are replaced by 1.
        is_whole: True if no part of it was replaced.
        line: the line of the program where it begins, or 0 if it is not one constant.
    """

    text: str
    is_whole: bool = True
    line: int = 0


def text_of(node: ast.expr, scope: Scope, depth: int = 0) -> Text | None:
    """Return the text of an expression, or None if it is only known in a run.

    Args:
        node: the expression.
        scope: the scope of the expression.
        depth: the number of names that were followed to it.
    """
    if depth > _MOST:
        return None
    rule = _RULES.get(type(node))
    return rule(node, scope, depth) if rule is not None else None


def _constant(node: ast.Constant, scope: Scope, depth: int) -> Text | None:
    return Text(node.value, True, node.lineno) if isinstance(node.value, str) else None


def _name(node: ast.Name, scope: Scope, depth: int) -> Text | None:
    where = scope.find(node.id)
    bindings = where.bindings[node.id] if where is not None else []
    if where is None or len(bindings) != 1 or not isinstance(bindings[0], Value):
        return None
    return text_of(bindings[0].node, where, depth + 1)


def _joined(node: ast.JoinedStr, scope: Scope, depth: int) -> Text | None:
    parts = [_part(value, scope, depth) for value in node.values]
    return Text("".join(part.text for part in parts), all(part.is_whole for part in parts))


def _part(node: ast.expr, scope: Scope, depth: int) -> Text:
    if isinstance(node, ast.FormattedValue):
        text = text_of(node.value, scope, depth + 1)
        return text if text is not None else Text("1", False)
    return Text(node.value) if isinstance(node, ast.Constant) else Text("1", False)


def _sum(node: ast.BinOp, scope: Scope, depth: int) -> Text | None:
    if not isinstance(node.op, ast.Add):
        return None
    left, right = text_of(node.left, scope, depth), text_of(node.right, scope, depth)
    if left is None or right is None:
        return None
    return Text(left.text + right.text, left.is_whole and right.is_whole)


def _call(node: ast.Call, scope: Scope, depth: int) -> Text | None:
    """Return the text of a method call, such as `a.replace(b, c)`, or of `textwrap.dedent(a)`."""
    if not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    name, arguments = node.func.attr, [text_of(argument, scope, depth) for argument in node.args]
    if any(argument is None for argument in arguments):
        return None
    if name == "dedent" and len(arguments) == 1 and arguments[0] is not None:
        return arguments[0]._replace(text=textwrap.dedent(arguments[0].text))
    if name not in ("replace", "strip", "lstrip", "rstrip"):
        return None
    subject = text_of(node.func.value, scope, depth)
    if subject is None:
        return None
    parts = [subject, *(argument for argument in arguments if argument is not None)]
    result = getattr(subject.text, name)(*(argument.text for argument in parts[1:]))
    return Text(result, all(argument.is_whole for argument in parts))


_RULES: dict[type, Callable[[Any, Scope, int], Text | None]] = {
    ast.Constant: _constant, ast.Name: _name, ast.JoinedStr: _joined, ast.BinOp: _sum, ast.Call: _call,
}  # fmt: skip
