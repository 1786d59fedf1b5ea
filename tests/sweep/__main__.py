"""`python -m tests.sweep`: see the package."""

from __future__ import annotations

import argparse
import math
import random
import sys
from pathlib import Path

from tests.sweep.coverage import COVERAGE, covered
from tests.sweep.page import PAGE, faults, section, share, written
from tests.sweep.record import resumed
from tests.sweep.worker import all_cells, sweep


def main(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep")
    parser.add_argument("word", nargs="?", default="", help="only the cases with this word, or of this family")
    parser.add_argument("--write", action="store_true", help="write the list of differences, and the table by op")
    parser.add_argument("--sample", type=float, default=1.0, help="which part of the cells, drawn by a fixed seed")
    parser.add_argument("--record", type=Path, help="a file to note each block in that is done, and to go on from")
    parser.add_argument("--minutes", type=float, default=math.inf, help="with a record: when to stop for now")
    parser.add_argument("--processes", type=int, default=2, help="how many to compare in")
    options = parser.parse_args(arguments)
    if options.write and options.word:
        parser.error("the page is about all cases")
    every = all_cells(options.word)
    if not every:
        parser.error(f"no case has the word {options.word!r}")
    cells = sorted(random.Random(0).sample(every, int(options.sample * len(every))))
    if options.record:
        findings, compared = resumed(options.record, cells, options.minutes, options.processes)
    else:
        findings, compared = list(sweep(cells, options.processes)), cells
    wrong = faults(findings)
    for fault in wrong:
        print(fault)
    print(f"{len(compared)} cells, {share(findings, len(compared)):.2f} % differ, {len(wrong)} without a cause")
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), section(findings, len(compared), len(every))))
        COVERAGE.write_text(covered(compared, findings))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
