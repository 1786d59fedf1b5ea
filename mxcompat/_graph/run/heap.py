"""The heap: keep the memory of freed arrays in the process, for new arrays.

By default, glibc returns free memory at the end of the heap to the system at once, and allocating it again costs page
faults. MLX keeps freed memory for the same reason. Without this, a step that makes and frees six arrays takes two to
four times as long (`policy.KEPT_BYTES`). Settings of glibc in the environment take precedence. Before and after long
runs, free memory goes back to the system (`policy.TRIMMED_SECONDS`).
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import policy

__all__ = ["give_back", "keep"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # in glibc's malloc.h
_MOST_TRIMMED = (1 << 31) - 1  # glibc keeps the threshold in an int

_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")


def keep(nbytes: int) -> None:
    """Keep up to `nbytes` free bytes in the process, but at least the size of the largest kept array. Both thresholds
    of glibc must be set, because setting one stops the automatic adjustment of both."""
    set_option = _c_function("mallopt")
    if set_option is not None and not _is_set():
        set_option(_MMAP_THRESHOLD, policy.FREED_BYTES)
        set_option(_TRIM_THRESHOLD, min(max(nbytes, policy.FREED_BYTES), _MOST_TRIMMED))


def give_back() -> None:
    """Return free memory to the system, with that of NumPy arrays which XLA has released. JAX drops its references to
    these only when Python's collector runs, for the youngest objects at least."""
    gc.collect(0)
    trim = _c_function("malloc_trim")
    if trim is not None:
        trim(0)


def _is_set() -> bool:
    """Return True if the environment has settings for glibc's heap."""
    return "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(name in os.environ for name in _SETTINGS)


@cache
def _c_function(name: str) -> Callable[..., Any] | None:
    """Return a function of the C library, or None if it has none of this name, as in libraries other than glibc."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
