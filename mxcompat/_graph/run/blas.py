"""BLAS: limit the threads of the libraries that NumPy and XLA's factorizations use.

XLA multiplies matrices itself, but factorizes them with SciPy's LAPACK, which has a separate OpenBLAS. Threads of
OpenBLAS spin while they wait for each other (`svd` of a 64x64 matrix on a busy machine of two cores: 240 ms with two
threads, 4 ms with one).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mxcompat._jax import jax

from ..ir.program import Code, programs_in
from ..ir.rules import LAPACK

__all__ = ["calls_lapack", "in_one_thread", "is_limited", "one_thread"]

_lock = threading.Lock()
_users = 0
_before: list[tuple[Any, int]] = []


@cache
def _libraries(with_scipy: bool) -> list[Any]:
    """Return a controller of the thread count of each loaded BLAS. JAX's import loads SciPy's BLAS."""
    from threadpoolctl import ThreadpoolController  # imported here because the import is slow

    return [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread in this context. Small matrices gain nothing from two threads, and two threads took 8
    times as long during a compile in the background. The limit holds for the whole process, so the last Python thread
    that leaves the context restores it."""
    global _users, _before
    with _lock:
        if not _users:
            _before = [(lib, lib.num_threads) for lib in _libraries("scipy.linalg" in sys.modules)]
            for lib, _ in _before:
                lib.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                for lib, count in _before:
                    lib.set_num_threads(count)


def is_limited() -> bool:
    """Return True if the limit of `one_thread` is in effect."""
    return _users > 0 and bool(_before)


def calls_lapack(code: Code) -> bool:
    """Return True if XLA calls LAPACK for an instruction, also in a nested program."""
    return any(
        op in LAPACK or any(calls_lapack(p.code) for p in programs_in(params)) for op, params, _ in code.instructions
    )


def in_one_thread(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the call of an executable: it runs with one BLAS thread, and waits for the results."""

    def alone(*arrays: Any) -> Any:
        with one_thread():
            return jax.block_until_ready(call(*arrays))

    return alone
