"""What MLX says of its own backends, Metal and CUDA: neither is here, XLA has its own."""

from __future__ import annotations

from .device import gpu
from .devices import device_info
from .errors import expected

__all__ = ["is_available", "metal_device_info", "start_capture", "stop_capture"]


def is_available() -> bool:
    """Whether MLX's own backend of this name is there. `mx.is_available(mx.gpu)` tells of an accelerator.

    Returns:
        False.

    Example:
        >>> mx.metal.is_available()
        False
    """
    return False


def metal_device_info() -> dict[str, str | int]:
    """What is known of the accelerator; empty where there is none."""
    return device_info(gpu)


def start_capture(path: str) -> None:
    """Does nothing: there is no Metal to capture. `jax.profiler.start_trace` records what XLA does.

    Args:
        path: where the capture would go.

    Raises:
        TypeError: `path` is not a str.
    """
    if not isinstance(path, str):
        raise expected("start_capture", "a str", path)


def stop_capture() -> None:
    """Does nothing."""
