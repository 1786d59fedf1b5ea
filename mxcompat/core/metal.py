"""`mlx.core.metal`, name for name. What MLX has moved to `mlx.core` is the function there, which says so."""

from mxcompat._array import backends as _backends
from mxcompat._array import memory as _memory
from mxcompat._array.backends import metal_is_available as is_available
from mxcompat._array.backends import moved as _moved
from mxcompat._array.backends import start_capture, stop_capture

__all__ = [
    "clear_cache", "device_info", "get_active_memory", "get_cache_memory", "get_peak_memory", "is_available",
    "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit", "start_capture", "stop_capture",
]  # fmt: skip

clear_cache = _moved(_memory.clear_cache)
device_info = _moved(_backends.device_info)
get_active_memory = _moved(_memory.get_active_memory)
get_cache_memory = _moved(_memory.get_cache_memory)
get_peak_memory = _moved(_memory.get_peak_memory)
reset_peak_memory = _moved(_memory.reset_peak_memory)
set_cache_limit = _moved(_memory.set_cache_limit)
set_memory_limit = _moved(_memory.set_memory_limit)
set_wired_limit = _moved(_memory.set_wired_limit)
