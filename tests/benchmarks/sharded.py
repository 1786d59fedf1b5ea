"""A training step over eight virtual devices of the CPU, compared with hand-written `jax.jit` with the same
shardings.

JAX fixes the number of devices at its start, so the step runs in a separate process: `python -m
tests.benchmarks.sharded ROUNDS` prints its measurements as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from . import training
from .processes import ROOT
from .table import Row
from .timing import measure, steps
from .workloads import Workload

__all__ = ["NAME", "row"]

NAME = "sharded: AdamW step of the nn GPT, 8 devices"
_MOST = 1.1
_DEVICES = 8


def row(rounds: int) -> Row:
    """Return the row of the table, measured in a separate process."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={_DEVICES}"
    command = [sys.executable, "-m", "tests.benchmarks.sharded", str(rounds)]
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    out = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    measurement = Row(NAME, "us", *json.loads(out))
    measurement.limit("jax.jit", _MOST)
    return measurement


def _measured(rounds: int) -> Any:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    import mxcompat as mx

    mesh = mx.ext.sharding.mesh(data=_DEVICES)
    specs = {"data": "data", "parameters": None}

    def in_jax(x: Any, kind: str) -> Any:
        return jax.device_put(x, NamedSharding(mesh, PartitionSpec(specs[kind])))

    def ours(x: Any, kind: str) -> Any:
        return mx.ext.sharding.shard(x, mesh, specs[kind])

    workload = Workload(NAME, lambda mx: training.gpt(mx, ours), lambda: training.gpt_jax(in_jax))
    return measure(steps(workload, real=False), rounds)


if __name__ == "__main__":
    json.dump(_measured(int(sys.argv[1])), sys.stdout)
