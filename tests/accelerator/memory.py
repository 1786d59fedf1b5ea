"""Peak device memory of a training step, compared with hand-written `jax.jit`, each in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.benchmarks import processes

__all__ = ["run"]

MOST = 1.2
"""Limit for mxcompat's memory, as a multiple of `jax.jit`'s."""

_PEAK = """
import sys
from tests.benchmarks import gpt
if sys.argv[1] == "jax.jit":
    make = gpt.jax_step
else:
    import mxcompat.core as mx
    make = lambda: gpt.mlx_step(mx)
step = make()
for _ in range(30):
    step()
import jax
print(jax.devices()[0].memory_stats()["peak_bytes_in_use"])
"""


def run(dry: bool, output: Path) -> bool:
    """Measure and print both. A dry run measures resident memory, as the CPU keeps no account."""
    sides = ["mxcompat", "jax.jit"]
    if dry:
        megabytes, _ = processes.step_memory(sides, 1)
        figures = {side: size * 2**20 for side, size in megabytes.items()}
    else:
        figures = {side: _peak(side) for side in sides}
    ratio = figures["mxcompat"] / figures["jax.jit"]
    (output / "memory.json").write_text(json.dumps(figures))
    print(
        *[f"{side} {size / 1e6:.1f} MB" for side, size in figures.items()], f"{ratio:.2f} x, at most {MOST} x", sep="  "
    )
    return ratio <= MOST or dry


def _peak(side: str) -> float:
    command = [sys.executable, "-c", _PEAK, side]
    environment = os.environ | {"MXCOMPAT_HOST": "0"}  # run all steps on the device, not in NumPy's tier
    return float(subprocess.check_output(command, cwd=processes.ROOT, env=environment, text=True).split()[-1])
