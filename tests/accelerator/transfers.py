"""Transfers between host and device in a training loop, from the log of JAX's transfer guard.

A running loop must move nothing but the losses that it prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.processes import ROOT

__all__ = ["counted", "run"]

PRINTED, STEPS = 2, 10
"""Number of losses that a loop of `STEPS` steps prints, and that number of steps."""

_LOOP = """
import contextlib, sys
import jax
import numpy as np
import mxcompat as mx
from mxcompat import nn, optimizers as optim
from tests.lowering import as_on_an_accelerator

printed, steps, dry, fresh = map(int, sys.argv[1:])
with as_on_an_accelerator() if dry else contextlib.nullcontext(), mx.ext.debug.host_disabled():
    model = nn.Sequential(nn.Linear(64, 256), nn.Dropout(0.1), nn.gelu, nn.Linear(256, 8))
    optimizer = optim.AdamW(optim.cosine_decay(1e-3, 1000))
    batch = mx.random.normal((32, 64)), mx.random.randint(0, 8, (32,))
    step = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))

    def train(printed):
        for k in range(steps):
            x, y = [mx.array(np.array(part)) for part in batch] if fresh else batch
            loss, grads = step(model, x, y)
            optimizer.update(model, grads)
            mx.eval(loss, model.parameters(), optimizer.state)
            if k < printed:
                print("loss", loss.item(), flush=True)

    train(printed)
    mx.ext.debug.compiles()  # waits for what is compiled in the background
    train(printed)
    mx.ext.debug.compiles()
    print("from here on", file=sys.stderr, flush=True)
    with jax.transfer_guard("log_explicit"):
        train(printed)
"""


def counted(dry: bool, fresh: bool = False) -> dict[str, int]:
    """Return the number of transfers by direction, for `STEPS` steps that print `PRINTED` losses.

    With `fresh`, each step's batch comes from the host.
    """
    command = [sys.executable, "-c", _LOOP, *map(str, (PRINTED, STEPS, int(dry), int(fresh)))]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr)
    log = process.stderr.partition("from here on")[2]
    return {way: len(re.findall(f"{way} transfer", log)) for way in ("host-to-device", "device-to-host")}


def run(dry: bool, output: Path) -> bool:
    """Count and print the transfers. A printed loss is one transfer to the host, or none on a CPU."""
    counts = counted(dry)
    print(f"{STEPS} steps of which {PRINTED} print their loss: {counts}")
    (output / "transfers.txt").write_text(f"{counts}\n")
    return counts["host-to-device"] == 0 and counts["device-to-host"] <= PRINTED
