"""MLX's backends Metal and CUDA. Neither is available here; XLA has backends of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from . import devices
from .device import gpu
from .errors import expected

__all__ = ["device_info", "is_available", "moved", "start_capture", "stop_capture"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def is_available() -> bool:
    """Return False: MLX's own backends are not available. `mx.is_available(mx.gpu)` reports an accelerator.

    Returns:
        False.

    Example:
        >>> mx.metal.is_available()
        False
    """
    return False


def device_info() -> dict[str, str | int]:
    """Return information about the accelerator, or an empty dict if there is none."""
    return devices.device_info(gpu)


def start_capture(path: str) -> None:
    """Do nothing, because Metal is not available. `jax.profiler.start_trace` records XLA's work.

    Args:
        path: the file that MLX would write.

    Raises:
        TypeError: if `path` is not a str.
    """
    if not isinstance(path, str):
        raise expected("start_capture", "a str", path)


def stop_capture() -> None:
    """Do nothing."""


def moved(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a function of `mlx.core` for its old name in `mlx.core.metal`. Like MLX, it warns once that the name is
    deprecated."""
    told = False

    @wraps(function)
    def old(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal told
        if not told:
            told = True
            name = function.__name__
            sys.stderr.write(
                f"mx.metal.{name} is deprecated and will be removed in a future version. Use mx.{name} instead.\n"
            )
        return function(*args, **kwargs)

    return old
