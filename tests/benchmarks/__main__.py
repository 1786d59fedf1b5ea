"""`python -m tests.benchmarks [WORDS] [--rounds N] [--json FILE]`: measure, and print a table of medians and ratios.

With WORDS, only the rows whose names contain one of them. Exits with status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import generation, processes, timing
from .workloads import WORKLOADS, Workload

_SIDES = ("mxcompat", "jax.jit", "MLX")


@dataclass
class Row:
    """A line of the table: what each side took, in `unit`; where it was measured in turn, what mxcompat took divided by
    that; and the targets, each with whether it was reached."""

    name: str
    unit: str
    values: dict[str, float]
    ratios: dict[str, float] = field(default_factory=dict)
    targets: dict[str, bool] = field(default_factory=dict)

    def ratio(self, side: str) -> float | None:
        if side not in self.values or "mxcompat" not in self.values:
            return None
        return self.ratios.get(side, self.values["mxcompat"] / self.values[side])

    def limit(self, side: str | None, most: float | None) -> None:
        """Note a target: at most `most`, in the row's unit, or times what a side took (if that side is there)."""
        if most is None:
            return
        if side is None:
            self.targets[f"{most:g} {self.unit}"] = self.values["mxcompat"] <= most
        elif (ratio := self.ratio(side)) is not None:
            self.targets[f"{most:.3g} x {side}"] = ratio <= most


def time_row(workload: Workload, rounds: int) -> Row:
    row = Row(workload.name, "us", *timing.measure(timing.steps(workload), rounds))
    row.limit(None, workload.most_us)
    row.limit("jax.jit", workload.of_jax)
    row.limit("MLX", workload.of_mlx)
    return row


def memory_rows(rounds: int) -> list[Row]:
    total, above = processes.step_memory(_present(), rounds)
    rows = [Row("memory of the GPT step (peak RSS)", "MB", total), Row("  of it above the imports", "MB", above)]
    rows[0].limit("jax.jit", 1.2)
    return rows


def import_row(rounds: int) -> Row:
    modules = {"mxcompat": "mxcompat", "jax.jit": "jax", "MLX": "mlx.core"}
    seconds = processes.import_seconds({side: modules[side] for side in _present()}, max(rounds // 3, 3))
    row = Row("import (jax.jit: `import jax`)", "ms", {side: 1e3 * s for side, s in seconds.items()})
    row.targets["jax + 150 ms"] = row.values["mxcompat"] <= row.values["jax.jit"] + 150
    return row


def generation_rows(name: str, rounds: int) -> list[Row]:
    most = generation.MODELS[name].of_mlx
    if not generation.available():
        return [Row(f"{name}: mlx-lm is not installed", "ms", {})]
    times, ratios, compiles = generation.measure(name, _present(), max(1, rounds // 9))
    rows = [Row(f"{name}: a token", "ms", times, ratios), Row("  compiles after token 30", "", {"mxcompat": compiles})]
    rows[0].limit("MLX", most)
    rows[1].limit(None, 1)
    return rows


def _present() -> list[str]:
    return [side for side in _SIDES if side != "MLX" or importlib.util.find_spec("mlx.core")]


def show(row: Row) -> str:
    cells = [f"{row.name:<41}"]
    for side in _SIDES:
        value = row.values.get(side)
        cells.append("–".rjust(10) if value is None else f"{value:10.{1 if value < 1000 else 0}f}")
    for side in _SIDES[1:]:
        ratio = row.ratio(side)
        cells.append("–".rjust(9) if ratio is None else f"{ratio:9.2f}")
    verdict = ", ".join(f"{text} {'ok' if reached else 'MISSED'}" for text, reached in row.targets.items())
    return f"{cells[0]} {row.unit:>3}{''.join(cells[1:])}   {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", help="measure only what has one of these words in its name")
    parser.add_argument("--rounds", type=int, default=21, help="default 21; fewer where a side takes seconds")
    parser.add_argument("--json", type=Path, help="write the numbers to a file too")
    args = parser.parse_args()

    import jax

    def wanted(name: str) -> bool:
        return not args.words or any(word.lower() in name.lower() for word in args.words)

    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"jax {jax.__version__} on {jax.default_backend()}; medians of {args.rounds} rounds in turn")  # fmt: skip
    heads = "".join([*(f"{side:>10}" for side in _SIDES), *(f"{'/ ' + side:>9}" for side in _SIDES[1:])])
    print(f"{'':<45}{heads}   at most")
    rows: list[Row] = []

    def add(*more: Row) -> None:
        for row in more:
            rows.append(row)
            print(show(row), flush=True)

    for workload in WORKLOADS:
        if wanted(workload.name):
            add(time_row(workload, args.rounds))
    for name in generation.MODELS:
        if wanted(name):
            add(*generation_rows(name, args.rounds))
    if wanted("memory of the GPT step"):
        add(*memory_rows(max(1, args.rounds // 7)))
    if wanted("import"):
        add(import_row(args.rounds))
    if args.json:
        table = [dataclasses.asdict(row) for row in rows]
        args.json.write_text(json.dumps(table, indent=2) + "\n")
    return 0 if all(reached for row in rows for reached in row.targets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
