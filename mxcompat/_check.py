"""`python -m mxcompat check PATH`: which names of MLX does a program use that mxcompat does not have?

Reads source, runs nothing: it follows `import mlx.core as mx`, `from mlx import nn` and the like, and looks up every
`mx.a.b` there is in the modules of mxcompat. Methods of arrays and layers are not followed: their types are unknown.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["check"]


@dataclass(frozen=True, order=True)
class Problem:
    """A place in a program that uses what mxcompat does not have, or a file that could not be read."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass
class Result:
    """What `check` found: how many files use MLX, how many different names of it, and what is missing."""

    files: int = 0
    names: int = 0
    problems: list[Problem] = field(default_factory=list)


def check(paths: Iterable[str | Path]) -> Result:
    """Look through Python files, and folders of them, for names of MLX that mxcompat does not have."""
    result = Result()
    seen: set[str] = set()
    for path in _sources(paths):
        try:
            with tokenize.open(path) as file:
                tree = ast.parse(file.read(), str(path))
        except (SyntaxError, UnicodeDecodeError) as error:
            line = getattr(error, "lineno", None) or 1
            result.problems.append(Problem(str(path), line, f"cannot be read: {error.__class__.__name__}: {error}"))
            continue
        uses = dict.fromkeys(_uses(tree))  # one entry for each line and name
        result.files += bool(uses)
        seen.update(name for _, name in uses)
        for line, name in uses:
            missing = _missing(name)
            if missing:
                result.problems.append(Problem(str(path), line, f"{missing} is not in mxcompat"))
    result.names = len(seen)
    result.problems.sort()
    return result


def _sources(paths: Iterable[str | Path]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            found = sorted(path.rglob("*.py"))
            yield from (p for p in found if not any(part.startswith(".") for part in p.relative_to(path).parts))
        else:
            yield path


def _uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every dotted name of MLX that a program imports or reads, in full, with its line."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if _is_mlx(item.name):
                    yield node.lineno, item.name
                    bound[item.asname or "mlx"] = item.name if item.asname else "mlx"
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and _is_mlx(node.module):
            yield node.lineno, node.module
            for item in node.names:
                if item.name != "*":
                    name = f"{node.module}.{item.name}"
                    yield node.lineno, name
                    bound[item.asname or item.name] = name
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node in inner:
            continue
        parts: list[str] = []
        at: ast.AST = node
        while isinstance(at, ast.Attribute):
            inner.add(at)
            parts.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id in bound:
            yield node.lineno, ".".join([bound[at.id], *reversed(parts)])


def _is_mlx(module: str) -> bool:
    return module == "mlx" or module.startswith("mlx.")


def _missing(name: str) -> str | None:
    """The shortest prefix of a dotted name of MLX that mxcompat does not have; None if it has it all."""
    parts = name.split(".")
    at: Any = importlib.import_module("mxcompat")
    for k, part in enumerate(parts[1:], 2):
        found = _member(at, part)
        if found is None:
            return ".".join(parts[:k])
        at = found[0]
        if not isinstance(at, (ModuleType, type)):
            return None  # an attribute of a function or of an instance: its own affair
    return None


def _member(owner: Any, name: str) -> Sequence[Any] | None:
    """The attribute or submodule, in a list; None if there is none."""
    if hasattr(owner, name):
        return [getattr(owner, name)]
    if isinstance(owner, ModuleType) and hasattr(owner, "__path__"):
        full = f"{owner.__name__}.{name}"
        if importlib.util.find_spec(full):
            return [importlib.import_module(full)]
    return None
