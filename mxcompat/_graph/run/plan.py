"""Plan: the ways to compute a subgraph, as values that can be printed.

`schedule` decides on one, `execute` and `evaluate` carry it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.node import Node
from ..ir.program import Program
from .compile import Executable

__all__ = ["Call", "Compile", "Find", "HostFirst", "Inline", "OpByOp", "Plan", "Segments", "Split", "Step", "Trial"]


class Inline(NamedTuple):
    """Replay the Program under the JAX trace that its inputs belong to."""

    program: Program

    @property
    def tier(self) -> str:
        """Where it runs: "host" or "run", which is XLA's."""
        return "host"

    def __str__(self) -> str:
        return f"{len(self.program.instructions)} ops inline in the function that JAX is tracing"


class Call(NamedTuple):
    """Run an executable. `counts` says whether that may lead to a faster version; `timed`, to wait and note the time;
    `copied`, which of the buffers that it writes over others can still reach, so that it is given copies."""

    program: Program
    executable: Executable
    scalars: tuple
    counts: bool
    timed: bool
    copied: tuple[int, ...] = ()

    @property
    def tier(self) -> str:
        return "run"

    def __str__(self) -> str:
        return f"the executable of {len(self.program.instructions)} ops"


class Compile(NamedTuple):
    """Compile the Program, and plan again: in a hurry, or once and for all, where runs are to be `reproducible`."""

    program: Program
    scalars: tuple
    donated: tuple[int, ...]
    reproducible: bool = False

    def __str__(self) -> str:
        return f"compile {len(self.program.instructions)} ops as one"


class Trial(NamedTuple):
    """Time an executable, and NumPy, in runs whose results do not count: so many of each, or of what takes long as many
    as begin within so many seconds, but `least` of them."""

    executable: Executable
    xla_runs: int
    host_runs: int
    least: int
    seconds: float


class OpByOp(NamedTuple):
    """Run op by op: in NumPy, where it may be `light` work, or with executables of single ops. `compiles` has the whole
    compiled in the background; `trial`, whether to time its executable besides."""

    program: Program
    scalars: tuple
    donated: tuple[int, ...]
    on_host: bool
    light: bool
    compiles: bool
    reason: str
    trial: Trial | None = None

    @property
    def tier(self) -> str:
        return "host" if self.on_host else "run"

    def __str__(self) -> str:
        where = "in NumPy" if self.on_host else "with executables of their own"
        then = ", while the whole is being compiled" if self.compiles else ""
        return f"{len(self.program.instructions)} ops one by one {where}, {self.reason}{then}"


class HostFirst(NamedTuple):
    """Compute these slots, which only read small data, in NumPy, and plan again for the rest, which is known."""

    slots: list[int]

    @property
    def tier(self) -> str:
        return "host"

    def __str__(self) -> str:
        return f"{len(self.slots)} ops on small data in NumPy first"


class Segments(NamedTuple):
    """Compute segment after segment, each by its roots. `temporary` says whether they will be one program later."""

    segments: list[list[Node]]
    temporary: bool
    compiles: tuple[Program, tuple, tuple[int, ...]] | None

    def __str__(self) -> str:
        return f"in {len(self.segments)} segments"


class Split(NamedTuple):
    """Compute one node, which has several results, by way of nodes that give the same."""

    node: Node
    results: Sequence[Node]
    temporary: bool | None

    def __str__(self) -> str:
        return f"[{self.node.op}] split into segments"


class Step(NamedTuple):
    """Take a step: run one node by itself, by its rule."""

    node: Node

    def __str__(self) -> str:
        return f"[{self.node.op}] by itself"


class Find(NamedTuple):
    """Find what these arguments of a rule are, and plan again."""

    placeholders: list[Node]

    def __str__(self) -> str:
        return f"find {len(self.placeholders)} arguments of a rule"


Plan = Inline | Call | Compile | OpByOp | HostFirst | Segments | Split | Step | Find
