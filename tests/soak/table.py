"""The table of docs/security.md: the cost of large and long work here and in real MLX, each in a separate process.

    python -m tests.soak            # measure, and print the table
    python -m tests.soak --write    # and write it into the page

Memory is the growth of a process at its peak or, for a long process, at its end. Time is CPU time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGE", "ROWS", "measured", "written"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- written by python -m tests.soak --write -->\n", "<!-- end -->\n"


class Row(NamedTuple):
    """A workload: its name, its preparation and its measured part. `worker` names a workload of `worker.py` instead."""

    name: str
    before: str = ""
    work: str = ""
    worker: tuple[str, ...] = ()


NPZ = "np.savez('many.npz', **{f'a{k}': np.ones(3, np.float32) for k in range(20_000)})"
TENSORS = "mx.save_safetensors('many.safetensors', {f'tensor.{k}': x for x in [mx.ones(2)] for k in range(300_000)})"
DEEP = "tree = mx.ones(3)\nfor _ in range(5000): tree = [tree]"

ROWS = (
    Row("sum of 256 MB of bytes", "x = mx.ones(1 << 28, dtype=mx.uint8); mx.eval(x)", "mx.sum(x).item()"),
    Row("argmax of 256 MB of bytes", "x = mx.ones(1 << 28, dtype=mx.uint8); mx.eval(x)", "mx.argmax(x).item()"),
    Row("argmax of 256 MB of bools, by rows", "x = mx.ones((1 << 16, 1 << 12), dtype=mx.bool_); mx.eval(x)",
        "mx.eval(mx.argmax(x, axis=1))"),
    Row("sum of 256 MB of bfloat16", "x = mx.ones(1 << 27, dtype=mx.bfloat16); mx.eval(x)", "mx.sum(x).item()"),
    Row("sums of the rows of 256 MB of bfloat16, compiled",
        "x = mx.ones((1 << 14, 1 << 13), dtype=mx.bfloat16); mx.eval(x); f = mx.compile(lambda x: mx.sum(x, axis=1))",
        "mx.eval(f(x))"),
    Row("argmax of 256 MB of float16", "x = mx.ones(1 << 27, dtype=mx.float16); mx.eval(x)", "mx.argmax(x).item()"),
    Row("variance of 256 MB of float16", "x = mx.ones(1 << 27, dtype=mx.float16); mx.eval(x)", "mx.var(x).item()"),
    Row("logsumexp of 256 MB of float16", "x = mx.ones(1 << 27, dtype=mx.float16); mx.eval(x)",
        "mx.logsumexp(x).item()"),
    Row("stack of 10 000 slices", "x = mx.zeros((10_000, 4)); mx.eval(x)",
        "mx.eval(mx.stack([x[k] for k in range(10_000)]))"),
    Row("concatenation of 10 000 arrays", "xs = [mx.ones(1) * k for k in range(10_000)]; mx.eval(xs)",
        "mx.eval(mx.concatenate(xs))"),
    Row("10 000 arrays in one eval", "xs = [mx.ones(1) * k for k in range(10_000)]; mx.eval(xs)",
        "mx.eval([x + 1 for x in xs])"),
    Row("chain of 100 000 ops", "x = mx.ones(1); mx.eval(x)", "for _ in range(100_000): x = x + 1\nmx.eval(x)"),
    Row("tree of 5 000 levels, evaluated", DEEP, "mx.eval(tree)"),
    Row("npz of 20 000 arrays, loaded", NPZ, "d = mx.load('many.npz')"),
    Row("safetensors of 300 000 arrays, loaded", TENSORS, "d = mx.load('many.safetensors')"),
    Row("training with 200 sizes of the batch, three times over", worker=("batches", "3", "200")),
    Row("gradients of loops of 100 lengths, three times over", worker=("loops", "3", "100")),
    Row("3 000 graphs of different structure, three times over", worker=("structures", "3", "3000")),
    Row("a suite of 650 small tests in one process, three times over", worker=("suite", "3", "650")),
)  # fmt: skip

_PROGRAM = """
import json, os, tempfile, time
import numpy as np
import {package} as mx
os.chdir(tempfile.mkdtemp())
mx.eval(mx.argmax(mx.sum(mx.ones((64, 64), dtype=mx.uint8), 0)))
{before}
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here on
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
start, began = peak(), time.process_time()
{work}
print(json.dumps({{"resident": peak() - start, "seconds": time.process_time() - began}}))
"""


class Figure(NamedTuple):
    """Bytes of memory, and seconds of CPU time."""

    resident: int
    seconds: float

    def __str__(self) -> str:
        return f"{max(self.resident, 0) / 1e6:.0f} MB, {self.seconds:.1f} s"


def measured(row: Row, side: str, seconds: float = 1500.0) -> Figure:
    """Return the figure of a row, on the side "ours" or "real"."""
    command = [sys.executable, "-m", "tests.soak.worker", *row.worker]
    if not row.worker:
        package = "mlx.core" if side == "real" else "mxcompat.core"
        command = [sys.executable, "-c", _PROGRAM.format(package=package, before=row.before, work=row.work)]
    settings = {"SOAK_SIDE": side, "MXCOMPAT_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    process = subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, timeout=seconds, check=False
    )
    if process.returncode:
        raise RuntimeError(f"{row.name} on {side}: {process.stderr[-2000:]}")
    reports = [json.loads(line) for line in process.stdout.splitlines()]
    return Figure(reports[-1]["resident"], sum(f["seconds"] for f in reports))


def written(page: str, lines: list[str]) -> str:
    """Return the page with this table in it."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError("the page has no place for a table")
    return before + BEGIN + "\n".join(lines) + "\n" + END + after
