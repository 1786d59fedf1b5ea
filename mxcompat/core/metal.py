"""`mlx.core.metal`, name for name. Re-exports only: what MLX has moved to `mlx.core` is the same function here."""

from mxcompat._array.backends import is_available, start_capture, stop_capture
from mxcompat._array.backends import metal_device_info as device_info
from mxcompat._array.memory import (
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
    "clear_cache", "device_info", "get_active_memory", "get_cache_memory", "get_peak_memory", "is_available",
    "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit", "start_capture", "stop_capture",
]  # fmt: skip
