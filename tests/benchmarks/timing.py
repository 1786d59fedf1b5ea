"""Timing: the sides of a workload run in turn, for several rounds, so that disturbances of the machine affect all of
them."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

from .agreement import agree, digest
from .table import compared
from .workloads import Workload

__all__ = ["measure", "steps"]

_WARM_UP_STEPS = 8
_WARM_UP_SECONDS = 1.0
_ROUND_SECONDS = 0.15


def steps(workload: Workload, real: bool = True) -> dict[str, Callable[[], Any]]:
    """Return the warmed-up step of each available side; `real` includes real MLX.

    Raises AssertionError if the sides compute different numbers.
    """
    import mxcompat.core

    sides = {"mxcompat": lambda: workload.mlx(mxcompat.core)}
    if workload.jax is not None:
        sides["jax.jit"] = workload.jax
    if real and importlib.util.find_spec("mlx"):
        import mlx.core

        sides["MLX"] = lambda: workload.mlx(mlx.core)
    ready = {}
    results = {}
    for name, make in sides.items():
        ready[name] = step = make()
        results[name] = digest([step() for _ in range(_WARM_UP_STEPS)])
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:  # a hot program is compiled once it has run as long as the compile would take
        ready["mxcompat"]()
    settle()
    for _ in range(_WARM_UP_STEPS):
        ready["mxcompat"]()
    first = results["mxcompat"]
    for name, other in results.items():
        assert agree(first, other, _tolerance()), f"{workload.name}: {first}, {name}: {other}"
    return ready


def _tolerance() -> float:
    """Return the tolerance for results after a few steps. A GPU's products have 10 bits by default, NumPy's 24."""
    import jax

    return 1e-3 if jax.default_backend() == "cpu" else 5e-2


def settle() -> None:
    """Wait until mxcompat has no pending compile."""
    from mxcompat._graph.run import background

    background.settle()


def measure(
    sides: dict[str, Callable[[], Any]], rounds: int
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[float, float]]]:
    """Time each side's step. In each round each side runs in turn, and follows each other side equally often.

    The order matters because threads of real MLX stay active for a while. Their placement by the scheduler changes
    the next side's time by a fifth.

    Returns:
        The median time by side, in microseconds; and by side the median and quartiles, over the rounds, of mxcompat's
        time divided by that side's. A disturbance of the machine affects all sides of a round alike.
    """
    counts = {name: _count(step) for name, step in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for k in range(rounds):
        start = k % len(order)
        turn = order[start:] + order[:start]
        for name in turn if k % 2 else reversed(turn):
            times[name].append(statistics.median(_times(sides[name], counts[name])))
    return {name: statistics.median(t) * 1e6 for name, t in times.items()}, *compared(times)


def _count(step: Callable[[], Any]) -> tuple[int, int]:
    """Return the number of samples in a round and of steps in a sample: short steps are timed several at a time."""
    start = time.perf_counter()
    step()
    once = max(time.perf_counter() - start, 1e-7)
    inner = max(1, round(2e-4 / once))
    return max(1, min(200, round(_ROUND_SECONDS / (once * inner)))), inner


def _times(step: Callable[[], Any], counts: tuple[int, int]) -> list[float]:
    """Return the seconds per step of each sample. The garbage collector stays on, as in a user's program."""
    samples, inner = counts
    out = []
    clock = time.perf_counter
    if samples * inner > 1:
        step()  # this call loads the step's data into the processor's caches
    for _ in range(samples):
        start = clock()
        for _ in range(inner):
            step()
        out.append((clock() - start) / inner)
    return out
