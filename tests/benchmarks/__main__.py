"""`python -m tests.benchmarks [TABLE] [WORDS] [--rounds N] [--json FILE] [--report DIR]`: print medians and ratios.

Without TABLE, the first three of these tables are measured: `warm` (calls beside hand-written `jax.jit`), `generation`
(tokens of language models), `memory` (and the time of imports). The others are `cold` (first calls of a process),
`everyday` (small calls), `distributed` (two processes), `metal` (kernels) and `real` (the sizes of real models). WORDS
select the rows whose names contain one of them. The exit status is 1 if a target is missed. `--report docs/benchmarks`
measures all tables, or only TABLE, and writes the page of these versions of Python and JAX there. Its exit status is 1
only if a missed target has no note in `notes.toml` of the page's folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from . import cold, distributed, everyday, generation, metal, processes, real, report, sharded, timing
from .table import Row, Table, present
from .workloads import WORKLOADS, Workload

ROUNDS = 21


def time_row(workload: Workload, rounds: int) -> Row:
    row = Row(workload.name, "us", *timing.measure(timing.steps(workload), rounds))
    row.limit("jax.jit", workload.of_jax)
    row.limit("MLX", workload.of_mlx)
    return row


def memory_rows(rounds: int) -> list[Row]:
    total, above = processes.step_memory(present(), rounds)
    rows = [Row("memory of the GPT step (peak RSS)", "MB", total), Row("  of it above the imports", "MB", above)]
    rows[0].limit("jax.jit", 1.2)
    return rows


def import_row(rounds: int) -> Row:
    modules = {"mxcompat": "mxcompat", "jax.jit": "jax", "MLX": "mlx.core"}
    seconds = processes.import_seconds({side: modules[side] for side in present()}, max(rounds // 3, 3))
    row = Row("import (jax.jit: `import jax`)", "ms", {side: 1e3 * s for side, s in seconds.items()})
    row.targets["jax + 150 ms"] = row.values["mxcompat"] <= row.values["jax.jit"] + 150
    return row


def generation_rows(name: str, rounds: int) -> list[Row]:
    most = generation.MODELS[name].of_mlx
    if not generation.available():
        return [Row(f"{name}: mlx-lm is not installed", "ms", {})]
    medians, ratios, spread = generation.measure(name, present(), max(1, rounds // 9))
    token = Row(f"{name}: a token", "ms", {side: f.token for side, f in medians.items()}, ratios, spread)
    first = Row("  the first 200 tokens, everything new", "ms", {side: f.first for side, f in medians.items()})
    compiles = Row("  compiles after token 30", "", {"mxcompat": medians["mxcompat"].compiles})
    beside = Row("  a token beside a compile, of one before it", "x", {"mxcompat": medians["mxcompat"].beside})
    token.limit("MLX", most)
    compiles.limit(None, 1)
    return [token, first, compiles, *([beside] if beside.values["mxcompat"] else [])]


def warm_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    for workload in WORKLOADS:
        if is_selected(workload.name):
            yield time_row(workload, rounds)


def all_generation_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    for name in generation.MODELS:
        if is_selected(name):
            yield from generation_rows(name, rounds)


def process_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Yield the rows that are measured in a separate process."""
    if is_selected(sharded.NAME):
        yield sharded.row(rounds)
    if is_selected("memory of the GPT step"):
        yield from memory_rows(max(1, rounds // 7))
    if is_selected("import"):
        yield import_row(rounds)


_TABLES = {
    "warm": (warm_rows, ROUNDS),
    "generation": (all_generation_rows, ROUNDS),
    "memory": (process_rows, ROUNDS),
    "cold": (cold.rows, cold.ROUNDS),
    "distributed": (distributed.rows, distributed.ROUNDS),
    "everyday": (everyday.rows, everyday.ROUNDS),
    "metal": (metal.rows, metal.ROUNDS),
    "real": (real.rows, real.ROUNDS),
}
"""The tables: the function that measures each, and its default number of rounds."""

_MAIN = ("warm", "generation", "memory")
"""The tables that are measured if none is named."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", help=f"{', '.join(_TABLES)}, for that table; and of it only what has one "
                        "of the other words in its name")  # fmt: skip
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}, cold {cold.ROUNDS}, everyday {everyday.ROUNDS}; "
                        "fewer where a side takes seconds")  # fmt: skip
    parser.add_argument("--json", type=Path, help="write the numbers to a file too")
    parser.add_argument("--report", type=Path, help="measure all tables, and write a page of these versions there")
    args = parser.parse_args()
    names: Iterable[str] = _TABLES if args.report else _MAIN
    if args.words and args.words[0] in _TABLES:
        names = [args.words.pop(0)]

    import jax

    from mxcompat._graph.run.platform import backend

    backend()  # this starts XLA with mxcompat's options, as in programs that do not use JAX themselves

    def is_selected(name: str) -> bool:
        return not args.words or any(word.lower() in name.lower() for word in args.words)

    print(f"{report.machine()}, jax {jax.__version__} on {jax.default_backend()}; medians of rounds in turn")
    table = Table()
    sections: dict[str, list[Row]] = {}
    for name in names:
        measure, usual = _TABLES[name]
        for row in measure(is_selected, args.rounds or usual):
            sections.setdefault(name, []).append(row)
            table.add(row)
        if args.report and name in sections:
            report.save(args.report, sections)
            report.write(args.report)
    if args.json:
        table.save(args.json)
    if args.report:
        missing = report.unexplained(args.report, sections)
        for row in missing:
            print(f"over its limit, without a note in {args.report / report.pair() / report.NOTES}: {row}")
        return 1 if missing else 0
    return 0 if table.reached() else 1


if __name__ == "__main__":
    sys.exit(main())
