"""`python -m tests.sweep`: see the package."""

from __future__ import annotations

import sys

from tests.sweep.page import PAGE, faults, section, share, written
from tests.sweep.worker import all_cells, sweep


def main(*arguments: str) -> int:
    words = [a for a in arguments if a != "--write"]
    cells = all_cells(*words[:1])
    found = list(sweep(cells))
    wrong = faults(found)
    for fault in wrong:
        print(fault)
    print(f"{len(cells)} cells, {share(found, len(cells)):.2f} % differ, {len(wrong)} without a cause")
    if "--write" in arguments:
        if words:
            raise SystemExit("the page is written from all cells")
        PAGE.write_text(written(PAGE.read_text(), section(found, len(cells))))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
