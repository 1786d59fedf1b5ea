"""Memory: how much is in use, and MLX's limits on it.

XLA manages memory itself; what arrays take up is counted here (`_graph.ir.buffers`), without rounding. What they leave
behind on a CPU is kept for the next ones (`_graph.run.heap`), and the limit on that holds. The others are remembered
and have no effect.
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

__all__ = [
    "clear_cache", "get_active_memory", "get_array_buffer_size", "get_cache_memory", "get_memory_limit",
    "get_peak_memory", "reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit",
]  # fmt: skip

_limits: dict[str, int] = {}

heap.keep(policy.KEPT_BYTES)


def get_active_memory() -> int:
    """The memory of all arrays that have a value, in bytes; views of the same buffer share it.

    The first call of this function, or of one about the peak, looks for the small arrays that there are: until then
    only those of a quarter of a megabyte and more are counted as they come and go.

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
    """The most memory, in bytes, that arrays took up since the start or the last `reset_peak_memory`.

    What is made on the way to a value is part of it: in NumPy the results of ops while they are needed, in XLA what an
    executable allocates. What an op uses within itself in NumPy is not. On an accelerator it is at least what JAX says,
    until the first `reset_peak_memory`.

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
    """Start counting the peak anew: it is 0 until the next array has a value.

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
    """What XLA says of the default device, which is nothing of a CPU."""
    device = devices.default_device()
    return (devices.jax_device(device).memory_stats() or {}) if device.type is gpu else {}


def get_cache_memory() -> int:
    """The memory held but not in use, in bytes. Neither XLA nor the C library tells.

    Returns:
        0.

    Example:
        >>> mx.get_cache_memory() >= 0
        True
    """
    return 0


def clear_cache() -> None:
    """Return unused memory of the CPU to the system, where the C library is glibc. XLA does so itself with others'.

    Example:
        >>> mx.clear_cache()
        >>> mx.get_cache_memory()
        0
    """
    heap.give_back()


def get_memory_limit() -> int:
    """The memory limit.

    Returns:
        The number of bytes: what was set, else what XLA says of the accelerator, else 0.8 of the host's memory.

    Example:
        >>> mx.get_memory_limit() > 0
        True
    """
    return _limits.get("memory", _statistics().get("bytes_limit") or int(0.8 * (policy.physical_memory() or 0)))


def set_memory_limit(limit: int) -> int:
    """Set the memory limit, in bytes. It is remembered; XLA's own limit stays.

    Args:
        limit: how many bytes, not negative.

    Returns:
        The previous limit.

    Raises:
        TypeError: something that is not an int of 64 bits, or is negative.

    Example:
        >>> before = mx.set_memory_limit(1 << 33)
        >>> mx.get_memory_limit() == 1 << 33
        True
        >>> mx.set_memory_limit(before) == 1 << 33
        True
    """
    return _set("memory", limit, get_memory_limit())


def set_cache_limit(limit: int) -> int:
    """Set how much unused memory of the CPU may be kept, in bytes, where the C library is glibc: 32 MiB or more, and
    256 MiB (or a 64th of a smaller machine's memory) until it is set. Arrays of over 32 MiB are not kept.

    Args:
        limit: how many bytes, not negative.

    Returns:
        The previous limit; the first time that of MLX, which is 32 MiB on a CPU, else the memory limit.

    Raises:
        TypeError: something that is not an int of 64 bits, or is negative.

    Example:
        >>> before = mx.set_cache_limit(1 << 30)
        >>> mx.set_cache_limit(before)
        1073741824
    """
    before = _set("cache", limit, _limits.get("cache", _statistics().get("bytes_limit") or 32 << 20))
    heap.keep(_limits["cache"])
    return before


def set_wired_limit(limit: int) -> int:
    """Set how much memory is kept resident, in bytes, where MLX can: not here, as not on its CPU. It has no effect.

    Args:
        limit: how many bytes, not negative.

    Returns:
        0.

    Raises:
        TypeError: something that is not an int of 64 bits, or is negative.

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
        raise TypeError(f"set_{name}_limit: expected a number of bytes, got {limit!r}")
    return count


def get_array_buffer_size(*args: Any) -> int:
    """The memory behind arrays, in bytes; a buffer that several share counts once.

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
