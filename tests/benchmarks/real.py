"""Measure at the size of real models: the tables of `python -m tests.benchmarks real`, one module each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import real_models, real_ops, real_quantized, real_times
from .table import Row

__all__ = ["PARTS", "ROUNDS", "rows"]

ROUNDS = 3

PARTS: tuple[Callable[[Callable[[str], bool], int], Iterator[Row]], ...] = (
    real_quantized.rows,
    real_models.rows,
    real_times.rows,
    real_ops.rows,
)
"""Functions that yield the selected rows, measured in the given number of rounds."""


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Yield the rows of every part."""
    for part in PARTS:
        yield from part(is_selected, rounds)
