"""Count references and allocated blocks over many calls of a case.

`python -m tests.native.references [LIBRARY]` runs all cases, with another build of the extension if one is named. It
prints a line of JSON for each case that leaks or loses references or blocks.
"""

from __future__ import annotations

import gc
import json
import sys
from array import array
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path

from .cases import Case, called, watched

__all__ = ["counted", "drift"]

ALWAYS = (None, True, False, (), "", NotImplemented, Ellipsis, *range(-5, 257))
"""Objects that every program shares."""


SPARE = 5_000_000
"""Extra references to shared objects, so that a library that loses references does not end the process."""


def _name(x: object) -> str:
    text = repr(x) if isinstance(x, (bool, int, str, type, tuple)) or x is None else f"an object of {type(x).__name__}"
    return text[:60]


def drift(case: Case, calls: int, shared: Iterable[object] = ()) -> dict[str, float]:
    """Return the references and memory blocks that a call leaks (positive) or loses (negative)."""
    for _ in repeat(None, min(calls, 300)):
        called(case)
    watch = [*shared, *watched(case.arguments())]
    least = max(calls / 100, 60)  # less than this is allocated by the measurement itself
    return counted(lambda: called(case), calls, watch, least)


def counted(act: Callable[[], object], calls: int, watch: Iterable[object], least: float) -> dict[str, float]:
    """Return the references and blocks that a call leaks or loses, above the threshold `least`.

    A finding is measured twice more, after many more calls. A real leak repeats at each call; the work of other
    threads does not, and a free list fills only once.
    """
    objects = [*{id(x): x for x in (*ALWAYS, *watch)}.values()]
    drifts = _counted(act, calls, objects, least)
    for _ in range(2):
        if not drifts:
            break
        for _ in repeat(None, 20 * calls):
            act()
        again = _counted(act, calls, objects, least)
        drifts = {name: again[name] for name in drifts if name in again}
    return drifts


def _counted(act: Callable[[], object], calls: int, objects: list[object], least: float) -> dict[str, float]:
    gc.collect()
    before = array("q", map(sys.getrefcount, objects))  # an array of machine integers holds no references
    blocks = sys.getallocatedblocks()
    for _ in repeat(None, calls):
        act()
    gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    after = array("q", map(sys.getrefcount, objects))
    drifts = {_name(x): (b - a) / calls for x, a, b in zip(objects, before, after, strict=True) if abs(b - a) > least}
    if abs(blocks) > least:
        drifts["blocks"] = blocks / calls
    return drifts


def main(library: str | None = None) -> None:
    if library is not None:
        from .libraries import load

        load(Path(library))
    from .table import CASES, SHARED

    # a lost reference per call would otherwise end the process
    held = [[x] * SPARE for x in (None, True, False, ())]
    gc.collect()
    gc.freeze()
    for case in CASES:
        drifts = drift(case, case.calls, SHARED)
        if drifts:
            print(json.dumps({"case": str(case), "lost": drifts}), flush=True)
    print(json.dumps({"cases": len(CASES)}))
    held.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
