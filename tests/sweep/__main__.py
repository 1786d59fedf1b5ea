"""`python -m tests.sweep`: see the package."""

from __future__ import annotations

import argparse
import random
import sys

from tests.sweep.page import PAGE, faults, section, share, written
from tests.sweep.worker import all_cells, sweep


def main(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep")
    parser.add_argument("word", nargs="?", default="", help="only the cases with this word, or of this family")
    parser.add_argument("--write", action="store_true", help="write the list of differences into the page")
    parser.add_argument("--sample", type=float, default=1.0, help="which part of the cells, drawn by a fixed seed")
    given = parser.parse_args(arguments)
    every = all_cells(given.word)
    cells = sorted(random.Random(0).sample(every, int(given.sample * len(every))))
    found = list(sweep(cells))
    wrong = faults(found)
    for fault in wrong:
        print(fault)
    print(f"{len(cells)} cells, {share(found, len(cells)):.2f} % differ, {len(wrong)} without a cause")
    if given.write:
        if given.word:
            parser.error("the page is about all cases")
        PAGE.write_text(written(PAGE.read_text(), section(found, len(cells), len(every))))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
