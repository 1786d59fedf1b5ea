"""What the functions of the standard say of arguments that are no arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from mxcompat._array.errors import expected
from mxcompat.core import array

__all__ = ["say_what_is_no_array"]


def say_what_is_no_array(namespace: dict[str, Any]) -> None:
    """Have the public functions of a module raise a TypeError where they meet something else in place of an array."""
    for name in namespace["__all__"]:
        if inspect.isfunction(namespace[name]) and not hasattr(namespace[name], "__wrapped__"):
            namespace[name] = _saying(namespace[name])


def _saying(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AttributeError:
            for name, given in signature.bind(*args, **kwargs).arguments.items():
                if signature.parameters[name].annotation == "array" and not isinstance(given, array):
                    raise expected(function.__name__, "an array", given) from None
            raise

    return call
