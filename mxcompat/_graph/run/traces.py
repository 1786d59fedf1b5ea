"""Traces: what JAX keeps of each jitted function for each shape that it has met, most of `jax.numpy`'s among them.

Its cache of these is the one that JAX gives no bound; when a function is met at a shape again, it is traced again.
"""

from __future__ import annotations

from mxcompat._compat.jax_internals import clear_traces, trace_count
from mxcompat._jax import is_imported

from .. import policy

__all__ = ["clear", "count", "held", "make_room"]


def count() -> int:
    """How many there are."""
    return trace_count() if is_imported() else 0


def held() -> int:
    """About how many bytes they hold."""
    return count() * policy.BYTES_PER_TRACE


def make_room() -> None:
    """Forget them if they hold more than they may. JAX does not say which were used last."""
    if held() > policy.trace_bytes():
        clear()


def clear() -> None:
    """Forget them. What JAX has compiled of the functions stays."""
    if is_imported():
        clear_traces()
