"""Policy: every threshold with its measurement. The settings that a user can change are in this module.

Nothing here looks at a graph. `run/schedule` decides by these numbers, `ir` limits its caches by them, and ops use them
to choose an algorithm. The times are from a 2-core x86-64 machine. The decisions use only their ratios, which hold on
other machines, too.
"""

from __future__ import annotations

import os

from .host import *
from .kernels import *
from .ops import *
from .processes import *
from .products import *
from .programs import *
from .remembered import *
from .remembered import physical_memory
from .sizes import *

HOST = os.environ.get("MXCOMPAT_HOST", "1") != "0"
"""True if new programs may run in NumPy."""

REPRODUCIBLE = os.environ.get("MXCOMPAT_REPRODUCIBLE", "") not in ("", "0")
"""True if a structure must always be computed in the same way: by one executable compiled for speed, or in the same
segments. The numbers in `host` then have no effect."""


def _default_cache_bytes() -> int:
    """Return a quarter of a gigabyte, or 2 % of the memory on a machine with little memory."""
    memory = physical_memory()
    return 1 << 28 if memory is None else max(1 << 26, min(1 << 28, memory // 50))


_given_cache_bytes = os.environ.get("MXCOMPAT_CACHE_LIMIT")

CACHE_BYTES = int(_given_cache_bytes or _default_cache_bytes())
"""The memory limit, in bytes, for structures, executables and JAX's traces together, by the estimates in
`remembered`."""

GROWN_SHARE = 4
"""The factor by which the limit may grow if evicted executables are needed again.

The gradient of 30 steps of a Kalman filter, all in XLA, needs 190 MB. With a limit of 161 MB it compiled 45 executables
(11 s) in each training step.
"""

MOST_CACHE_BYTES = CACHE_BYTES if _given_cache_bytes else GROWN_SHARE * CACHE_BYTES
"""The largest memory limit to which the caches may grow. A limit that the user has set does not grow."""

OTHER_SHARE = 0.2
"""The share of the limit for structures, and the share for traces."""


def executable_bytes() -> int:
    """Return the memory limit for executables, in bytes."""
    return CACHE_BYTES - 2 * other_bytes()


def other_bytes() -> int:
    """Return the memory limit for structures, and that for JAX's traces, in bytes."""
    return int(OTHER_SHARE * CACHE_BYTES)


def set_limit(nbytes: int) -> None:
    """Set the memory limit of all caches together, which then does not grow."""
    global CACHE_BYTES, MOST_CACHE_BYTES
    CACHE_BYTES = MOST_CACHE_BYTES = nbytes


def raise_limit(nbytes: int) -> None:
    """Raise the memory limit for executables by `nbytes`, as far as it may grow."""
    global CACHE_BYTES
    CACHE_BYTES = min(MOST_CACHE_BYTES, CACHE_BYTES + int(nbytes / (1 - 2 * OTHER_SHARE)))
