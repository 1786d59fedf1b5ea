"""Scopes: the names that a module, function or class of a program binds, and their values.

Nothing is run, and the order of statements is ignored: a name has a type only if all its bindings in the scope have the
same type.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .names import foreign_module, is_mlx

__all__ = ["Annotated", "Entry", "Imported", "Scope", "Self", "Value", "assigned_variables", "loop_variables"]


class Imported(NamedTuple):
    """An MLX name, in full."""

    name: str


class Value(NamedTuple):
    """A binding to the value of an expression."""

    node: ast.expr


class Entry(NamedTuple):
    """A binding to an entry of an expression's value, by a loop or by unpacking."""

    node: ast.expr
    loop: bool


class Annotated(NamedTuple):
    """A value whose annotation names the type."""

    node: ast.expr


class Self(NamedTuple):
    """The instance that a method belongs to."""

    scope: Scope


Binding = Imported | Value | Entry | Annotated | Self | None
"""The binding of a name; None is an unknown value."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)


class Scope:
    """The names of a module, function, class or comprehension, and its inner scopes.

    `attributes` of a class holds the values that its methods assign to attributes of `self`, each with its scope.
    `replaced` holds all attributes that the program assigns on other objects.
    """

    def __init__(self, node: ast.AST, parent: Scope | None = None) -> None:
        self.node = node
        self.parent = parent
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        self.attributes: dict[str, list[tuple[ast.expr | None, Scope]]] = defaultdict(list)
        self.replaced: set[str] = parent.replaced if parent is not None else set()
        self.inner: dict[ast.AST, Scope] = {}
        self._bind_arguments()
        for child in ast.iter_child_nodes(node):
            self._collect(child)

    def find(self, name: str) -> Scope | None:
        """Return the scope that binds a name as it is read here. Methods do not see the names of their class."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope
            scope = scope.parent
        return None

    def _bind_arguments(self) -> None:
        if not isinstance(self.node, _FUNCTIONS):
            return
        arguments = self.node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for arg in parameters:
            self.bindings[arg.arg].append(Annotated(arg.annotation) if arg.annotation is not None else None)
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self.bindings[extra.arg].append(None)
        if parameters and self.parent is not None and isinstance(self.parent.node, ast.ClassDef):
            self.bindings[parameters[0].arg] = [Self(self.parent)]

    def _collect(self, node: ast.AST) -> None:
        if isinstance(node, _SCOPES):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.bindings[node.name].append(None)
            self.inner[node] = Scope(node, self)
            return
        for name, binding in _bound(node):
            self.bindings[name].append(binding)
        for target, value in _assignments(node):
            self._bind_attribute(target, value)
        for child in ast.iter_child_nodes(node):
            self._collect(child)

    def _bind_attribute(self, target: ast.expr, value: ast.expr | None) -> None:
        if not isinstance(target, ast.Attribute):
            return
        owner = target.value.id if isinstance(target.value, ast.Name) else ""
        scope = self.find(owner)
        binding = scope.bindings[owner] if scope is not None else []
        if binding and isinstance(binding[0], Self):
            binding[0].scope.attributes[target.attr].append((value, self))
        else:
            self.replaced.add(target.attr)


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield the targets of a statement with the assigned values; None for a value that is not in the source."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                yield from ((element, None) for element in target.elts)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign):
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, None


def _bound(node: ast.AST) -> Iterator[tuple[str, Binding]]:
    """Yield the names that a node itself binds."""
    if isinstance(node, ast.Import):
        for item in node.names:
            if is_mlx(item.name) and foreign_module(item.name) is None:
                yield item.asname or "mlx", Imported(item.name if item.asname else "mlx")
            else:
                yield (item.asname or item.name.split(".")[0]), None
    elif isinstance(node, ast.ImportFrom):
        ours = not node.level and node.module and is_mlx(node.module) and foreign_module(node.module) is None
        for item in node.names:
            yield item.asname or item.name, Imported(f"{node.module}.{item.name}") if ours else None
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, Value(node.value), Entry(node.value, loop=False))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, Annotated(node.annotation)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        yield node.target.id, Value(ast.copy_location(ast.BinOp(read, node.op, node.value), node))
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id, Value(node.value)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _targets(node.target, Entry(node.iter, loop=True), None)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, None, None)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name, None
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from ((name, None) for name in node.names)


def _targets(target: ast.expr, whole: Binding, entry: Binding) -> Iterator[tuple[str, Binding]]:
    if isinstance(target, ast.Name):
        yield target.id, whole
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _targets(element, entry, None)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None, None)


def loop_variables(loops: Iterable[ast.AST]) -> set[str]:
    """Return the loop variables of these loops."""
    return {
        name.id
        for loop in loops
        if isinstance(loop, (ast.For, ast.AsyncFor))
        for name in ast.walk(loop.target)
        if isinstance(name, ast.Name)
    }


def assigned_variables(loops: Iterable[ast.AST]) -> set[str]:
    """Return the names that are assigned within these loops."""
    return {node.id for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Name) and _is_stored(node)}


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
