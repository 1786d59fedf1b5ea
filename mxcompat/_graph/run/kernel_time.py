"""Kernel time: the CPU time of this thread in code that is as fast as XLA's, so that a compile saves none of it.

This is C code that XLA's programs call, too, and BLAS.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time

from mxcompat._native import native

__all__ = ["as_fast_as_xla", "seconds_in_kernels"]

_in_c: Callable[[], float] = native.seconds_in_kernels if native is not None else float


class _Local(threading.local):
    seconds = 0.0


_local = _Local()


def seconds_in_kernels() -> float:
    """Return the CPU seconds of this thread in such code."""
    return _in_c() + _local.seconds


@contextmanager
def as_fast_as_xla() -> Iterator[None]:
    """Count the CPU time of this context."""
    start = thread_time()
    try:
        yield
    finally:
        _local.seconds += thread_time() - start
