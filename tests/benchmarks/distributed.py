"""Two processes on this machine: the time to sum, to send, and to train in parallel.

mxcompat's ranks are started by its launcher and real MLX's, after them, as two of its ring backend, so each side has
the machine alone. There is no column for `jax.jit`, which has no such functions.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .processes import ROOT
from .table import Row, present

__all__ = ["ROUNDS", "rows"]

ROUNDS = 7

_LIMITS = {
    "all_sum of 4 KB, pipelined": 1.0,
    "all_sum of 16 MB": 1.5,
    "send and receive 4 KB, there and back": None,
    "data-parallel step of the GPT": 0.3,
}
"""The rows, each with its limit as a multiple of real MLX's time."""

_PIPELINED = 50


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Yield the selected rows."""
    names = [name for name in _LIMITS if is_selected(name)]
    sides = [side for side in present() if side != "jax.jit"]
    seconds = {side: _measured(side, names, rounds) for side in sides} if names else {}
    for name in names:
        row = Row(name, "ms", {side: 1e3 * seconds[side][name] for side in sides})
        row.limit("MLX", _LIMITS[name])
        yield row


def _measured(side: str, names: list[str], rounds: int) -> dict[str, float]:
    """Return the seconds of each row, on rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seconds"
        program = ["-m", "tests.benchmarks.distributed", side, str(out), str(rounds), *names]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        if side == "mxcompat":
            line = [sys.executable, "-m", "mxcompat", "launch", "-n", "2", "--", sys.executable, *program]
            subprocess.run(line, cwd=ROOT, env=environment, check=True)
        else:
            _as_ring([sys.executable, *program], Path(folder), environment)
        return json.loads(out.read_text())


def _as_ring(line: list[str], folder: Path, environment: dict[str, str]) -> None:
    hosts = folder / "hosts.json"
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    hosts.write_text(json.dumps([[f"127.0.0.1:{s.getsockname()[1]}"] for s in listeners]))
    for listener in listeners:
        listener.close()
    environments = [environment | {"MLX_HOSTFILE": str(hosts), "MLX_RANK": str(rank)} for rank in range(2)]
    ranks = [subprocess.Popen(line, cwd=ROOT, env=env) for env in environments]
    statuses = [process.wait() for process in ranks]
    if any(statuses):
        raise RuntimeError("a rank of real MLX has failed")


def _steps(mx: Any, nn: Any, group: Any) -> dict[str, Callable[[], Any]]:
    """Return the step of each row, by name."""
    from . import gpt

    other = 1 - group.rank()
    small, large = mx.ones(1024), mx.ones(1 << 22)
    mx.eval(small, large)

    def pipelined() -> None:
        x = small
        for _ in range(_PIPELINED):
            x = mx.distributed.all_sum(x) * 0.5
        mx.eval(x)

    def there_and_back() -> None:
        if group.rank():
            mx.eval(mx.distributed.send(mx.distributed.recv_like(small, other), other))
        else:
            mx.eval(mx.distributed.send(small, other))
            mx.eval(mx.distributed.recv_like(small, other))

    return {
        "all_sum of 4 KB, pipelined": pipelined,
        "all_sum of 16 MB": lambda: mx.eval(mx.distributed.all_sum(large)),
        "send and receive 4 KB, there and back": there_and_back,
        "data-parallel step of the GPT": gpt.mlx_step(mx, average=lambda g: nn.average_gradients(g, group)),
    }


def _member(side: str, out: str, rounds: str, *names: str) -> None:
    """Run one rank."""
    import time

    if side == "mxcompat":
        import mxcompat.core as mx
        import mxcompat.nn as nn
    else:
        import mlx.core as mx
        import mlx.nn as nn
    group = mx.distributed.init(strict=True)
    steps = _steps(mx, nn, group)
    seconds = {}
    for name in names:
        for _ in range(8):
            steps[name]()
        if side == "mxcompat":
            from .timing import settle

            settle()
            steps[name]()
        times = []
        for _ in range(int(rounds)):
            mx.eval(mx.distributed.all_sum(mx.array(1.0)))  # this call waits for the other rank
            start = time.perf_counter()
            steps[name]()
            times.append(time.perf_counter() - start)
        seconds[name] = statistics.median(times) / (_PIPELINED if "pipelined" in name else 1)
    if group.rank() == 0:
        Path(out).write_text(json.dumps(seconds))


if __name__ == "__main__":
    _member(*sys.argv[1:])
