"""The table that every benchmark prints: a row for each workload, with its targets in the last column."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["SIDES", "Row", "Table", "compared", "heads", "present", "show"]

SIDES = ("mxcompat", "jax.jit", "MLX")


@dataclass
class Row:
    """A row of the table: each side's value in `unit`, mxcompat's ratios to it, and the targets.

    Ratios exist if the sides were measured in turn: the median and the quartiles over the rounds. Each target has a
    flag that says if it was reached.
    """

    name: str
    unit: str
    values: dict[str, float]
    ratios: dict[str, float] = field(default_factory=dict)
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    targets: dict[str, bool] = field(default_factory=dict)

    def ratio(self, side: str) -> float | None:
        if side not in self.values or "mxcompat" not in self.values:
            return None
        return self.ratios.get(side, self.values["mxcompat"] / self.values[side])

    def limit(self, side: str | None, most: float | None, floor: float | None = None) -> None:
        """Add a target: at most `most`, in the row's unit, or as a multiple of a side's value (if that side was
        measured).

        A value of `floor` or less, in the row's unit, reaches the target in any case.
        """
        if most is None:
            return
        if side is None:
            self.targets[f"{most:g} {self.unit}"] = self.values["mxcompat"] <= most
        elif (ratio := self.ratio(side)) is not None:
            either = "" if floor is None else f" or {floor:g} {self.unit}"
            reached = ratio <= most or (floor is not None and self.values["mxcompat"] <= floor)
            self.targets[f"{most:.3g} x {side}{either}"] = reached


def compared(values: dict[str, Sequence[float]]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return the medians and quartiles of mxcompat's value divided by each side's, round by round."""
    medians, spread = {}, {}
    for side, theirs in values.items():
        ratios = [a / b for a, b in zip(values["mxcompat"], theirs, strict=True)]
        medians[side] = statistics.median(ratios)
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        spread[side] = (low, high)
    return medians, spread


def present() -> list[str]:
    """Return the sides that can be measured here; real MLX may be missing."""
    return [side for side in SIDES if side != "MLX" or importlib.util.find_spec("mlx")]


def heads() -> str:
    sides = "".join([*(f"{side:>10}" for side in SIDES), *(f"{'/ ' + side:>11}" for side in SIDES[1:])])
    return f"{'':<47}{sides}   at most"


def show(row: Row) -> str:
    cells = [f"{row.name:<43}"]
    for side in SIDES:
        value = row.values.get(side)
        cells.append("–".rjust(10) if value is None else f"{value:10.{_decimals(value)}f}")
    for side in SIDES[1:]:
        ratio = row.ratio(side)
        cells.append("–".rjust(11) if ratio is None else f"{ratio:11.2f}")
    verdict = ", ".join(f"{text} {'ok' if reached else 'MISSED'}" for text, reached in row.targets.items())
    others = [f"{side} {value:.{_decimals(value)}f}" for side, value in row.values.items() if side not in SIDES]
    return f"{cells[0]} {row.unit:>3}{''.join(cells[1:])}   {'; '.join(filter(None, [verdict, *others]))}"


def _decimals(value: float) -> int:
    return 2 if value < 10 else 1 if value < 1000 else 0


class Table:
    """A table that prints each row when it is added."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        print(heads())

    def add(self, *rows: Row) -> None:
        for row in rows:
            self.rows.append(row)
            print(show(row), flush=True)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([dataclasses.asdict(row) for row in self.rows], indent=2) + "\n")

    def reached(self) -> bool:
        """Return True if every target was reached."""
        return all(reached for row in self.rows for reached in row.targets.values())
