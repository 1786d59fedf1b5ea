"""Find unsupported constructs in a kernel's source before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .atomics import ATOMICS
from .errors import Problem
from .functions import FUNCTIONS
from .masks import children
from .matrices import MATRIX_FUNCTIONS
from .parse_base import BUILTIN_TEMPLATES, BUILTIN_TYPES
from .simd import SIMD
from .special import SPECIAL
from .syntax import (
    Call,
    Declarator,
    Enum,
    Function,
    Name,
    Parameter,
    StructDefinition,
    TemplateParameter,
    TypeAlias,
)  # fmt: skip

__all__ = ["BARRIERS", "IGNORED", "check"]

BARRIERS = ("threadgroup_barrier", "simdgroup_barrier", "quadgroup_barrier", "__syncthreads", "__syncwarp")
"""Barriers. They are ignored, because all threads execute each statement together."""

IGNORED = ("printf", "os_log", "__assume", "__builtin_assume", "assert", "static_assert")
"""Functions whose calls are ignored."""

_REASONS = {
    "atomic_compare_exchange": "compare-and-swap is", "atomicCAS": "compare-and-swap is",
    "atomic_thread_fence": "a fence of device memory is", "__threadfence": "a fence of device memory is",
    "simdgroup_async_copy": "an asynchronous copy is",
}  # fmt: skip


def check(parts: Iterable[list[Any]]) -> None:
    """Raise Problem at the first call of an unknown function."""
    whole = [statement for part in parts for statement in part]
    known: set[str] = set()
    for statement in whole:
        _declared(statement, known)
    for statement in whole:
        _calls(statement, known)


def _declared(node: Any, known: set[str]) -> None:
    if isinstance(node, (Declarator, Function, Parameter, StructDefinition, TypeAlias, TemplateParameter, Enum)):
        known.add(node.name)
        known.update(getattr(node, "names", ()))
    if isinstance(node, StructDefinition):
        known.update(f.name for f in node.fields)
    for child in children(node):
        _declared(child, known)


def _calls(node: Any, known: set[str]) -> None:
    if isinstance(node, Call) and isinstance(node.function, Name):
        name = node.function.id
        if name not in known and not _is_builtin(name):
            reason = next((r for prefix, r in _REASONS.items() if name.startswith(prefix)), None)
            if reason is not None:
                Problem.at(node.function.at, f"{name}: {reason} not in the supported language")
            Problem.at(node.function.at, f"use of undeclared function {name!r}")
    for child in children(node):
        _calls(child, known)


def _is_builtin(name: str) -> bool:
    tables = (FUNCTIONS, MATRIX_FUNCTIONS, SIMD, ATOMICS, BARRIERS, IGNORED, SPECIAL, BUILTIN_TYPES, BUILTIN_TEMPLATES)
    return any(name in table for table in tables)
