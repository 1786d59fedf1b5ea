"""Objects whose attributes are set once: dtypes, their limits, devices and streams, which whole programs share."""

from __future__ import annotations

from typing import Any

__all__ = ["Fixed"]


class Fixed:
    """Base of classes of which an attribute that has been set can neither be set again nor deleted."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise AttributeError(f"property of {type(self).__name__!r} object has no setter")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if hasattr(self, name):
            raise AttributeError(f"property of {type(self).__name__!r} object has no deleter")
        object.__delattr__(self, name)
