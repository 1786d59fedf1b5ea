"""Plan: the ways to compute a subgraph, as values that can be printed.

`schedule` chooses a plan; `execute` and `evaluate` carry it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.node import Node
from ..ir.program import Program
from .compile import Executable

__all__ = [
    "Autotune", "Call", "Compile", "Find", "HostFirst", "Inline", "OpByOp", "Plan", "RunEffect", "Segments", "Split",
]  # fmt: skip


class Inline(NamedTuple):
    """Replay the Program under the JAX trace that its inputs belong to."""

    program: Program

    @property
    def tier(self) -> str:
        """The tier that carries out the plan: "host" (NumPy) or "run" (XLA)."""
        return "host"

    def __str__(self) -> str:
        return f"{len(self.program.instructions)} ops inline in the function that JAX is tracing"


class Call(NamedTuple):
    """Run an executable. With `counts`, the run counts towards a compile for speed. With `timed`, wait for the results
    and note the time. `copied` are donated buffers that are still reachable, so that they must be copied first."""

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
    """Compile the Program and plan again. With `hurry`, the compile is quick, and one for speed follows; with
    `reproducible`, it is the final one."""

    program: Program
    scalars: tuple
    donated: tuple[int, ...]
    reproducible: bool = False
    hurry: bool = True

    def __str__(self) -> str:
        return f"compile {len(self.program.instructions)} ops as one"


class Autotune(NamedTuple):
    """Time an executable and NumPy, in runs whose results are discarded: at most `most` each. For long runs, no run
    starts after `seconds`, but each side has at least `least` runs."""

    executable: Executable
    most: int
    least: int
    seconds: float


class OpByOp(NamedTuple):
    """Run op by op, in NumPy (`on_host`) or with executables of single ops.

    `light` is True for short work, which is not timed precisely in NumPy. With `compiles`, the Program is compiled in
    the background. With `autotune`, the Program's executable is timed as well.
    """

    program: Program
    scalars: tuple
    donated: tuple[int, ...]
    on_host: bool
    light: bool
    compiles: bool
    reason: str
    autotune: Autotune | None = None

    @property
    def tier(self) -> str:
        return "host" if self.on_host else "run"

    def __str__(self) -> str:
        where = "in NumPy" if self.on_host else "with executables of their own"
        then = ", while the whole is being compiled" if self.compiles else ""
        return f"{len(self.program.instructions)} ops one by one {where}, {self.reason}{then}"


class HostFirst(NamedTuple):
    """Compute these slots, which are constants or only read small data, in NumPy. Then plan again for the rest."""

    slots: list[int]

    @property
    def tier(self) -> str:
        return "host"

    def __str__(self) -> str:
        return f"{len(self.slots)} ops without large inputs in NumPy first"


class Segments(NamedTuple):
    """Compute segments in order, each given by its roots. `temporary` is True if they will be one program later."""

    segments: list[list[Node]]
    temporary: bool
    compiles: tuple[Program, tuple, tuple[int, ...]] | None

    def __str__(self) -> str:
        return f"in {len(self.segments)} segments"


class Split(NamedTuple):
    """Compute a node with several results through equivalent nodes."""

    node: Node
    results: Sequence[Node]
    temporary: bool | None

    def __str__(self) -> str:
        return f"[{self.node.op}] split into segments"


class RunEffect(NamedTuple):
    """Run an effect: one node alone, by its rule in `EFFECT`."""

    node: Node

    def __str__(self) -> str:
        return f"[{self.node.op}] by itself"


class Find(NamedTuple):
    """Resolve these promised arguments of a custom function's rule, and plan again."""

    placeholders: list[Node]

    def __str__(self) -> str:
        return f"find {len(self.placeholders)} arguments of a rule"


Plan = Inline | Call | Compile | OpByOp | HostFirst | Segments | Split | RunEffect | Find
