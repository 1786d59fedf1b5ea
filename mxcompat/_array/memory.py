"""Memory: how much is in use, and MLX's limits on it.

XLA manages memory itself. On an accelerator its statistics are reported; on the host the live arrays are counted, and
the peak is the largest count seen when asked. The limits are remembered and have no effect.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mxcompat._graph.ir.node import Node
from mxcompat._graph.run.placement import layout

from . import devices
from .array import array

__all__ = [
    "clear_cache", "get_active_memory", "get_array_buffer_size", "get_cache_memory", "get_memory_limit",
    "get_peak_memory", "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit",
]  # fmt: skip

_peak = 0
_at_reset = 0
_limits: dict[str, int] = {}


def _statistics() -> dict[str, int]:
    return devices.jax_device().memory_stats() or {}


def get_active_memory() -> int:
    """The memory that arrays take up, in bytes."""
    in_use = _statistics().get("bytes_in_use")
    if in_use is None:
        in_use = sum(_held(x) for x in jax.live_arrays() if not x.is_deleted()) + _numpy_bytes()
    _record(in_use)
    return in_use


def _held(x: jax.Array) -> int:
    """The memory of an array, on all devices of this process."""
    return x.nbytes if layout(x) is None else sum(part.data.nbytes for part in x.addressable_shards)


def _numpy_bytes() -> int:
    """The memory of the arrays that are NumPy's, as long as XLA has not needed them. Views share that of their base."""
    found: dict[int, int] = {}
    for node in gc.get_objects():
        if type(node) is Node and type(node.value) is np.ndarray:
            data = node.value
            while isinstance(data.base, np.ndarray):
                data = data.base
            found[id(data)] = data.nbytes
    return sum(found.values())


def _record(in_use: int) -> None:
    global _peak
    if in_use > max(_peak, _at_reset):
        _peak = in_use


def get_peak_memory() -> int:
    """The most memory, in bytes, that arrays took up since the start or the last `reset_peak_memory`.

    On the host this is the largest value seen by a call of `get_active_memory` or of this function.
    """
    peak = _statistics().get("peak_bytes_in_use")
    if peak is not None and not _at_reset:
        return peak
    get_active_memory()
    return _peak


def reset_peak_memory() -> None:
    """Start counting the peak anew."""
    global _peak, _at_reset
    _at_reset = get_active_memory()
    _peak = 0


def get_cache_memory() -> int:
    """The memory held but not in use, in bytes. XLA does not tell: 0."""
    return 0


def clear_cache() -> None:
    """Return unused memory to the system; XLA does so itself."""


def get_memory_limit() -> int:
    """The memory limit in bytes."""
    return _limits.get("memory", _statistics().get("bytes_limit") or int(devices.host_memory() * 0.8))


def set_memory_limit(limit: int) -> int:
    """Set the memory limit, in bytes. It is remembered; XLA's own limit stays.

    Returns:
        The previous limit.
    """
    return _set("memory", limit, get_memory_limit())


def set_cache_limit(limit: int) -> int:
    """Set how much unused memory may be kept, in bytes. It is remembered and has no effect.

    Returns:
        The previous limit.
    """
    return _set("cache", limit, _limits.get("cache", get_memory_limit()))


def set_wired_limit(limit: int) -> int:
    """Set how much memory is kept resident, in bytes. It is remembered and has no effect.

    Returns:
        The previous limit.
    """
    return _set("wired", limit, _limits.get("wired", 0))


def _set(name: str, limit: int, previous: int) -> int:
    if not isinstance(limit, int) or limit < 0:
        raise TypeError(f"set_{name}_limit: expected a number of bytes, got {limit!r}")
    _limits[name] = limit
    return previous


def get_array_buffer_size(*args: Any) -> int:
    """The memory behind arrays, in bytes; a buffer that several share counts once.

    Args:
        *args: arrays, or lists, tuples and dicts of them. Other leaves are ignored.

    Raises:
        ValueError: if an array has not been evaluated.
    """
    sizes: dict[int, int] = {}
    for x in _arrays(args):
        value = x._node.value
        if value is None:
            raise ValueError("[get_array_buffer_size] Arrays must be evaluated before querying buffer size.")
        sizes[id(value)] = x.nbytes
    return sum(sizes.values())


def _arrays(tree: Any) -> Iterator[array]:
    if isinstance(tree, array):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for x in tree:
            yield from _arrays(x)
    elif isinstance(tree, dict):
        for x in tree.values():
            yield from _arrays(x)
