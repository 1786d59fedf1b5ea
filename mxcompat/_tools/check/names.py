"""What mxcompat has under a name of MLX's: objects, the attributes of instances, arguments, and types of results."""

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
from mxcompat._dropin import is_of_others

__all__ = ["PLAIN", "has_attribute", "is_mlx", "lookup", "missing", "of_others", "parameters", "result"]

PLAIN = (array, nn.Module, optimizers.Optimizer)
"""The classes whose instances are followed."""

_OTHERS = {"mlx.data": "mlx-data"}
"""Distributions that put modules under MLX's name, known without being installed."""


def is_mlx(module: str) -> bool:
    return module == "mlx" or module.startswith("mlx.")


def of_others(name: str) -> str | None:
    """The module of another distribution's under MLX's name that this is, or is in; None if it is none."""
    top = ".".join(name.split(".")[:2])
    return top if top in _OTHERS or is_of_others(top) else None


def missing(name: str) -> str | None:
    """The shortest prefix of a dotted name of MLX that mxcompat does not have; None if it has it all."""
    found, prefix = _walk(name)
    return None if found else prefix


def lookup(name: str) -> Any:
    """The object of a dotted name of MLX; None if there is none, or it is an attribute of some function's."""
    found, _ = _walk(name)
    return found[0] if found else None


@cache
def _walk(name: str) -> tuple[list[Any], str]:
    """The object in a list, or an empty one and the prefix that is not there."""
    parts = name.split(".")
    at: Any = mxcompat
    for k, part in enumerate(parts[1:], 2):
        if not isinstance(at, (ModuleType, type)):
            return [None], ""  # an attribute of a function or of an instance: its own affair
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
    """Whether instances of a class have an attribute: the class has it, or a method sets it. Arrays take none."""
    return hasattr(cls, name) or (cls is not array and name in _set_by_methods(cls))


@cache
def _set_by_methods(cls: type) -> set[str]:
    """The attributes that methods of a class, or of those it derives from, may give `self`: what they read or set, and
    the entries of the dictionary that a module is."""
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.split(".")[0] in ("mxcompat", "mlx"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            found |= {text for text in texts if isinstance(text, str) and text.isidentifier()}
    return found


@cache
def parameters(function: Any) -> frozenset[str] | None:
    """The names that arguments of a function, method or class may be given by; None if any may."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # what Python cannot tell
        return None
    if any(p.kind is p.VAR_KEYWORD for p in found):
        return None
    return frozenset(p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


@cache
def result(function: Any) -> tuple[type | None, bool]:
    """The class of what a function, method or property returns, if it is one of those that are followed; and whether
    it returns several of it."""
    if isinstance(function, property):
        function = function.fget
    annotation = str(getattr(function, "__annotations__", {}).get("return", ""))
    if annotation in ("array", "mx.array"):
        return array, False
    if annotation in ("list[array]", "tuple[array, ...]") or set(annotation.split(", ")) <= _PARTS_OF_A_PAIR:
        return array, True
    return None, False


_PARTS_OF_A_PAIR = {"tuple[array", "array", "array]"}
