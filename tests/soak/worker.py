"""Workloads whose programs keep changing. Each runs in a separate process, which prints its memory.

    python -m tests.soak.worker batches 2 25

runs two rounds of 25 batch sizes, and prints a line of JSON after each: the growth of resident memory since the
imports, and the contents of the program caches. With SOAK_SIDE=real the workload runs on real MLX.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

REAL = os.environ.get("SOAK_SIDE") == "real"
if REAL:
    import mlx.core as mx
    from mlx import nn, optimizers
else:
    import mxcompat as mx
    from mxcompat import nn, optimizers
    from mxcompat._graph.run import background
    from mxcompat.ext.debug import cache_info


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def batches(count: int) -> Callable[[], None]:
    """Run a training step for each of `count` batch sizes."""
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = optimizers.Adam(1e-3)
    step = nn.value_and_grad(model, lambda x, y: nn.losses.cross_entropy(model(x), y).mean())

    def round() -> None:
        for size in range(1, count + 1):
            loss, grads = step(mx.random.normal((size, 32)), mx.random.randint(0, 8, (size,)))
            optimizer.update(model, grads)
            mx.eval(loss, model.parameters(), optimizer.state)

    return round


_UNARY = ("sin", "cos", "tanh", "abs", "square", "exp", "negative", "floor", "sigmoid", "sign")
_BINARY = ("add", "multiply", "subtract", "maximum", "minimum", "logaddexp")


def structures(count: int) -> Callable[[], None]:
    """Build `count` random graphs, each of another structure."""
    choose = random.Random(0)

    def round() -> None:
        for _ in range(count):
            rows, columns = choose.randint(1, 40), choose.randint(1, 40)
            xs = [mx.array(np.ones((rows, columns), np.float32)), mx.ones((columns,))]
            for _ in range(choose.randint(5, 15)):
                if choose.random() < 0.5:
                    xs.append(getattr(mx, choose.choice(_UNARY))(choose.choice(xs)))
                else:
                    xs.append(getattr(mx, choose.choice(_BINARY))(choose.choice(xs), choose.choice(xs)))
            mx.eval(sum(map(mx.sum, xs)))

    return round


def loops(count: int) -> Callable[[], None]:
    """Differentiate a loop of `count` different lengths."""
    w = mx.random.normal((16, 16)) * 0.1

    def round() -> None:
        for length in range(60, 60 + count):

            def unrolled(w: mx.array, steps: int = length) -> mx.array:
                h = mx.ones((4, 16))
                for _ in range(steps):
                    h = mx.tanh(h @ w)
                return h.sum()

            mx.eval(mx.grad(unrolled)(w))

    return round


def suite(count: int) -> Callable[[], None]:
    """Run `count` small tests of layers, losses and optimizers: plain, compiled and differentiated."""
    from tests import oracle
    from tests.sweep import layers, ways

    side = oracle.real if REAL else oracle.ours
    each = ("plain", "compile", "vjp")
    cells = [(case, way) for case in layers.cases() for way in ways.ways_of(case, "float32") if way in each]
    if count > len(cells):
        raise ValueError(f"There are {len(cells)} such tests, not {count}.")

    def round() -> None:
        for case, way in cells[:count]:
            ways.run(side, case, "float32", way)

    return round


WORKLOADS: dict[str, Callable[[int], Callable[[], None]]] = {
    "batches": batches, "structures": structures, "loops": loops, "suite": suite,
}  # fmt: skip


def report(start: int, taken: float) -> dict[str, Any]:
    if REAL:
        return {"resident": resident() - start, "seconds": round(taken, 2)}
    background.settle()
    info = cache_info()
    held = {"structures": info.structure_bytes, "executables": info.executable_bytes, "count": info.executables}
    return {"resident": resident() - start, "limit": info.limit, "seconds": round(taken, 2)} | held


def main(name: str, rounds: str, count: str) -> None:
    mx.eval(mx.sin(mx.ones((512, 512))))  # load the libraries before the first measurement
    if not REAL:
        background.settle()
    round = WORKLOADS[name](int(count))
    start = resident()
    for _ in range(int(rounds)):
        before = perf_counter()
        round()
        print(json.dumps(report(start, perf_counter() - before)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
