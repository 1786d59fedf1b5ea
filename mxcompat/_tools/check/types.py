"""Types of a program's expressions, as far as they are clear: an MLX object, one or several instances of an MLX class,
or a method."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mxcompat._array.array import array

from .names import PLAIN, lookup, result
from .scopes import Annotated, Entry, Imported, Scope, Self, Value

__all__ = ["ARRAY", "Instance", "Known", "Types", "called"]


@dataclass(frozen=True)
class Known:
    """A module, function or class of MLX, by its full name."""

    name: str


@dataclass(frozen=True)
class Instance:
    """An instance of an MLX class."""

    cls: type


@dataclass(frozen=True)
class Several:
    """A list or tuple of instances of a class."""

    cls: type


@dataclass(frozen=True)
class Method:
    """A method of an instance."""

    cls: type
    name: str


Type = Known | Instance | Several | Method | Self | None
"""The type of an expression. None is an unknown type."""

_PENDING = Known("")
"""Placeholder for the type of a name while that type is computed. In a recursive definition it is ignored, and the
name's other values determine the type."""

ARRAY = Instance(array)


class Types:
    """Finds the types of the expressions of one program."""

    def __init__(self) -> None:
        self._names: dict[tuple[Scope, str], Type] = {}
        self._attributes: dict[tuple[Scope, str], Type] = {}

    def of(self, node: ast.expr, scope: Scope) -> Type:
        """Return the type of an expression in a scope."""
        find = _RULES.get(type(node))
        return find(self, node, scope) if find is not None else None

    def of_name(self, name: str, scope: Scope) -> Type:
        where = scope.find(name)
        if where is None:
            return None
        key = (where, name)
        if key not in self._names:
            self._names[key] = _PENDING
            self._names[key] = _common_type(self._of_binding(binding, where) for binding in where.bindings[name])
        return self._names[key]

    def _of_binding(self, binding: Any, scope: Scope) -> Type:
        if isinstance(binding, Imported):
            return Known(binding.name)
        if isinstance(binding, Value):
            return self.of(binding.node, scope)
        if isinstance(binding, Self):
            return binding
        if isinstance(binding, Annotated):
            return _instance(self.of(binding.node, scope))
        if isinstance(binding, Entry):
            whole = self.of(binding.node, scope.parent if _is_comprehension(scope) and scope.parent else scope)
            if whole is _PENDING:
                return whole
            if isinstance(whole, Several) or (whole == ARRAY and binding.loop):
                return Instance(whole.cls)  # type: ignore[union-attr]
        return None

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> Type:
        base = self.of(node.value, scope)
        if base is _PENDING:
            return base
        if isinstance(base, Known):
            return Known(f"{base.name}.{node.attr}")
        if isinstance(base, Self):
            return self._of_own(node.attr, base.scope)
        if isinstance(base, Instance):
            attribute = getattr(base.cls, node.attr, None)
            if isinstance(attribute, property):
                return _returned(attribute)
            return Method(base.cls, node.attr) if callable(attribute) else None
        return None

    def _of_own(self, name: str, scope: Scope) -> Type:
        """Return the type of an attribute of an instance of the user's class."""
        key = (scope, name)
        if key not in self._attributes:
            self._attributes[key] = _PENDING
            values = scope.attributes.get(name, []) if name not in scope.replaced else []
            self._attributes[key] = _common_type(
                self.of(value, s) if value is not None else None for value, s in values
            )
        return self._attributes[key]

    def _of_call(self, node: ast.Call, scope: Scope) -> Type:
        function = called(self.of(node.func, scope))
        if function is _PENDING:
            return _PENDING
        if isinstance(function, type):
            return Instance(function) if issubclass(function, PLAIN) else None
        return _returned(function)

    def _of_name(self, node: ast.Name, scope: Scope) -> Type:
        return self.of_name(node.id, scope)

    def _of_operation(self, node: ast.BinOp, scope: Scope) -> Type:
        left, right = self.of(node.left, scope), self.of(node.right, scope)
        if left == ARRAY or (right == ARRAY and isinstance(node.left, ast.Constant)):
            return ARRAY
        return _PENDING if _PENDING in (left, right) else None

    def _of_comparison(self, node: ast.Compare, scope: Scope) -> Type:
        arithmetic = all(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)) for op in node.ops)
        return self._same(node.left, scope) if arithmetic and len(node.ops) == 1 else None

    def _same(self, node: ast.expr, scope: Scope) -> Type:
        """Return the type of an operation on one array, or of an element of the array: the type is the same."""
        type_ = self.of(node, scope)
        return type_ if type_ in (ARRAY, _PENDING) else None

    def _of_sign(self, node: ast.UnaryOp, scope: Scope) -> Type:
        return None if isinstance(node.op, ast.Not) else self._same(node.operand, scope)

    def _of_entry(self, node: ast.Subscript, scope: Scope) -> Type:
        base = self.of(node.value, scope)
        if isinstance(base, Several):
            return None if isinstance(node.slice, ast.Slice) else Instance(base.cls)
        return base if base in (ARRAY, _PENDING) else None

    def _of_choice(self, node: ast.IfExp, scope: Scope) -> Type:
        return _common_type([self.of(node.body, scope), self.of(node.orelse, scope)])


_RULES: dict[type, Any] = {
    ast.Attribute: Types._of_attribute,
    ast.BinOp: Types._of_operation,
    ast.Call: Types._of_call,
    ast.Compare: Types._of_comparison,
    ast.IfExp: Types._of_choice,
    ast.Name: Types._of_name,
    ast.Subscript: Types._of_entry,
    ast.UnaryOp: Types._of_sign,
}


def called(type_: Type) -> Any:
    """Return the Python object that is called when a value of this type is called, or None if unknown."""
    if type_ is _PENDING:
        return _PENDING
    if isinstance(type_, Known):
        target = lookup(type_.name)
        return target if callable(target) else None
    if isinstance(type_, Method):
        return getattr(type_.cls, type_.name)
    if isinstance(type_, Instance):
        return type_.cls.__dict__.get("__call__")  # a layer
    return None


def _returned(function: Any) -> Type:
    if function is None:
        return None
    cls, several = result(function)
    if cls is None:
        return None
    return Several(cls) if several else Instance(cls)


def _instance(type_: Type) -> Type:
    """Return an instance of the class in an annotation, if that is an array. An annotated layer may be a user's
    subclass, so it is unknown."""
    target = lookup(type_.name) if isinstance(type_, Known) and type_.name else None
    return ARRAY if target is array else None


def _common_type(types: Iterable[Type]) -> Type:
    """Return the type that all of these are, or None if they differ."""
    distinct = {type_ for type_ in types if type_ is not _PENDING}
    return distinct.pop() if len(distinct) == 1 else None


def _is_comprehension(scope: Scope) -> bool:
    return isinstance(scope.node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
