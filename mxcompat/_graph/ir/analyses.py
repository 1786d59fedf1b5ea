"""Analyses of a Program or a Code. Each result is computed once, and kept as long as the Program or Code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["analysis"]

_Analyzed = TypeVar("_Analyzed")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_MISSING = object()


def analysis(
    compute: Callable[Concatenate[_Analyzed, _Arguments], _Result],
) -> Callable[Concatenate[_Analyzed, _Arguments], _Result]:
    """Decorate an analysis, so that it runs once for each set of arguments.

    The first argument is a Program or a Code, and the others are hashable. All of them are positional. The result must
    not be changed. An exception is not kept.
    """

    @wraps(compute)
    def alone(analyzed: Any) -> Any:
        result = analyzed.facts.get(compute, _MISSING)
        if result is _MISSING:
            result = analyzed.facts[compute] = compute(analyzed)
        return result

    @wraps(compute)
    def with_arguments(analyzed: Any, *arguments: Any) -> Any:
        key = (compute, *arguments)
        result = analyzed.facts.get(key, _MISSING)
        if result is _MISSING:
            result = analyzed.facts[key] = compute(analyzed, *arguments)
        return result

    return alone if compute.__code__.co_argcount == 1 else with_arguments  # type: ignore[attr-defined, return-value]
