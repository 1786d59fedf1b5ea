"""What the functions that transforms return have in common: the name and the docstring of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["check_callable", "named_after"]


def check_callable(fun: Any, tag: str) -> None:
    if not callable(fun):
        raise TypeError(f"{tag}(): incompatible function arguments: a function is needed, not {type(fun).__name__}.")


def named_after(fun: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """`wrapper`, with the name and docstring of `fun` where it has them."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(fun, name, None)
        if isinstance(value, str):
            setattr(wrapper, name, value)
    wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
    return wrapper
