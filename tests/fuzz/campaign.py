"""A fuzzing campaign: run many calls on both libraries, and judge how each one ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

__all__ = ["KINDS", "Ending", "campaign", "endings", "fault", "table"]

ROOT = Path(__file__).parents[2]
SETTINGS = {"JAX_ENABLE_COMPILATION_CACHE": "0", "MXCOMPAT_CACHE": "0"}
BLOCK = 2000

KINDS = {"TypeError", "ValueError", "IndexError", "RuntimeError", "OverflowError"}
"""Exception types of MLX. mxcompat may raise another type only if MLX raises it for the same call."""

INSIDE = re.compile(
    r"\blax\b|\bjnp\b|\bjax\b|[Tt]racer|jaxpr|\bXLA|Xla|RESOURCE_EXHAUSTED|INTERNAL:|INVALID_ARGUMENT|UNIMPLEMENTED|HLO"
    r"|please report|ShapedArray|\bufunc\b|\bnumpy\b|NumPy|\bnp\.|_graph\b|_node\b|\baval\b|Wrapped|mxcompat_"
)
"""Internal words that an error message must not contain."""

GIVEN = re.compile(r"\bnumpy\.(ndarray|bool|str_|\w+\d+)\b|\bnp\.\w+\(")
"""Type names in messages that describe the call's own arguments."""

PYTHONS = re.compile(
    r"^name '\w+' is not defined$|^'(list|tuple|dict|ellipsis|complex|float|int|str|bool)' object has no attribute "
)
"""Python's errors about the expression itself, independent of the library. They occur if real MLX crashed earlier."""

BEYOND_MEMORY = ("MemoryError", "std::bad_alloc", "cannot allocate memory")
"""Words in real MLX's errors for expressions that need too much memory in Python, outside the library (`2**40**2**63`).
In mxcompat, such a call is ended by the time limit before it runs out of memory."""


class Ending(NamedTuple):
    """The outcome of a call: "value" with its type, "error" with its type and message, or "crash" or "hang" with the
    signal."""

    how: str
    kind: str
    words: str = ""
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.how} {self.kind}: {' '.join(self.words.split())}" + (f" <- {self.cause}" if self.cause else "")


def endings(side: str, first: int, last: int) -> Iterator[tuple[int, Ending]]:
    """Yield the outcomes of the calls from `first` to before `last`, in order."""
    while first < last:
        command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.worker", side, str(first), str(last)]
        process = subprocess.run(
            command, cwd=ROOT, env=os.environ | SETTINGS, capture_output=True, text=True, check=False
        )
        begun = None
        for line in process.stdout.splitlines():
            said, *rest = json.loads(line)
            if said == "begin":
                begun = rest[0]
            elif said == "end":
                yield rest[0], Ending(*rest[1:])
                begun = None
            else:
                return
        if begun is None:
            raise RuntimeError(f"a worker ended between two calls:\n{process.stderr[-3000:]}")
        late = -process.returncode in (signal.SIGPROF, signal.SIGALRM)
        yield begun, Ending("hang" if late else "crash", str(process.returncode), process.stderr[-300:])
        first = begun + 1


def campaign(numbers: range, processes: int = 2) -> Iterator[tuple[int, Ending, Ending]]:
    """Yield the number of each call, and its outcome in mxcompat and in real MLX."""
    blocks = [(k, min(k + BLOCK, numbers.stop)) for k in range(numbers.start, numbers.stop, BLOCK)]

    def both(block: tuple[int, int]) -> list[tuple[int, Ending, Ending]]:
        real = dict(endings("real", *block))
        return [(number, ours, real[number]) for number, ours in endings("ours", *block)]

    with ThreadPoolExecutor(processes) as pool:
        for results in pool.map(both, blocks):
            yield from results


def fault(ours: Ending, real: Ending) -> str:
    """Return a description of the fault in an outcome of mxcompat, or ""."""
    if ours.how == "hang" and (real.how == "hang" or any(w in f"{real.kind} {real.words}" for w in BEYOND_MEMORY)):
        return ""  # Python's own arithmetic, `2**40**2**63`, is outside mxcompat
    if ours.how in ("crash", "hang"):
        return ours.how
    if ours.how == "value":
        return ""
    if "cannot pickle" in real.words:
        return ""  # mxcompat can pickle it, so the call fails later, on the copy
    if real.how == "crash" and PYTHONS.search(ours.words):
        return ""
    if ours.kind not in KINDS and ours.kind != real.kind:
        return f"{ours.kind} is no exception of MLX's"
    if ours.words != real.words and INSIDE.search(GIVEN.sub("", ours.words)):
        return "words of the inside"
    return ""


def table(endings: list[tuple[int, Ending, Ending]]) -> str:
    """Return a table of how many calls ended in which way, in both libraries."""
    counts = Counter(
        (ours.how, real.how, ours.how == real.how == "error" and ours.kind == real.kind) for _, ours, real in endings
    )
    lines = [f"{len(endings)} calls"]
    for (ours, real, same), n in counts.most_common():
        lines.append(f"{n:8d}  mxcompat {ours}, real MLX {real}{', of the same type' if same else ''}")
    return "\n".join(lines)
