"""Time the first N steps of a program in a new process, for several N: the seconds before it is fast.

Each side runs in a separate process:

    python -m tests.benchmarks.real_times SIDE NAME     prints milliseconds by N, as JSON

The programs are built before the clock starts. The first token includes the prompt.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import generation, workloads
from .agreement import digest
from .real_sides import in_turn, use
from .table import Row, compared, present

__all__ = ["PROGRAMS", "Program", "rows", "times"]

_OF_MLX = 1.1
_ROOM_MS = 50.0
"""Milliseconds above real MLX's that a row may take: noise dominates shorter runs."""


def _tokens(mx: Any, model: str, **sizes: int) -> Iterator[Any]:
    """Yield the tokens that mlx-lm's loop generates with random weights; `sizes` replace the model's."""
    generate = generation.mlx_lm(generation.MODELS[model]._replace(**sizes), tokens=-1)
    return iter(generate())


def _repeated(mx: Any, build: Callable[[Any], Callable[[], Any]]) -> Iterator[Any]:
    step = build(mx)
    return (step() for _ in itertools.repeat(None))


@dataclass(frozen=True)
class Program:
    """A program, and the numbers of steps whose time is shown.

    Args:
        build: a function of `mx`, and of sizes that replace the default ones. It returns an iterator over the results
            of steps.
        counts: the numbers of steps, in order.
        of_mlx: limit as a multiple of real MLX's time.
        room: milliseconds above real MLX's time that are allowed in any case; None for no such allowance.
        mlx_lm: True if the program needs mlx-lm.
        tiny: sizes for tests.
    """

    name: str
    build: Callable[..., Iterator[Any]]
    counts: tuple[int, ...]
    of_mlx: float = _OF_MLX
    room: float | None = _ROOM_MS
    mlx_lm: bool = False
    tiny: dict[str, int] = field(default_factory=dict)


def _llama(name: str, *counts: int, of_mlx: float = _OF_MLX, room: float | None = _ROOM_MS) -> Program:
    tiny = {"hidden": 128, "layers": 1, "heads": 4, "vocabulary": 64}
    return Program(name, partial(_tokens, model=name), counts, of_mlx, room, True, tiny)


PROGRAMS = (
    _llama("llama, 512 wide, 8 layers, 4 bits", 1, 8, 32, 128, 256),
    _llama("llama, 256 wide, 4 layers", 1, 8, 32, 128, 256),
    Program("gradient of a small MLP", partial(_repeated, build=workloads.mlp), (1, 10, 100, 1000, 3000)),
    Program("200 ops on 1M floats", partial(_repeated, build=workloads.elementwise), (1, 3, 10, 30, 100)),
    _llama("llama, 256 wide, 4 layers", 4000, of_mlx=1 / 3, room=None),
)


def times(mx: Any, program: Program, **sizes: int) -> dict[str, Any]:
    """Return milliseconds from the start to the end of each number of steps, and the first step's result."""
    steps = program.build(mx, **sizes)
    milliseconds: dict[str, Any] = {}
    start = time.perf_counter()
    for k, result in enumerate(itertools.islice(steps, program.counts[-1]), 1):
        if k == 1:
            first = result
        if k in program.counts:
            milliseconds[str(k)] = 1e3 * (time.perf_counter() - start)
    return {**milliseconds, "result": digest(first)}


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Measure the programs whose names are selected, in turn on each side."""
    sides = [side for side in present() if side != "jax.jit"]
    for k, program in enumerate(PROGRAMS):
        if not is_selected(program.name):
            continue
        if program.mlx_lm and not generation.available():
            yield Row(f"{program.name}: mlx-lm is not installed", "ms", {})
            continue
        measurements = in_turn("real_times", [str(k)], sides, rounds)
        for count in program.counts:
            values = {side: [run[str(count)] for run in runs] for side, runs in measurements.items()}
            medians = {side: statistics.median(several) for side, several in values.items()}
            name = f"{program.name}: first {count}" if count == program.counts[0] else f"  first {count}"
            row = Row(name, "ms", medians, *compared(values))
            row.limit("MLX", program.of_mlx, program.room and medians.get("MLX", 0.0) + program.room)
            yield row


def main(side: str, number: str) -> None:
    use(side)
    import mlx.core as mx

    print(json.dumps(times(mx, PROGRAMS[int(number)])))


if __name__ == "__main__":
    main(*sys.argv[1:])
