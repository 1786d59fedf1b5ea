"""Counts references and allocated blocks over many calls of a case.

`python -m tests.native.references [LIBRARY]` counts those of all cases, with another build of the extension if one is
named, and prints a line of JSON for each that loses or keeps something.
"""

from __future__ import annotations

import gc
import json
import sys
from array import array
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path

from .cases import Case, called, watched

__all__ = ["drift"]

ALWAYS = (None, True, False, (), "", NotImplemented, Ellipsis, *range(-5, 257))
"""What every program shares."""


SPARE = 5_000_000
"""References to what is shared that a process has beside its own, where a library is to be seen losing them."""


def _name(x: object) -> str:
    text = repr(x) if isinstance(x, (bool, int, str, type, tuple)) or x is None else f"an object of {type(x).__name__}"
    return text[:60]


def drift(case: Case, calls: int, shared: Iterable[object] = ()) -> dict[str, float]:
    """How many references, or blocks of memory, a call loses (negative) or keeps, of what it should have left alone.

    What is found is counted again: a call does the same each time, other threads do not.
    """
    found = _counted(case, calls, shared)
    again = _counted(case, calls, shared) if found else {}
    return {name: again[name] for name in found if name in again}


def _counted(case: Case, calls: int, shared: Iterable[object]) -> dict[str, float]:
    watch = {id(x): x for x in (*ALWAYS, *shared, *watched(case.arguments()))}
    objects = [*watch.values()]
    for _ in repeat(None, min(calls, 300)):
        called(case)
    gc.collect()
    before = array("q", map(sys.getrefcount, objects))  # which refers to no integer
    blocks = sys.getallocatedblocks()
    for _ in repeat(None, calls):
        called(case)
    gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    after = array("q", map(sys.getrefcount, objects))
    least = max(calls / 100, 60)  # what the counting itself makes is less
    found = {_name(x): (b - a) / calls for x, a, b in zip(objects, before, after, strict=True) if abs(b - a) > least}
    if abs(blocks) > least:
        found["blocks"] = blocks / calls
    return found


def main(library: str | None = None) -> None:
    if library is not None:
        from .libraries import load

        load(Path(library))
    from .table import CASES, SHARED

    held = [[x] * SPARE for x in (None, True, False, ())]  # or the process ends where one call loses a reference
    gc.collect()
    gc.freeze()
    for case in CASES:
        found = drift(case, case.calls, SHARED)
        if found:
            print(json.dumps({"case": str(case), "lost": found}), flush=True)
    print(json.dumps({"cases": len(CASES)}))
    held.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
