"""`python -m tests.fuzz`: see the package."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.campaign import campaign, fault, table
from tests.fuzz.mutations import call


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("count", nargs="?", type=int, default=2000, help="how many calls")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--only", type=int, help="the number of the only one")
    parser.add_argument("--types", action="store_true", help="print those as well that raise in one of the two alone")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.count)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
    endings, wrong = [], 0
    for number, ours, real in campaign(numbers):
        endings.append((number, ours, real))
        what = fault(ours, real)
        wrong += bool(what)
        differ = options.types and (ours.how, ours.kind if ours.how == "error" else "") != (
            real.how, real.kind if real.how == "error" else ""
        )  # fmt: skip
        if what or differ or options.only is not None:
            print(f"{what or 'differs'} | {call(number)} | {ours} | MLX: {real}", flush=True)
    print(table(endings))
    print(f"{wrong} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
