"""Measurements in separate processes: the memory of a training step, and the time of an import."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

__all__ = ["IMPORT", "ROOT", "fresh", "import_seconds", "run", "step_memory"]

ROOT = Path(__file__).parent.parent.parent

_JAX_CACHE = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE", "JAX_ENABLE_COMPILATION_CACHE")

_MEMORY = """
import sys
from tests.benchmarks import gpt
side = sys.argv[1]
if side == "jax.jit":
    import jax
    make = gpt.jax_step
elif side == "mxcompat":
    import mxcompat.core as mx
    make = lambda: gpt.mlx_step(mx)
else:
    import mlx.core as mx
    make = lambda: gpt.mlx_step(mx)

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key + ":"))

imported = status("VmRSS")
step = make()
for _ in range(8):
    step()
if side == "mxcompat":
    from mxcompat._graph.run import background
    background.settle()
    step()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forgets the peak so far: that of compiling
for _ in range(10):
    step()
print(status("VmHWM"), status("VmHWM") - imported)
"""

IMPORT = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def _installed() -> dict[str, str]:
    """Return an environment in which modules are compiled to bytecode once, as in an installed package."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def fresh(home: str) -> dict[str, str]:
    """Return the environment of a first run: no disk cache of JAX, and an empty `home`."""
    kept = {k: v for k, v in _installed().items() if not k.startswith((*_JAX_CACHE, "MXCOMPAT_CACHE"))}
    return kept | {"HOME": home, "XDG_CACHE_HOME": os.path.join(home, ".cache")}


def run(code: str, *args: str) -> list[float]:
    """Return the numbers that a program prints."""
    command = [sys.executable, "-c", code, *args]
    out = subprocess.run(command, cwd=ROOT, env=_installed(), check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(word) for word in out.split()]


def step_memory(sides: list[str], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the peak resident memory, in MB, of a process that trains the small GPT, after compilation.

    Returns:
        The total by side, and its growth since the imports.
    """
    measurements: dict[str, list[list[float]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            measurements[side].append(run(_MEMORY, side))
    total, above = ({s: statistics.median(v[k] for v in measurements[s]) / 1024 for s in sides} for k in (0, 1))
    return total, above


def import_seconds(modules: dict[str, str], rounds: int) -> dict[str, float]:
    """Return the import time of each side's module in a fresh process, in seconds. `modules` maps sides to modules."""
    seconds: dict[str, list[float]] = {side: [] for side in modules}
    for _ in range(rounds + 1):  # the first round fills the file cache
        for side, module in modules.items():
            seconds[side] += run(IMPORT.format(module=module))
    return {side: statistics.median(values[1:]) for side, values in seconds.items()}
