"""`python -m tests.benchmarks metal`: kernels in Metal, and the same computations in mx operations, cold and warm.

Both run in this process, in turn. For each kernel there are two rows: the kernel, and below it the operations. A kernel
of 40 lines must be compiled within a second.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import timing
from .metal_kernels import KERNELS, Pair
from .table import Row

__all__ = ["ROUNDS", "rows"]

ROUNDS = 21
_OF_OPERATIONS = 3.0
_COMPILE_MS = 1000.0
_WARM_SECONDS = 2.0
_NEW_STEPS = 20
"""The number of steps in which the first calls of a new executable are over: group norm took 4 to 16 ms in the first
five, and 3 ms from the tenth on."""


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Yield two rows for each kernel, with the targets in the first."""
    import mxcompat.core as mx

    for pair in KERNELS:
        if is_selected(pair.name):
            yield from _rows(mx, pair, rounds)


def _rows(mx: Any, pair: Pair, rounds: int) -> Iterator[Row]:
    inputs = [mx.array(value) for value in pair.inputs()]
    mx.eval(inputs)

    def step(function: Callable[..., Any]) -> np.ndarray:
        out = function(mx, *inputs)
        mx.eval(out)
        return out

    sides = [pair.kernel, pair.operations]
    first = [_seconds(step, side) for side in sides]
    compiled = _compile_seconds(step, pair.kernel)
    results = [np.array(step(side)) for side in sides]
    largest = np.abs(results[1]).max()
    np.testing.assert_allclose(results[0], results[1], rtol=pair.tol, atol=pair.tol * largest)
    for side in sides:
        _warm_up(step, side)
    times = [[], []]
    for _ in range(rounds):
        for taken, side in zip(times, sides, strict=True):
            taken.append(_seconds(step, side))
    warm = [1e3 * statistics.median(taken) for taken in times]
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    row = Row(f"{pair.name}, kernel, warm", "ms", {"mxcompat": warm[0]})
    row.targets[f"{_OF_OPERATIONS:g} x the operations ({ratio:.2f})"] = ratio <= _OF_OPERATIONS
    yield row
    yield Row("  in mx operations, warm", "ms", {"mxcompat": warm[1]})
    yield Row("  kernel, the first time", "ms", {"mxcompat": 1e3 * first[0]})
    yield Row("  in mx operations, the first time", "ms", {"mxcompat": 1e3 * first[1]})
    row = Row("  kernel, tracing and compiling", "ms", {"mxcompat": 1e3 * compiled})
    row.limit(None, _COMPILE_MS)
    yield row


def _warm_up(step: Callable[..., Any], side: Callable[..., Any]) -> None:
    """Run until hot programs are compiled, which happens once they have taken as long as the compile would."""
    end = time.perf_counter() + _WARM_SECONDS
    step(side)
    while time.perf_counter() < end:
        step(side)
    timing.settle()
    for _ in range(_NEW_STEPS):
        step(side)


def _seconds(step: Callable[..., Any], side: Callable[..., Any]) -> float:
    start = time.perf_counter()
    step(side)
    return time.perf_counter() - start


def _compile_seconds(step: Callable[..., Any], side: Callable[..., Any]) -> float:
    """Return the seconds to trace and compile a kernel, without the import of JAX.

    This is the time of the first run by XLA minus that of a second run.
    """
    from mxcompat.ext.debug import clear_cache, host_disabled

    before = os.environ.get("MXCOMPAT_CACHE")
    os.environ["MXCOMPAT_CACHE"] = "0"  # otherwise the executable of an earlier run is loaded from disk
    try:
        with host_disabled():
            step(side)
            clear_cache()
            return _seconds(step, side) - _seconds(step, side)
    finally:
        if before is None:
            del os.environ["MXCOMPAT_CACHE"]
        else:
            os.environ["MXCOMPAT_CACHE"] = before
