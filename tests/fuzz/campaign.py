"""A campaign: many calls, on both sides, and what is wrong with how they ended."""

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
"""The exceptions that MLX raises. Another is none of ours unless MLX raises it for the same call."""

INSIDE = re.compile(
    r"\blax\b|\bjnp\b|\bjax\b|[Tt]racer|jaxpr|\bXLA|Xla|RESOURCE_EXHAUSTED|INTERNAL:|INVALID_ARGUMENT|UNIMPLEMENTED|HLO"
    r"|please report|ShapedArray|\bufunc\b|\bnumpy\b|NumPy|\bnp\.|_graph\b|_node\b|\baval\b|Wrapped|mxcompat_"
)
"""Words of the inside."""

GIVEN = re.compile(r"\bnumpy\.(ndarray|bool|str_|\w+\d+)\b|\bnp\.\w+\(")
"""The types of what a call is given."""

PYTHONS = re.compile(
    r"^name '\w+' is not defined$|^'(list|tuple|dict|ellipsis|complex|float|int|str|bool)' object has no attribute "
)
"""What Python says of the call itself, whatever it is made with: seen where real MLX has died of an earlier one."""

BEYOND_MEMORY = ("MemoryError", "std::bad_alloc", "cannot allocate memory")
"""How real MLX ends where the program itself, not MLX, asks for more than there is; here the time is over first."""


class Ending(NamedTuple):
    """How a call ended: with a "value" (of the type), an "error" (the type and its words), a "crash" or a "hang" (the
    signal)."""

    how: str
    kind: str
    words: str = ""
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.how} {self.kind}: {' '.join(self.words.split())}" + (f" <- {self.cause}" if self.cause else "")


def endings(side: str, first: int, last: int) -> Iterator[tuple[int, Ending]]:
    """How the calls from one number to before another end, in order."""
    while first < last:
        command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.worker", side, str(first), str(last)]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | SETTINGS, capture_output=True, text=True, check=False)
        begun = None
        for line in done.stdout.splitlines():
            said, *rest = json.loads(line)
            if said == "begin":
                begun = rest[0]
            elif said == "end":
                yield rest[0], Ending(*rest[1:])
                begun = None
            else:
                return
        if begun is None:
            raise RuntimeError(f"a worker ended between two calls:\n{done.stderr[-3000:]}")
        late = -done.returncode in (signal.SIGPROF, signal.SIGALRM)
        yield begun, Ending("hang" if late else "crash", str(done.returncode), done.stderr[-300:])
        first = begun + 1


def campaign(numbers: range, processes: int = 2) -> Iterator[tuple[int, Ending, Ending]]:
    """Each call's number, and how it ended here and in real MLX."""
    blocks = [(k, min(k + BLOCK, numbers.stop)) for k in range(numbers.start, numbers.stop, BLOCK)]

    def both(block: tuple[int, int]) -> list[tuple[int, Ending, Ending]]:
        real = dict(endings("real", *block))
        return [(number, ours, real[number]) for number, ours in endings("ours", *block)]

    with ThreadPoolExecutor(processes) as pool:
        for found in pool.map(both, blocks):
            yield from found


def fault(ours: Ending, real: Ending) -> str:
    """What is wrong with how a call ended here; "" if nothing is."""
    if ours.how == "hang" and (real.how == "hang" or any(w in f"{real.kind} {real.words}" for w in BEYOND_MEMORY)):
        return ""  # Python's own arithmetic, `2**40**2**63`, is no call of ours
    if ours.how in ("crash", "hang"):
        return ours.how
    if ours.how == "value":
        return ""
    if "cannot pickle" in real.words:
        return ""  # here it can, and the call goes on to what it asks of the copy
    if real.how == "crash" and PYTHONS.search(ours.words):
        return ""
    if ours.kind not in KINDS and ours.kind != real.kind:
        return f"{ours.kind} is no exception of MLX's"
    if ours.words != real.words and INSIDE.search(GIVEN.sub("", ours.words)):
        return "words of the inside"
    return ""


def table(found: list[tuple[int, Ending, Ending]]) -> str:
    """How many calls ended how, on both sides."""
    counts = Counter(
        (ours.how, real.how, ours.how == real.how == "error" and ours.kind == real.kind) for _, ours, real in found
    )
    lines = [f"{len(found)} calls"]
    for (ours, real, same), n in counts.most_common():
        lines.append(f"{n:8d}  mxcompat {ours}, real MLX {real}{', of the same type' if same else ''}")
    return "\n".join(lines)
