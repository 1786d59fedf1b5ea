"""The file that records a sweep, so that an interrupted sweep can be resumed.

Its first line is the number of cells. Each further line is a finished block: its number and its differences. The
blocks follow a shuffled order of the cells, so any subset of them is a random sample.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from time import monotonic

from tests.sweep.worker import Cell, Finding, in_blocks, sweep_blocks

__all__ = ["resumed"]


def resumed(path: Path, cells: list[Cell], minutes: float, processes: int = 2) -> tuple[list[Finding], list[Cell]]:
    """Compare the cells that the record lacks, for at most `minutes`.

    Returns:
        The differences in all recorded cells, and these cells.

    Raises:
        ValueError: if the record belongs to other cells.
    """
    blocks = in_blocks(random.Random(0).sample(cells, len(cells)))
    by_block: dict[int, list[Finding]] = {}
    if path.exists():
        heading, *lines = path.read_text().splitlines()
        if json.loads(heading) != len(cells):
            raise ValueError(f"{path} is of {heading} cells, not of {len(cells)}")
        for line in lines:
            k, findings = json.loads(line)
            by_block[k] = [Finding(*f) for f in findings]
    else:
        path.write_text(f"{len(cells)}\n")
    remaining = [k for k in range(len(blocks)) if k not in by_block]
    with path.open("a") as file:
        for k, findings in sweep_blocks([blocks[k] for k in remaining], processes, monotonic() + 60 * minutes):
            by_block[remaining[k]] = findings
            print(json.dumps([remaining[k], findings]), file=file, flush=True)
    return [f for k in sorted(by_block) for f in by_block[k]], sorted(cell for k in by_block for cell in blocks[k])
