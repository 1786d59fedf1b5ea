"""Memory: how much is in use, and MLX's limits on it.

XLA manages its memory itself. The memory of arrays is counted here (`_graph.ir.buffers`), without rounding. On a CPU,
freed memory is kept for new arrays (`_graph.run.heap`), up to the cache limit. The other limits are stored but have no
effect.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from operator import index
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir import buffers
from mxcompat._graph.ir.node import Node
from mxcompat._graph.run import heap
from mxcompat._jax import is_array, is_tracer

from . import devices
from .array import array
from .device import gpu
from .errors import incompatible

__all__ = [
    "clear_cache", "get_active_memory", "get_array_buffer_size", "get_cache_memory", "get_memory_limit",
    "get_peak_memory", "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit",
]  # fmt: skip

_limits: dict[str, int] = {}

heap.keep(policy.KEPT_BYTES)


def get_active_memory() -> int:
    """Return the memory of all arrays that have a value, in bytes. Views of the same buffer count once.

    Before the first call of this function, or of one about the peak, only arrays of a quarter of a megabyte and more
    are tracked. The first call finds the small ones.

    Returns:
        The number of bytes.

    Example:
        >>> before = mx.get_active_memory()
        >>> x = mx.zeros((100, 100))
        >>> mx.eval(x)
        >>> mx.get_active_memory() - before
        40000
    """
    _count_all()
    return buffers.in_use()


def _count_all() -> None:
    if buffers.count_all():
        for node in gc.get_objects():
            if type(node) is Node and _is_data(node.value):
                buffers.count(node.value, node.aval)


def _is_data(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_data, value))
    return isinstance(value, np.ndarray) or (is_array(value) and not is_tracer(value))


def get_peak_memory() -> int:
    """Return the peak memory of arrays in bytes, since the start or the last `reset_peak_memory`.

    Intermediate results count: the results of NumPy's ops, and the allocations of XLA's executables. The temporary
    memory inside a NumPy op does not count. On an accelerator the peak is at least the one that JAX reports, until the
    first `reset_peak_memory`.

    Returns:
        The number of bytes.

    Example:
        >>> x = mx.zeros(1000)
        >>> mx.eval(x)
        >>> mx.get_peak_memory() >= x.nbytes
        True
    """
    _count_all()
    return buffers.peak() if _was_reset else max(buffers.peak(), _statistics().get("peak_bytes_in_use", 0))


def reset_peak_memory() -> None:
    """Reset the peak memory to 0, until the next array gets a value.

    Example:
        >>> mx.reset_peak_memory()
        >>> mx.get_peak_memory()
        0
    """
    global _was_reset
    _count_all()
    _was_reset = True
    buffers.reset_peak()


_was_reset = False


def _statistics() -> dict[str, int]:
    """Return XLA's memory statistics of the default device; empty for a CPU."""
    device = devices.default_device()
    return (devices.jax_device(device).memory_stats() or {}) if device.type is gpu else {}


def get_cache_memory() -> int:
    """Return the memory that is held but not in use, in bytes. It is always 0: neither XLA nor the C library reports
    it.

    Returns:
        0.

    Example:
        >>> mx.get_cache_memory() >= 0
        True
    """
    return 0


def clear_cache() -> None:
    """Return unused CPU memory to the system, if the C library is glibc. On accelerators, XLA does this without a call.

    Example:
        >>> mx.clear_cache()
        >>> mx.get_cache_memory()
        0
    """
    heap.give_back()


def get_memory_limit() -> int:
    """Return the memory limit.

    Returns:
        The number of bytes: the limit that was set, else XLA's limit for the accelerator, else 0.8 of the host's
        memory.

    Example:
        >>> mx.get_memory_limit() > 0
        True
    """
    return _limits.get("memory", _statistics().get("bytes_limit") or int(0.8 * (policy.physical_memory() or 0)))


def set_memory_limit(limit: int) -> int:
    """Set the memory limit, in bytes. The value is stored, but has no effect on XLA's limit.

    Args:
        limit: the number of bytes, not negative.

    Returns:
        The previous limit.

    Raises:
        TypeError: if `limit` is not an int of 64 bits, or is negative.

    Example:
        >>> before = mx.set_memory_limit(1 << 33)
        >>> mx.get_memory_limit() == 1 << 33
        True
        >>> mx.set_memory_limit(before) == 1 << 33
        True
    """
    return _set("memory", limit, get_memory_limit())


def set_cache_limit(limit: int) -> int:
    """Set how much freed CPU memory may be kept, in bytes, if the C library is glibc. The least value is 32 MiB. The
    default is 256 MiB, or a 64th of a smaller machine's memory. The memory of arrays over 32 MiB is not kept.

    Args:
        limit: the number of bytes, not negative.

    Returns:
        The previous limit. The first time it is MLX's default: 32 MiB on a CPU, else the memory limit.

    Raises:
        TypeError: if `limit` is not an int of 64 bits, or is negative.

    Example:
        >>> before = mx.set_cache_limit(1 << 30)
        >>> mx.set_cache_limit(before)
        1073741824
    """
    before = _set("cache", limit, _limits.get("cache", _statistics().get("bytes_limit") or 32 << 20))
    heap.keep(_limits["cache"])
    return before


def set_wired_limit(limit: int) -> int:
    """Accept a limit of resident memory, in bytes. It has no effect, as in MLX on a CPU.

    Args:
        limit: the number of bytes, not negative.

    Returns:
        0.

    Raises:
        TypeError: if `limit` is not an int of 64 bits, or is negative.

    Example:
        >>> mx.set_wired_limit(1 << 30)
        0
    """
    _bytes("wired", limit)
    return 0


def _set(name: str, limit: int, previous: int) -> int:
    _limits[name] = _bytes(name, limit)
    return previous


def _bytes(name: str, limit: int) -> int:
    try:
        count = int(index(limit))
    except TypeError:
        count = -1
    if not 0 <= count < 1 << 64:
        raise incompatible(f"set_{name}_limit", f"Expected a number of bytes, got {limit!r}.")
    return count


def get_array_buffer_size(*args: Any) -> int:
    """Return the memory of arrays in bytes. A buffer that several arrays share counts once.

    Args:
        *args: arrays, or lists, tuples and dicts of them. Other leaves are ignored.

    Returns:
        The number of bytes.

    Raises:
        ValueError: if an array has not been evaluated.

    Example:
        >>> x = mx.zeros(4096)
        >>> mx.eval(x)
        >>> mx.get_array_buffer_size(x, [x]) >= x.nbytes
        True
    """
    sizes: dict[int, int] = {}
    for x in _arrays(args):
        value = x._node.value
        if value is None:
            raise ValueError("[get_array_buffer_size] Arrays must be evaluated before querying buffer size.")
        owner = id(buffers.owner(value))
        sizes[owner] = max(x.nbytes, sizes.get(owner, 0))
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
