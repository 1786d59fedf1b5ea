"""Compare cells in worker processes, because real MLX crashes on some of them.

For each cell a worker prints its start, mxcompat's answer and the differences, as lines of JSON. If it crashes, the
cell started last is the cause, and another worker continues after it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

__all__ = ["Cell", "Finding", "all_cells", "case_of", "in_blocks", "sweep", "sweep_blocks"]

_SETTINGS = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
_LIMIT = 900.0
_BLOCK = 500
_CELL_LIMIT = 30.0


class Cell(NamedTuple):
    """A cell: a case (by its number), a dtype and a way."""

    case: int
    dtype: str
    way: str


class Finding(NamedTuple):
    """A difference in a cell.

    Args:
        expression, dtype, way, family: of the cell.
        what: the kind of difference, see `comparison.Found`.
        real, ours: the results of the two libraries, as text.
    """

    expression: str
    dtype: str
    way: str
    family: str
    what: str
    real: str = ""
    ours: str = ""

    def __str__(self) -> str:
        return f"{self.expression} [{self.dtype}, {self.way}] {self.what}: real MLX {self.real}, mxcompat {self.ours}"


def all_cells(word: str = "") -> list[Cell]:
    """Return every cell, in the order of the tables, or those whose expression or family has the word."""
    from tests.sweep import behaviours, layers, ops
    from tests.sweep.ways import ways_of

    cases = [*ops.cases(), *layers.cases(), *behaviours.cases()]
    _CASES[:] = cases
    return [
        Cell(k, dtype, way)
        for k, case in enumerate(cases)
        if word in case.expression or word == case.family
        for dtype in case.dtypes
        for way in ways_of(case, dtype)
    ]


_CASES: list[Any] = []


def case_of(cell: Cell) -> Any:
    """Return the case of a cell of `all_cells`."""
    return _CASES[cell.case]


def sweep(cells: list[Cell], processes: int = 2) -> Iterator[Finding]:
    """Compare these cells in worker processes; yield the differences in the order of the cells."""
    by_block = dict(sweep_blocks(in_blocks(cells), processes))
    for k in sorted(by_block):
        yield from by_block[k]


def in_blocks(cells: list[Cell]) -> list[list[Cell]]:
    """Return the cells in blocks, each for one worker."""
    return [cells[k : k + _BLOCK] for k in range(0, len(cells), _BLOCK)]


def sweep_blocks(
    blocks: list[list[Cell]], processes: int = 2, until: float = inf
) -> Iterator[tuple[int, list[Finding]]]:
    """Yield the number and the differences of each block, in the order of completion.

    Args:
        until: time after which no block is started, on the clock of `time.monotonic`.
    """

    def one(k: int) -> tuple[int, list[Finding]] | None:
        return (k, _block(blocks[k])) if monotonic() < until else None

    with ThreadPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(one, k) for k in range(len(blocks))]):
            result = future.result()
            if result is not None:
                yield result


def _block(cells: list[Cell]) -> list[Finding]:
    all_findings: list[Finding] = []
    remaining = cells
    while remaining:
        begun, findings, _, _ = _work(remaining)
        all_findings += findings
        if begun < len(remaining):
            all_findings += _alone(remaining[begun])
        remaining = remaining[begun + 1 :]
    return all_findings


def _alone(cell: Cell) -> list[Finding]:
    """Return the findings of a cell on which a worker crashed, run alone: earlier cells may have corrupted memory."""
    begun, findings, answered, end = _work([cell])
    if begun:
        return findings
    case = case_of(cell)
    return [Finding(case.expression, *cell[1:], case.family, "MLX dies" if answered else "died", end)]


def _work(cells: list[Cell]) -> tuple[int, list[Finding], bool, str]:
    """Run a worker.

    Returns:
        The number of the cell on which it crashed (or the number of cells), its findings, whether mxcompat had
        answered, and its exit.
    """
    command = [sys.executable, "-W", "ignore", "-m", "tests.sweep.worker"]
    root = Path(__file__).parent.parent.parent
    try:
        process = subprocess.run(
            command, cwd=root, env=os.environ | _SETTINGS, input=json.dumps(cells), capture_output=True, text=True,
            timeout=_LIMIT, check=False,
        )  # fmt: skip
        out, end = process.stdout, f"status {process.returncode}"
        if process.returncode > 0:
            raise RuntimeError(f"a worker ended with {end}:\n{process.stderr[-3000:]}")
    except subprocess.TimeoutExpired as error:
        out, end = (error.stdout or b"").decode(), "no answer"
    begun, findings, answered = -1, [], False
    for line in out.splitlines():
        kind, *rest = json.loads(line)
        if kind == "begin":
            begun, answered = rest[0], False
        elif kind == "ours":
            answered = True
        elif kind == "end":
            begun = len(cells)
        else:
            findings.append(Finding(*rest))
    return begun, findings, answered, end


def _main() -> None:
    from tests.oracle import ours, real
    from tests.sweep.comparison import compared
    from tests.sweep.ways import run

    real.disable_compile()  # real MLX calls a C++ compiler for every program, without a change of behaviour
    cells = [Cell(*c) for c in json.load(sys.stdin)]
    all_cells("")
    for k, cell in enumerate(cells):
        _say("begin", k)
        signal.setitimer(signal.ITIMER_PROF, _CELL_LIMIT)  # some calls of real MLX never return
        case = case_of(cell)
        got = run(ours, case, cell.dtype, cell.way)
        _say("ours", k)
        difference = compared(case, cell.dtype, cell.way, got)
        if difference is not None:
            _say("found", case.expression, cell.dtype, cell.way, case.family, *difference)
    _say("end")


def _say(*what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
