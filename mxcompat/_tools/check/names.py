"""Look up MLX's names in mxcompat: objects, attributes of instances, arguments, and types of results."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import textwrap
from functools import cache
from types import ModuleType
from typing import Any

import mxcompat
from mxcompat import nn, optimizers
from mxcompat._array.array import array
from mxcompat._dropin import RENAMED, is_of_others

__all__ = ["PLAIN", "foreign_module", "has_attribute", "is_mlx", "lookup", "missing", "parameters", "result"]

PLAIN = (array, nn.Module, optimizers.Optimizer)
"""The classes for whose instances the checker looks up attributes."""

_OTHERS = {"mlx.data": "mlx-data"}
"""Other distributions that have modules under MLX's name. They are listed here because they may not be installed."""


def is_mlx(module: str) -> bool:
    return module == "mlx" or module.startswith("mlx.")


def foreign_module(name: str) -> str | None:
    """Return the module of another distribution that contains this name, or None."""
    top = ".".join(name.split(".")[:2])
    return top if top in _OTHERS or is_of_others(top) else None


def missing(name: str) -> str | None:
    """Return the shortest prefix of a dotted MLX name that mxcompat lacks, or None."""
    objects, prefix = _walk(name)
    return None if objects else prefix


def lookup(name: str) -> Any:
    """Return the object of a dotted MLX name, or None if there is none, or if it is an attribute of a function."""
    objects, _ = _walk(name)
    return objects[0] if objects else None


@cache
def _walk(name: str) -> tuple[list[Any], str]:
    """Return a list with the object, or an empty list and the missing prefix."""
    parts = name.split(".")
    at: Any = mxcompat
    for k, part in enumerate([RENAMED.get(part, part) for part in parts[1:2]] + parts[2:], 2):
        if not isinstance(at, (ModuleType, type)):
            return [None], ""  # the attributes of functions and instances are not checked
        if hasattr(at, part):
            at = getattr(at, part)
        elif isinstance(at, ModuleType) and hasattr(at, "__path__") and _is_module(f"{at.__name__}.{part}"):
            at = importlib.import_module(f"{at.__name__}.{part}")
        else:
            return [], ".".join(parts[:k])
    return [at], ""


def _is_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def has_attribute(cls: type, name: str) -> bool:
    """Return True if instances of a class have an attribute: from the class, or set by a method. Arrays accept no new
    ones."""
    return hasattr(cls, name) or (cls is not array and name in _set_by_methods(cls))


@cache
def _set_by_methods(cls: type) -> set[str]:
    """Return all names that the source of a class and its bases may set on an instance: attributes, and the texts that
    may be keys of a module."""
    names: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.split(".")[0] in ("mxcompat", "mlx"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            names |= {text for text in texts if isinstance(text, str) and text.isidentifier()}
    return names


@cache
def parameters(function: Any) -> frozenset[str] | None:
    """Return the argument names that a function, method or class accepts; None if it accepts any."""
    try:
        accepted = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Python does not know its signature
        return None
    if any(p.kind is p.VAR_KEYWORD for p in accepted):
        return None
    return frozenset(p.name for p in accepted if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


@cache
def result(function: Any) -> tuple[type | None, bool]:
    """Return `array` if a function, method or property is annotated to return arrays, else None. The second value is
    True if it returns several arrays."""
    if isinstance(function, property):
        function = function.fget
    annotation = str(getattr(function, "__annotations__", {}).get("return", ""))
    if annotation in ("array", "mx.array"):
        return array, False
    if annotation in ("list[array]", "tuple[array, ...]") or set(annotation.split(", ")) <= _PARTS_OF_A_PAIR:
        return array, True
    return None, False


_PARTS_OF_A_PAIR = {"tuple[array", "array", "array]"}
