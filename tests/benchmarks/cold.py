"""`python -m tests.benchmarks cold`: the time of everything that is new to a process, compared with real MLX.

Each side of a row runs in fresh processes, in turn with the other sides. There is no cache on disk, except for the
row of a program's second run. A process of a side prints the times and results of `firsts`:

    python -m tests.benchmarks.cold SIDE ROW
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from . import firsts, processes
from .agreement import agree, digest
from .table import Row, compared, present

__all__ = ["COLD", "ROUNDS", "Cold", "rows"]

ROUNDS = 3
_ENOUGH_SECONDS = 30.0
"""Seconds after which a row gets no further round."""

_CORES = {"mxcompat": "mxcompat.core", "MLX": "mlx.core"}


class Run(NamedTuple):
    """The measurements of one process: seconds and result of each step, and its growth of memory in MB."""

    seconds: list[float]
    results: list[list[float]]
    grown: float


def _median(run: Run) -> float:
    return 1e3 * statistics.median(run.seconds)


def _total(run: Run) -> float:
    return 1e3 * sum(run.seconds)


def _first(run: Run) -> float:
    return 1e3 * run.seconds[0]


def _mean_of_ops(run: Run) -> float:
    """Return the mean over the ops of each op's median over its shapes. A mean shows single slow ops."""
    count = len(firsts.OPS)
    return 1e3 * statistics.fmean(statistics.median(run.seconds[k::count]) for k in range(count))


def _grown(run: Run) -> float:
    return run.grown


@dataclass(frozen=True)
class Cold:
    """One row of the table.

    Args:
        steps: the work, given `mx`: steps, of which `count` are run, each timed.
        read: the number that the row shows of a process's run, in `unit`.
        of_mlx: limit for mxcompat, as a multiple of real MLX's time.
        floor: value that is fast enough in any case, in `unit`.
        jax: the same steps, hand-written in JAX, if the row is compared with them and not with real MLX.
        of_jax: limit as a multiple of their time.
        most: limit in `unit`, for a row of mxcompat alone.
        tolerance: tolerance for results: rounding errors of 80 steps differ more than those of one.
    """

    name: str
    steps: Callable[[Any], Iterator[firsts.Step]]
    count: int = 1
    read: Callable[[Run], float] = _median
    unit: str = "ms"
    of_mlx: float | None = None
    floor: float | None = None
    jax: Callable[[], Iterator[firsts.Step]] | None = None
    of_jax: float | None = None
    most: float | None = None
    tolerance: float = 1e-3

    @property
    def sides(self) -> list[str]:
        names = {"mxcompat"}
        if self.jax is not None:
            names.add("jax.jit")
        elif self.most is None:
            names.add("MLX")
        return [side for side in present() if side in names]


def _whole_gpt(layers: int) -> Cold:
    return Cold(
        f"80 GPT steps, first to last, {layers} layers",
        partial(firsts.gpt_steps, layers=layers),
        80,
        _total,
        jax=partial(firsts.gpt_steps_jax, layers),
        of_jax=1.1,
        tolerance=2e-2,
    )


COLD = (
    Cold("small expression, new shape", firsts.small_expression, 20, of_mlx=3, floor=0.25),
    Cold("one op on a small matrix, 16 ops, new shapes", firsts.single_ops, 48, _mean_of_ops, of_mlx=3, floor=0.25),
    Cold("8 random ops, new structure", firsts.random_structures, 24, of_mlx=3, floor=0.25),
    Cold("value_and_grad of an MLP, new batch size", firsts.gradient, 16, of_mlx=4),
    Cold("vmap, new size", firsts.vmap, 16, of_mlx=5),
    Cold("vmap of grad, new size", firsts.vmap_of_grad, 16, of_mlx=5),
    Cold("Hessian by vmap of grad of grad, new size", firsts.hessian, 16, of_mlx=5),
    Cold("parameters of an nn model, made 4 times", firsts.models, 4, _total, of_mlx=3),
    Cold("first step of an nn MLP, AdamW", firsts.first_mlp, of_mlx=3),
    Cold("first step of an nn conv net, AdamW", firsts.first_conv, of_mlx=3),
    Cold("first step of a 4-layer GPT", firsts.gpt_steps, 10, _first, of_mlx=0.6),
    Cold("first 10 steps of a 4-layer GPT", firsts.gpt_steps, 10, _total, of_mlx=0.25),
    Cold("training step, every batch another size", firsts.changing_batches, 20, of_mlx=2.5, tolerance=1e-2),
    Cold("token, cache by concatenate", firsts.concatenated_cache, 32, of_mlx=2.5),
    Cold("150 steps of Adam, evaluated once", firsts.unevaluated_adam, read=_total, of_mlx=3, tolerance=1e-2),
    *(_whole_gpt(layers) for layers in (4, 12, 24)),
    Cold("RSS after 3000 structures, above the start", firsts.random_structures, 3000, _grown, "MB", most=1024),
)

