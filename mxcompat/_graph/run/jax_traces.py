"""Traces: bound JAX's cache of traces of jitted functions, which include most functions of `jax.numpy`.

JAX keeps a trace for each function and shape, without a limit. After an eviction, the function is traced again.
"""

from __future__ import annotations

from mxcompat._compat.jax_internals import clear_traces, trace_count
from mxcompat._jax import is_imported

from .. import policy

__all__ = ["clear", "count", "held", "make_room"]


def count() -> int:
    """Return the number of cached traces."""
    return trace_count() if is_imported() else 0


def held() -> int:
    """Return the estimated size of the cached traces in bytes."""
    return count() * policy.BYTES_PER_TRACE


def make_room() -> None:
    """Drop all traces if they exceed the limit. JAX does not record their last uses, so LRU eviction is not
    possible."""
    if held() > policy.other_bytes():
        clear()


def clear() -> None:
    """Drop all traces. JAX's compiled functions stay."""
    if is_imported():
        clear_traces()
