"""BLAS: how many threads the libraries of NumPy and of XLA's factorizations may use.

XLA multiplies matrices itself, but factorizes them with the LAPACK of SciPy, which has an OpenBLAS of its own. Threads
of OpenBLAS that wait for each other spin: on a busy machine of two cores the `svd` of a 64x64 matrix took 240 ms with
two threads and 4 with one.
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

__all__ = ["calls_lapack", "in_one_thread", "one_thread"]

_lock = threading.Lock()
_users = 0
_before: list[tuple[Any, int]] = []


@cache
def _libraries(with_scipy: bool) -> list[Any]:
    """What sets the number of threads of each BLAS. SciPy's is there from JAX's import on."""
    from threadpoolctl import ThreadpoolController  # here, since it takes long to import

    return [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread: small matrices gain nothing by two, and while something is compiled in the background
    threads that wait for each other took 8 times as long. The number is the process's: of several threads of Python
    that are in here the last one puts it back."""
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


def calls_lapack(code: Code) -> bool:
    """Whether XLA calls LAPACK for one of the instructions, or for one of a program that they run."""
    return any(
        op in LAPACK or any(calls_lapack(p.code) for p in programs_in(params)) for op, params, _ in code.instructions
    )


def in_one_thread(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call of an executable, which is waited for."""

    def alone(*arrays: Any) -> Any:
        with one_thread():
            return jax.block_until_ready(call(*arrays))

    return alone
