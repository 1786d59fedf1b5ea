"""Run many random programs in worker processes, because real MLX crashes on some of them.

`run_seeds` starts a worker, which prints the start and the result of each seed, as lines of JSON. If it crashes, the
seed started last is the cause. Another worker compares that seed with `MENDED`, and a third continues with the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["run_seeds"]

_SETTINGS = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
"""Settings of a worker: no disk cache, as no program recurs."""

_LIMIT = 240.0
"""Seconds for a worker, many times its need, because real MLX may hang as well as crash."""


def run_seeds(seeds: Iterable[int]) -> tuple[dict[int, str], list[int]]:
    """Compare the programs of these seeds.

    Returns:
        The differences by seed, and the seeds on which real MLX crashed.
    """
    failures: dict[int, str] = {}
    died: list[int] = []
    remaining = list(seeds)
    while remaining:
        begun, reports, _ = _work("real", remaining)
        if begun not in reports:
            died.append(begun)
            _, again, end = _work("mended", [begun])
            reports |= again or {begun: f"seed {begun}: died of the mended MLX too, {end}"}
        failures |= {seed: text for seed, text in reports.items() if text}
        remaining = remaining[remaining.index(begun) + 1 :]
    return failures, died


def _work(oracle: str, seeds: list[int]) -> tuple[int, dict[int, str], str]:
    """Start a worker on these seeds.

    Returns:
        The seed started last, the report of each seed, and the worker's exit.
    """
    command = [sys.executable, "-W", "error", "-X", "faulthandler", "-m", "tests.program_worker", oracle]
    try:
        process = subprocess.run(
            [*command, *map(str, seeds)], cwd=Path(__file__).parent.parent, env=os.environ | _SETTINGS,
            capture_output=True, text=True, timeout=_LIMIT, check=False,
        )  # fmt: skip
        out, end = process.stdout, f"with status {process.returncode}:\n{process.stderr[-2000:]}"
        failed = process.returncode > 0
    except subprocess.TimeoutExpired as error:
        out, end, failed = (error.stdout or b"").decode(), f"after {_LIMIT} seconds", False
    lines = [json.loads(line) for line in out.splitlines()]
    if failed or not lines:
        raise RuntimeError(f"a worker ended {end}")
    return lines[-1][0], {seed: text for seed, *texts in lines for text in texts}, end


def _main(oracle: str, *seeds: str) -> None:
    from tests.oracle import real
    from tests.program_compare import check
    from tests.program_mended import MENDED

    # real MLX calls a C++ compiler for every program, and its changed results are not accepted anyway
    real.disable_compile()
    for seed in map(int, seeds):
        _say(seed)
        _say(seed, check(seed, MENDED if oracle == "mended" else real))


def _say(*what: int | str) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
