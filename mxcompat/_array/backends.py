"""What MLX says of its own backends, Metal and CUDA: neither is here, XLA has its own.

The functions of `metal` that MLX has moved to `mlx.core` are those functions.
"""

from __future__ import annotations

from .devices import device_info
from .errors import expected
from .memory import (
    clear_cache,
    get_active_memory,
    get_cache_memory,
    get_peak_memory,
    reset_peak_memory,
    set_cache_limit,
    set_memory_limit,
    set_wired_limit,
)

__all__ = [
    "clear_cache", "get_active_memory", "get_cache_memory", "get_peak_memory", "is_available", "metal_device_info",
    "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit", "start_capture", "stop_capture",
]  # fmt: skip


def is_available() -> bool:
    """Whether MLX's own backend of this name is there: False. `mx.is_available(mx.gpu)` tells of an accelerator."""
    return False


def metal_device_info() -> dict[str, str | int]:
    """What is known of the accelerator; empty where there is none."""
    from .devices import gpu

    return device_info(gpu)


def start_capture(path: str) -> None:
    """Does nothing: there is no Metal to capture. `jax.profiler.start_trace` records what XLA does.

    Args:
        path: where the capture would go.
    """
    if not isinstance(path, str):
        raise expected("start_capture", "a str", path)


def stop_capture() -> None:
    """Does nothing."""
