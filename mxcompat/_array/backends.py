"""MLX's backends Metal and CUDA. Neither is available, because XLA has its own backends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from . import devices
from .device import gpu
from .errors import expected

__all__ = [
    "device_info", "is_available", "metal_is_available", "moved", "start_capture", "stop_capture",
]  # fmt: skip

_P = ParamSpec("_P")
_R = TypeVar("_R")


def metal_is_available() -> bool:
    """Return whether MLX's Metal backend is reported as available. `mx.is_available(mx.gpu)` reports an accelerator.

    Returns:
        False, so that programs with a fallback take it, unless `mx.ext.metal.enable` or the environment variable
        `MXCOMPAT_METAL=1` says otherwise. Metal kernels run either way.

    Example:
        >>> mx.metal.is_available()
        False
    """
    return devices.reports_metal()


metal_is_available.__name__ = metal_is_available.__qualname__ = "is_available"


def is_available() -> bool:
    """Return False: MLX's CUDA back-end is not available. `mx.is_available(mx.gpu)` reports an accelerator.

    Returns:
        False.

    Example:
        >>> mx.cuda.is_available()
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
    """Wrap a function of `mlx.core` for its deprecated name in `mlx.core.metal`. Like MLX, the wrapper warns once."""
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
