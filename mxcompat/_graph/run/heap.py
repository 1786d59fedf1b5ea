"""The heap: what arrays on the CPU leave behind stays in the process, for those that come next.

glibc gives what is free at the heap's end back to the system at once, and each page that is asked for again costs a
fault: a step that makes six arrays and forgets them took two to four times as long (`policy.KEPT_BYTES`). MLX keeps
freed memory for the same reason. Where the program's environment says how glibc is to do it, that holds.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from .. import policy

__all__ = ["give_back", "keep"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # in glibc's malloc.h

_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")


def keep(nbytes: int) -> None:
    """Let so many bytes that are free stay in the process, and no fewer than one array may have. Both of glibc's
    numbers are set, as it no longer adjusts either once one of them is."""
    set_option = _of_c("mallopt")
    if set_option is not None and not _is_set():
        set_option(_MMAP_THRESHOLD, policy.LARGEST_KEPT)
        set_option(_TRIM_THRESHOLD, min(max(nbytes, policy.LARGEST_KEPT), policy.MOST_KEPT_BYTES))


def give_back() -> None:
    """Give what is free back to the system."""
    trim = _of_c("malloc_trim")
    if trim is not None:
        trim(0)


def _is_set() -> bool:
    """Whether the environment says how the heap is to be kept."""
    return "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(name in os.environ for name in _SETTINGS)


@cache
def _of_c(name: str) -> Callable[..., Any] | None:
    """A function of the C library; None where it has none of the name, as others than glibc."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
