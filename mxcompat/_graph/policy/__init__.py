"""Policy: every threshold, with the measurement behind it; what can be set stands here.

Nothing here looks at a graph: `run/schedule` decides by these numbers, `ir` bounds what it remembers by them, and ops
choose between ways to compute the same. Times are of a 2-core x86-64 machine; ratios between them hold elsewhere, and
that is all that the decisions use.
"""

from __future__ import annotations

import os

from .host import *
from .kernels import *
from .ops import *
from .processes import *
from .programs import *
from .remembered import *
from .remembered import physical_memory

HOST = os.environ.get("MXCOMPAT_HOST", "1") != "0"
"""Whether anything at all runs in NumPy because it is new."""

REPRODUCIBLE = os.environ.get("MXCOMPAT_REPRODUCIBLE", "") not in ("", "0")
"""Whether a structure is computed in the same way whenever it is: by one executable, compiled for speed, or in the same
segments. What `host` says then decides nothing."""


def _default_cache_bytes() -> int:
    """A quarter of a gigabyte, or 2 % of the memory of a machine that has little."""
    memory = physical_memory()
    return 1 << 28 if memory is None else max(1 << 26, min(1 << 28, memory // 50))


_given_cache_bytes = os.environ.get("MXCOMPAT_CACHE_LIMIT")

CACHE_BYTES = int(_given_cache_bytes or _default_cache_bytes())
"""How many bytes of memory structures, executables and JAX's traces may hold, by the estimates of `remembered`."""

GROWN_SHARE = 4
"""How many times as much they may hold in the end if what was forgotten is needed again: the gradient of 30 steps of a
Kalman filter, all by XLA, needs 190 MB, had 161, and compiled 45 executables (11 s) in each step of its training."""

MOST_CACHE_BYTES = CACHE_BYTES if _given_cache_bytes else GROWN_SHARE * CACHE_BYTES
"""How much that is: what somebody has set stays."""

STRUCTURE_SHARE = 0.25
TRACE_SHARE = 0.15
"""What of that is for structures, and for traces."""


def structure_bytes() -> int:
    """How many bytes structures may hold."""
    return int(STRUCTURE_SHARE * CACHE_BYTES)


def executable_bytes() -> int:
    """How many bytes executables may hold."""
    return CACHE_BYTES - structure_bytes() - trace_bytes()


def trace_bytes() -> int:
    """How many bytes JAX's traces may hold."""
    return int(TRACE_SHARE * CACHE_BYTES)


def set_limit(nbytes: int) -> None:
    """Let all that is remembered hold so many bytes, and no more."""
    global CACHE_BYTES, MOST_CACHE_BYTES
    CACHE_BYTES = MOST_CACHE_BYTES = nbytes


def raise_limit(nbytes: int) -> None:
    """Let executables hold so many bytes more, as far as the limit may be raised."""
    global CACHE_BYTES
    CACHE_BYTES = min(MOST_CACHE_BYTES, CACHE_BYTES + int(nbytes / (1 - STRUCTURE_SHARE - TRACE_SHARE)))
