"""Sides of the tables of `real`: each runs in separate processes, which print their measurements as JSON.

A module of such a table has a `main` that calls `use(side)` first. After it, `import mlx` gives that side's library.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import processes, timing
from .agreement import agree

__all__ = ["has_torch", "in_turn", "megabytes", "timed", "use", "wait_for_compiles"]

ENOUGH_SECONDS = 20.0
"""Seconds after which a row gets no further round."""


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def use(side: str) -> None:
    """Let `import mlx` give the library of `side`: `mxcompat` or `MLX`."""
    if side == "mxcompat":
        import mxcompat

        mxcompat.install_as_mlx()


def wait_for_compiles(side: str) -> None:
    """Wait until the side has no pending compile in the background."""
    if side == "mxcompat":
        timing.settle()


def megabytes(key: str) -> float:
    """Return `VmRSS`, the resident memory of this process in MB, or `VmHWM`, its peak."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key + ":"))


def in_turn(
    module: str, words: list[str], sides: list[str], rounds: int, tolerance: float = 1e-3, once: Sequence[str] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Return the measurements of the sides, which run in turn for several rounds.

    Args:
        module: module of this package; `python -m` runs it with a side and `words`.
        tolerance: tolerance for the entry `result`, where a side has one.
        once: sides that run in the first round only.

    Raises:
        AssertionError: if `result` differs between mxcompat and MLX, or another side has other `parameters`.
    """
    measurements: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    start = time.perf_counter()
    for k in range(rounds):
        for side in sides[k % len(sides) :] + sides[: k % len(sides)]:
            if not (measurements[side] and side in once):
                measurements[side].append(_run(module, side, *words))
        if time.perf_counter() - start > ENOUGH_SECONDS:
            break
    ours = measurements["mxcompat"][-1]
    for side in measurements:
        theirs = measurements[side][-1]
        assert theirs.get("parameters") == ours.get("parameters"), f"{words}: {side} has other parameters"
        if side == "MLX" and "result" in ours:
            assert agree(ours["result"], theirs["result"], tolerance), f"{words}: {ours['result']}, MLX: {theirs}"
    return measurements


def _run(module: str, *words: str) -> Any:
    command = [sys.executable, "-m", f"{__package__}.{module}", *words]
    environment = {**os.environ, "MXCOMPAT_CACHE": "0"}
    out = subprocess.run(command, cwd=processes.ROOT, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(out.stdout)


def timed(step: Callable[[], Any]) -> float:
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - start)
