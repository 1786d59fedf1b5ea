"""Policy: every threshold, with the measurement behind it; what can be set stands here.

Nothing here looks at a graph: `run/schedule` decides by these numbers, `ir` bounds what it remembers by them, and ops
choose between ways to compute the same. Times are of a 2-core x86-64 machine; ratios between them hold elsewhere, and
that is all that the decisions use.
"""

from __future__ import annotations

import os

from .host import *
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


CACHE_BYTES = int(os.environ.get("MXCOMPAT_CACHE_LIMIT") or _default_cache_bytes())
"""How many bytes of memory structures, executables and JAX's traces may hold, by the estimates of `remembered`."""

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
