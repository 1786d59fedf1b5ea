"""Uses of MLX that work but are slow, each with its cure. A rule examines one node within a loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from .scopes import Scope, assigned_variables, loop_variables
from .types import ARRAY, Known, Types

__all__ = ["slow"]

Loops = Sequence[ast.AST]
Rule = Callable[[ast.AST, Loops, Scope, Types], bool]


def slow(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> Iterator[tuple[str, str]]:
    """Yield the slow uses at a node within these loops (innermost last), with their cures."""
    for rule, message, cure in _RULES:
        if rule(node, loops, scope, types):
            yield message, cure


def _reads_entries(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> bool:
    """Return True for a read of one element by a loop variable, such as `x[i].item()` or `float(x[i])`."""
    if not isinstance(node, ast.Call):
        return False
    read = None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        read = node.func.value
    elif isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool") and len(node.args) == 1:
        read = node.args[0]
    if not isinstance(read, ast.Subscript) or types.of(read.value, scope) != ARRAY:
        return False
    return any(index in loop_variables(loops) for index in _names_of_index(read))


def _writes_entries(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> bool:
    """Return True for a write to an element by a loop variable, such as `x[i] = y`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
        return False
    entry = any(index in loop_variables(loops) for index in _names_of_index(node))
    return entry and types.of(node.value, scope) == ARRAY


def _names_of_index(node: ast.Subscript) -> list[str]:
    """Return the names that are used directly as indices."""
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [index.id for index in indices if isinstance(index, ast.Name)]


def _grows(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> bool:
    """Return True for an array that grows in a loop, as in `x = mx.concatenate([x, y])`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not node.value.args:
        return False
    targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
    joined = node.value.args[0]
    if types.of(node.value.func, scope) != Known("mlx.core.concatenate"):
        return False
    parts = joined.elts if isinstance(joined, (ast.List, ast.Tuple)) else []
    return any(isinstance(part, ast.Name) and part.id in targets for part in parts)


def _changes_shape(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> bool:
    """Return True for a slice of an array whose length changes in a loop, such as `x[:i]`."""
    if not isinstance(node, ast.Subscript) or types.of(node.value, scope) != ARRAY:
        return False
    varying = loop_variables(loops)
    changing = varying | assigned_variables(loops)
    for index in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        if isinstance(index, ast.Slice):
            ends = [index.lower, index.upper]
            if any(_mentions(end, varying) for end in ends) and not all(_mentions(e, changing) for e in ends):
                return True
    return False


def _mentions(node: ast.expr | None, names: set[str]) -> bool:
    return node is not None and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def _compiles(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> bool:
    """Match `mx.compile(f)`."""
    return isinstance(node, ast.Call) and types.of(node.func, scope) == Known("mlx.core.compile")


def _iterates(node: ast.AST, loops: Loops, scope: Scope, types: Types) -> bool:
    """Match `for row in x`, at the start of the innermost loop."""
    return isinstance(node, (ast.For, ast.comprehension)) and types.of(node.iter, scope) == ARRAY


_RULES: list[tuple[Rule, str, str]] = [
    (_reads_entries, "waits for one entry of an array at each turn", "take all of it once: x.tolist(), np.array(x)"),
    (_writes_entries, "writes one entry of an array at each turn", "collect them and mx.stack, or index with an array"),
    (_grows, "an array that grows at each turn is a new program at each", "collect the parts and concatenate once"),
    (_changes_shape, "a slice whose length changes is a new program at each turn", "mask it, or round the length up"),
    (_compiles, "a function compiled within a loop is traced at each turn", "compile it once, before the loop"),
    (_iterates, "takes an array apart, entry by entry", "use mx.vmap or an operation over the axis, or x.tolist()"),
]
