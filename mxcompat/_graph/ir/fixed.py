"""Objects with attributes that are set once: dtypes, their limits, devices and streams, which are shared by the whole
program."""

from __future__ import annotations

from typing import Any

__all__ = ["Fixed"]


class Fixed:
    """Base class whose attributes, once set, can be neither changed nor deleted."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise AttributeError(f"property of {type(self).__name__!r} object has no setter")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if hasattr(self, name):
            raise AttributeError(f"property of {type(self).__name__!r} object has no deleter")
        object.__delattr__(self, name)
