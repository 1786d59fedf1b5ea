"""`python -m tests.soak`: see `table`."""

from __future__ import annotations

import argparse
import sys

from tests.soak.table import PAGE, ROWS, measured, written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--write", action="store_true", help="write the table into docs/security.md")
    options = parser.parse_args()
    lines = ["| workload | mxcompat | real MLX |", "|---|---|---|"]
    for row in ROWS:
        lines.append(f"| {row.name} | {measured(row, 'ours')} | {measured(row, 'real')} |")
        print(lines[-1], flush=True)
        if options.write:
            PAGE.write_text(written(PAGE.read_text(), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
