"""Parts: divide a long computation in NumPy among Python threads.

NumPy lets other threads run during a long call. The caller and the helper threads take parts until none is left. The
caller never waits for a thread that has not begun. So a busy machine costs little, unlike with the threads of OpenBLAS,
which get equal shares in advance and wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import background, forked
from .platform import processors

__all__ = ["in_parts", "threads"]


@cache
def _pool() -> Any:
    from concurrent.futures import ThreadPoolExecutor  # imported here because the import is slow

    return ThreadPoolExecutor(processors() - 1, "mxcompat-parts")


def threads() -> int:
    """Return the number of threads that may compute: one less than the processors while a compile is running."""
    return max(1, processors() - background.is_busy())


def in_parts(run: Callable[[int], None], count: int) -> None:
    """Call `run` with the numbers from 0 up to `count`, in several threads and in any order."""
    parts = deque(range(count))

    def work() -> None:
        while parts:
            try:
                part = parts.popleft()
            except IndexError:
                return
            run(part)

    def help_out() -> None:
        with np.errstate(all="ignore"):  # NumPy keeps this setting for each thread
            work()

    helpers: list[Any] = []
    try:
        for _ in range(min(threads(), count) - 1):
            helpers.append(_pool().submit(help_out))
    except RuntimeError:  # at exit, no thread can be started
        pass
    try:
        work()
    finally:
        parts.clear()
        for helper in helpers:
            if not helper.cancel():
                helper.result()


forked.in_child.append(_pool.cache_clear)