SECOND_RUN = "20-step script, second run, less import numpy"
_SCRIPT = "tests/benchmarks/script.py"
_SCRIPT_OF_MLX = 2.5


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Measure the rows whose names are selected."""
    measurements: dict[tuple[Any, int], dict[str, list[Run]]] = {}
    for cold in COLD:
        if is_selected(cold.name):
            key = (cold.steps, cold.count)
            if key not in measurements:
                measurements[key] = _measure(cold, rounds)
            yield _row(cold, measurements[key])
    if is_selected(SECOND_RUN):
        yield _second_run(rounds)


def _measure(cold: Cold, rounds: int) -> dict[str, list[Run]]:
    """Return the runs of each side, equally many. Raises AssertionError if their results differ."""
    runs: dict[str, list[Run]] = {side: [] for side in cold.sides}
    start = time.perf_counter()
    for sides in _turns(cold.sides, rounds):
        for side in sides:
            with tempfile.TemporaryDirectory() as home:
                words = [sys.executable, "-m", "tests.benchmarks.cold", side, cold.name]
                runs[side].append(Run(*json.loads(_output(words, home))))
        results = {side: list(itertools.chain(*several[-1].results)) for side, several in runs.items()}
        for side, result in results.items():
            assert agree(results["mxcompat"], result, cold.tolerance), (
                f"{cold.name}: not what {side} computes: {results}"
            )
        if time.perf_counter() - start > _ENOUGH_SECONDS:
            break
    return runs


def _turns(sides: list[str], rounds: int) -> Iterator[list[str]]:
    """Yield the order of the sides for each round, so that none is always first."""
    for k in range(rounds):
        yield sides[k % len(sides) :] + sides[: k % len(sides)]


def _output(command: list[str], home: str) -> str:
    environment = processes.fresh(home)
    process = subprocess.run(
        command, cwd=processes.ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return process.stdout


def _row(cold: Cold, runs: dict[str, list[Run]]) -> Row:
    row = _compared(cold.name, cold.unit, {side: [cold.read(run) for run in several] for side, several in runs.items()})
    row.limit(None, cold.most)
    row.limit("jax.jit", cold.of_jax)
    row.limit("MLX", cold.of_mlx, cold.floor)
    return row


def _compared(name: str, unit: str, values: dict[str, list[float]]) -> Row:
    """Return a row of medians, and of the medians of the ratios by round."""
    return Row(name, unit, {side: statistics.median(several) for side, several in values.items()}, *compared(values))


def _second_run(rounds: int) -> Row:
    """Return the time of a whole process that runs a script, for a user who has run it before.

    The time of `import numpy` is subtracted, because MLX does not import it.
    """
    commands = {"mxcompat": [sys.executable, "-m", "mxcompat", _SCRIPT], "MLX": [sys.executable, _SCRIPT]}
    commands = {side: commands[side] for side in present() if side in commands}
    values: dict[str, list[float]] = {side: [] for side in commands}
    with tempfile.TemporaryDirectory() as home:
        printed = {side: _printed(command, home) for side, command in commands.items()}
        for side, numbers in printed.items():
            assert agree(printed["mxcompat"], numbers, 1e-2), f"{SECOND_RUN}: not what {side} computes: {printed}"
        for sides in _turns(list(commands), rounds):
            for side in sides:
                start = time.perf_counter()
                assert agree(_printed(commands[side], home), printed[side], 1e-2)
                values[side].append(1e3 * (time.perf_counter() - start))
            (importing,) = processes.run(processes.IMPORT.format(module="numpy"))
            values["mxcompat"][-1] -= 1e3 * importing
    row = _compared(SECOND_RUN, "ms", values)
    row.limit("MLX", _SCRIPT_OF_MLX)
    return row


def _printed(command: list[str], home: str) -> list[float]:
    return [float(word) for word in re.findall(r"[-.\de]+", _output(command, home))]


def timed(steps: Iterator[firsts.Step], count: int) -> Run:
    """Run the first `count` steps."""
    seconds, results = [], []
    before = _resident()
    for step in itertools.islice(steps, count):
        start = time.perf_counter()
        value = step()
        seconds.append(time.perf_counter() - start)
        results.append(digest(value))
    return Run(seconds, results, _resident() - before)


def _resident() -> float:
    """Return the resident memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(side: str, name: str) -> None:
    (cold,) = (cold for cold in COLD if cold.name == name)
    if side == "jax.jit":
        assert cold.jax is not None
        steps = cold.jax()
    else:
        core = _CORES[side]
        for part in ("nn", "optimizers"):
            importlib.import_module(core.removesuffix("core") + part)
        steps = cold.steps(importlib.import_module(core))
    print(json.dumps(timed(steps, cold.count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
