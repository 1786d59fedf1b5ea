"""Analyses of statements and expressions: find the variables that they name or change, and if they leave a loop."""

from __future__ import annotations

from typing import Any

from .masks import children
from .syntax import (
    Assign,
    Binary,
    Break,
    Continue,
    DoWhile,
    For,
    Function,
    Index,
    Name,
    Postfix,
    Return,
    Switch,
    Unary,
    While,
)

__all__ = ["assigned_in", "breaks", "exits", "has", "indexed_in", "is_named", "may_not_end", "names_in", "weight"]


def is_named(expression: Any, name: str) -> bool:
    return isinstance(expression, Name) and expression.id == name


def weight(node: Any) -> int:
    return 1 + sum(weight(c) for c in children(node))


def names_in(node: Any) -> set[str]:
    names = {node.id} if isinstance(node, Name) else set()
    for child in children(node):
        names |= names_in(child)
    return names


def _root(node: Any) -> str | None:
    while not isinstance(node, Name):
        inner = getattr(node, "target", None) or getattr(node, "operand", None)
        if inner is None:
            return None
        node = inner
    return node.id


def assigned_in(node: Any) -> set[str]:
    """Return the names of the variables that are assigned, or whose address is taken."""
    names: set[str] = set()
    if isinstance(node, Assign):
        names.add(_root(node.target) or "")
    elif isinstance(node, (Unary, Postfix)) and node.op in ("++", "--", "&"):
        names.add(_root(node.operand) or "")
    for child in children(node):
        names |= assigned_in(child)
    return names


def indexed_in(node: Any) -> set[str]:
    """Return the names of the arrays that are indexed."""
    names = {_root(node.target) or ""} if isinstance(node, Index) else set()
    for child in children(node):
        names |= indexed_in(child)
    return names


def has(node: Any, kind: type) -> bool:
    """Return True if a node contains a statement of this kind. Nested functions do not count."""
    if isinstance(node, kind):
        return True
    if isinstance(node, Function):
        return False
    return any(has(c, kind) for c in children(node))


def may_not_end(node: Any) -> bool:
    """Return True if a node, or a function in it, has a loop other than a `for` that compares and counts."""
    if isinstance(node, (While, DoWhile)):
        return True
    if isinstance(node, For) and not (isinstance(node.condition, Binary) and node.step is not None):
        return True
    return any(map(may_not_end, children(node)))


def breaks(node: Any) -> bool:
    """Return True if a node contains a `break` of the enclosing loop."""
    if isinstance(node, Break):
        return True
    if isinstance(node, (Function, For, While, DoWhile, Switch)):
        return False
    return any(breaks(c) for c in children(node))


def exits(node: Any) -> bool:
    """Return True if threads may leave an iteration of a loop before its end."""
    return breaks(node) or has(node, Return) or has(node, Continue)
