"""The TypeError that the standard's functions raise for an argument that is not an array."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from mxcompat._array.errors import expected
from mxcompat.core import array

__all__ = ["say_what_is_no_array"]


def say_what_is_no_array(namespace: dict[str, Any]) -> None:
    """Wrap the public functions of a module, so that they raise TypeError if an array argument is not an array."""
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
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if signature.parameters[name].annotation == "array" and not isinstance(value, array):
                    raise expected(function.__name__, "an array", value) from None
            raise

    return call
