"""The dtypes that an operation accepts and returns, found by trying all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mxcompat.core as mx
from docs._build.names import PAGES, described, thing

__all__ = ["facts_of", "outcomes"]

_GROUPS = {
    "bool": ("bool_",),
    "integers": ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    "floats": ("float16", "bfloat16", "float32", "float64"),
    "complex": ("complex64",),
}

_TRIED = ("ops/elementwise", "ops/movement", "ops/reductions", "ops/products", "fft", "linalg", "nn/functions", "fast")
"""Pages whose functions take one or two arrays and have no other effect."""


def _calls(x: Any) -> list[Callable[[Any], Any]]:
    """Return the ways to call a function: with a matrix, with two, with a list, with a vector."""
    return [lambda f: f(x), lambda f: f(x, x), lambda f: f([x, x]), lambda f: f(x[0]), lambda f: f(x[0], x[0])]


def _dtype(result: Any) -> str:
    while isinstance(result, (tuple, list)):
        result = result[0]
    return str(result.dtype).removeprefix("mlx.core.")


def _outcome(found: Any, way: int, name: str) -> str:
    x = mx.array([[2.0, 0.5], [0.5, 1.0]]).astype(getattr(mx, name))
    try:
        got = _dtype(_calls(x)[way](found))
    except (TypeError, ValueError, RuntimeError) as error:
        return f"raises {type(error).__name__}"
    return "the same" if got == name.rstrip("_") else got


@cache
def outcomes(name: str) -> dict[str, str]:
    """Return the result of a public function for each dtype: a dtype, "the same" or an error. Empty if it was not
    tried."""
    page = next((page.path for page in PAGES if name in page.names), "")
    if page not in _TRIED or not described(name) or isinstance(thing(name), type):
        return {}
    for way in range(5):
        try:
            given = _outcome(thing(name), way, "float32")
        except (AttributeError, IndexError):  # the result is not an array
            return {}
        if not given.startswith("raises"):
            return {d: _outcome(thing(name), way, d) for group in _GROUPS.values() for d in group}
    return {}


def facts_of(name: str) -> list[str]:
    """Return a paragraph about dtypes for the docstring of a public name."""
    found = outcomes(name)
    by_outcome: dict[str, list[str]] = {}
    for group, dtypes in _GROUPS.items():
        different = {found[d] for d in dtypes} if found else set()
        if len(different) == 1:
            by_outcome.setdefault(different.pop(), []).append(group)
        else:
            for d in dtypes if found else ():
                by_outcome.setdefault(found[d], []).append(f"`{d}`")
    if not by_outcome:
        return []
    parts = [f"{', '.join(given)} → {got}" if got[:6] != "raises" else f"{', '.join(given)}: {got}"
             for got, given in by_outcome.items()]  # fmt: skip
    return [f"**Dtypes.** {'; '.join(parts)}."]
