"""The stubs in real MLX's wheel (`mlx/core/*.pyi`), read without running them: every public name and signature."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Entry", "difference", "entries", "lookup"]

_KINDS = inspect.Parameter


class Entry(NamedTuple):
    """A name in the stubs.

    Args:
        name: below `mlx.core`: "add", "linalg.norm", "array.sum".
        kind: "function", "class", "method", "property" or "constant".
        overloads: for functions and methods, the parameters of each overload: name, kind and default, which is the
            text of an expression, or None where there is no default.
    """

    name: str
    kind: str
    overloads: tuple[tuple[tuple[str, Any, str | None], ...], ...] = ()


def entries() -> list[Entry]:
    """Return every public name of `mlx.core` and its submodules, and every method and property of its classes."""
    spec = importlib.util.find_spec("mlx.core")
    assert spec is not None
    assert spec.origin is not None
    members: list[Entry] = []
    for file in sorted((Path(spec.origin).parent / "core").glob("*.pyi")):
        prefix = "" if file.stem == "__init__" else file.stem + "."
        members += _body(ast.parse(file.read_text()).body, prefix, "function")
    aliases = [e for e in members if e.kind == "alias"]
    by_name = {e.name: e for e in members}
    for alias in aliases:
        target = by_name.get(alias.overloads[0][0][0])
        if target is not None:
            by_name[alias.name] = Entry(alias.name, target.kind, target.overloads)
    # the stub has this for Python 3.12 and later: see test_array.py
    buffers = {"array.__buffer__", "array.__release_buffer__"}
    return [e for e in by_name.values() if e.kind != "alias" and e.name not in buffers]


def _body(nodes: list[ast.stmt], prefix: str, kind: str) -> list[Entry]:
    members: dict[str, Entry] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            name = prefix + node.name
            decorators = [ast.unparse(d) for d in node.decorator_list]
            if "property" in decorators:
                members[name] = Entry(name, "property")
            elif not any(d.endswith(".setter") for d in decorators):
                known = members[name].overloads if name in members else ()
                members[name] = Entry(name, kind, (*known, _parameters(node.args, kind == "method")))
        elif isinstance(node, ast.ClassDef):
            name = prefix + node.name
            if not any(isinstance(b, ast.Name) and b.id == "Protocol" for b in node.bases):
                members[name] = Entry(name, "class")
                members.update({e.name: e for e in _body(node.body, name + ".", "method")})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if "TypeAlias" not in ast.unparse(node.annotation):
                members[prefix + node.target.id] = Entry(prefix + node.target.id, "constant")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = prefix + node.targets[0].id
            if isinstance(node.value, (ast.Name, ast.Attribute)):
                members[name] = Entry(name, "alias", (((ast.unparse(node.value), None, None),),))
            elif not isinstance(node.value, ast.Call):  # the object is a TypeVar, for example
                members[name] = Entry(name, "constant")
    return list(members.values())


def _parameters(args: ast.arguments, method: bool) -> tuple[tuple[str, Any, str | None], ...]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [ast.unparse(d) for d in args.defaults]
    out: list[tuple[str, Any, str | None]] = []
    for k, (arg, default) in enumerate(zip(plain, defaults, strict=True)):
        kind = _KINDS.POSITIONAL_ONLY if k < len(args.posonlyargs) else _KINDS.POSITIONAL_OR_KEYWORD
        out.append((arg.arg, kind, default))
    if args.vararg:
        out.append((args.vararg.arg, _KINDS.VAR_POSITIONAL, None))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        out.append((arg.arg, _KINDS.KEYWORD_ONLY, default and ast.unparse(default)))
    if args.kwarg:
        out.append((args.kwarg.arg, _KINDS.VAR_KEYWORD, None))
    return tuple(out[1:] if method else out)


_MISSING = object()


def lookup(namespace: Any, name: str) -> Any:
    """Return the object of this name below a namespace, or raise AttributeError."""
    value = namespace
    for part in name.split("."):
        value = inspect.getattr_static(value, part, _MISSING) if isinstance(value, type) else getattr(value, part)
        if value is _MISSING:
            raise AttributeError(name)
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def difference(namespace: Any, entry: Entry) -> str:
    """Return the difference between an entry and the namespace's object of its name, or ""."""
    try:
        value = lookup(namespace, entry.name)
    except AttributeError:
        return "missing"
    if entry.kind == "class":
        return "" if isinstance(value, type) else f"{type(value).__name__} instead of a class"
    if entry.kind in ("constant", "property"):
        return ""
    if not callable(value):
        return f"{type(value).__name__} instead of a function"
    last = entry.name.rpartition(".")[2]
    if last.startswith("__") and last != "__init__":
        return ""  # Python calls operators without parameter names
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except ValueError:
        return "no signature"
    parameters = parameters[1:] if entry.kind == "method" else parameters
    answers = [_compared(namespace, overload, parameters) for overload in entry.overloads]
    return "" if "" in answers else answers[0]


def _compared(namespace: Any, overload: tuple, parameters: list[inspect.Parameter]) -> str:
    for (name, kind, default), mine in zip(overload, parameters, strict=False):
        if mine.name != name:
            return f"parameter {mine.name} instead of {name}"
        if mine.kind is not kind:
            return f"{name} is {mine.kind.description} instead of {kind.description}"
        if (default is None) != (mine.default is _KINDS.empty):
            return f"{name} has {'a' if default is None else 'no'} default"
        if default not in (None, "..."):
            value = eval(default, {**vars(namespace), "mlx": type("mlx", (), {"core": namespace})})
            if type(value) is not type(mine.default) or value != mine.default:
                return f"{name} defaults to {mine.default!r} instead of {value!r}"
    if len(parameters) != len(overload):
        names = [p.name for p in parameters[len(overload) :]] or [name for name, *_ in overload[len(parameters) :]]
        return f"{'extra' if len(parameters) > len(overload) else 'missing'} parameters {', '.join(names)}"
    return ""
