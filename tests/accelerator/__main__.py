"""`python -m tests.accelerator [STEP ...]`: on a machine with a GPU or a TPU, everything that needs one.

It makes an environment (`pip install -e '.[cuda,test]'`) and runs four steps in it, or only the named ones:

    tests        the tests, without those of the CPU: see `suite.py`.

    benchmarks   the tables of `tests.benchmarks`, compared with `jax.jit`, and with real MLX if it runs on the device.

    memory       the peak memory of a training step on the device, compared with `jax.jit`.

    transfers    transfers of a training loop between host and device: only the printed losses.

The exit status is 1 if a step fails. `--dry-run` does the same on the CPU, in the present environment. It runs a few
of the tests and the rows, with the choices that the library makes on an accelerator.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from . import environment, memory, suite, transfers

STEPS = ("tests", "benchmarks", "memory", "transfers")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.accelerator", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="default: all of them")
    parser.add_argument("--extra", default="cuda", help="which of JAX's back-ends to install: cuda or tpu")
    parser.add_argument("--environment", type=Path, help="where to make it; default .venv-EXTRA, used again if there")
    parser.add_argument("--here", action="store_true", help="use the Python that runs this, and install nothing")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, here, a little of each")
    parser.add_argument("--output", type=Path, default=Path("accelerator"), help="the folder for the figures")
    args = parser.parse_args()
    if not (args.here or args.dry_run):
        python = environment.prepared(args.environment or Path(f".venv-{args.extra}"), args.extra)
        command = [python, "-m", "tests.accelerator", *args.steps, "--here", "--output", args.output]
        return subprocess.call([*map(str, command)])
    if args.dry_run:
        os.environ["JAX_PLATFORMS"] = "cpu"
    device = environment.device()
    print(f"on {device}")
    if device.startswith("cpu") and not args.dry_run:
        print("There is no accelerator here: JAX computes on the CPU. --dry-run does so on purpose.")
        return 1
    args.output.mkdir(parents=True, exist_ok=True)
    failed = []
    for step in args.steps or STEPS:
        print(f"\n{step}", flush=True)
        if not _RUN[step](args.dry_run, args.output):
            failed.append(step)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall is well")
    return 1 if failed else 0


def _benchmarks(dry: bool, output: Path) -> bool:
    words = ["one add", "--rounds", "1"] if dry else []
    command = [sys.executable, "-m", "tests.benchmarks", *words, "--json", str(output / "benchmarks.json")]
    status = subprocess.call(command)
    return status == 0 or (dry and status == 1)  # on the CPU, a missed target means nothing


_RUN = {"tests": suite.run, "benchmarks": _benchmarks, "memory": memory.run, "transfers": transfers.run}


if __name__ == "__main__":
    sys.exit(main())
