"""The benchmark pages of the documentation: plots and tables from the stored measurements of each pair of versions.

`python -m tests.benchmarks --report docs/benchmarks` measures, and writes the page of the running Python and JAX into a
folder named by them, beside those of other pairs. Each folder has hand-written notes on the rows over their limit.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import math
import os
import platform
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docs._build.svg import DARK, LIGHT, Drawing, Palette

from .table import SIDES, Row

__all__ = ["files", "machine", "pair", "pairs", "save", "unexplained", "write"]

FIGURES = "figures.json"
NOTES = "notes.toml"
"""The file with hand-written notes: for each row over its limit, the change in these versions and its size."""

_ABOUT = {
    "warm": ("Warm", "Each row is a step whose programs are compiled already."),
    "generation": ("Generation", "These rows generate tokens by mlx-lm's own loop."),
    "memory": ("Memory and import", "Each row is measured in a separate process."),
    "cold": ("Cold", "Each row is work that a process does for the first time."),
    "everyday": ("Everyday", "These rows are small calls that every program makes, after the first ones."),
    "distributed": ("Distributed", "These rows use several processes or devices."),
    "metal": ("Metal kernels", "Each row compares a kernel with the same computation in mx operations."),
    "real": ("Real models", "These rows have the sizes of real models."),
}

_PACKAGES = ("jax", "jaxlib", "mlx", "numpy", "mlx-lm")


def pair() -> str:
    """Return the name of the running versions of Python and JAX, which is also the name of their folder."""
    import jax

    return f"python-{'.'.join(platform.python_version_tuple()[:2])}-jax-{jax.__version__}"


def pairs(folder: Path) -> list[str]:
    """Return the pairs of versions that have been measured, the oldest first."""
    names = [path.parent.name for path in folder.glob(f"*/{FIGURES}")]
    return sorted(names, key=lambda name: [number.zfill(9) for number in name.replace("-", ".").split(".")])


def machine() -> str:
    """Return a description of the machine."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _processor() -> str:
    """Return the processor's name if the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def save(folder: Path, sections: Mapping[str, Sequence[Row]]) -> None:
    """Store the measurements of a run, with the machine and the versions, in the folder of this pair. Other tables that
    were measured on such a machine with these versions are kept."""
    import jax

    folder /= pair()
    setting = {
        "machine": ", ".join(filter(None, [machine(), _processor(), f"JAX on {jax.default_backend()}"])),
        "versions": _versions(),
    }
    stored = json.loads((folder / FIGURES).read_text()) if (folder / FIGURES).exists() else {}
    if {key: stored.get(key) for key in setting} != setting:
        stored = {"dates": {}, "sections": {}}
    rows = {name: [dataclasses.asdict(row) for row in rows] for name, rows in sections.items()}
    figures = {
        **setting,
        "dates": stored["dates"] | dict.fromkeys(sections, datetime.date.today().isoformat()),
        "sections": stored["sections"] | rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FIGURES).write_text(json.dumps(figures, indent=1) + "\n")


def write(folder: Path) -> None:
    """Write the pages and the plots from the stored measurements."""
    for name, text in files(folder).items():
        (folder / name).write_text(text)


def files(folder: Path) -> dict[str, str]:
    """Return the pages and the plots by path in the folder, from the stored measurements: a list of the pairs, and a
    page for each. Without measurements, the list says how to take them."""
    lines = [_line_of_pair(folder, name) for name in pairs(folder)]
    texts = {"index.md": _HEAD + "\n".join(["", *(_PAIRS + lines if lines else [_EMPTY]), ""])}
    for name in pairs(folder):
        texts |= {f"{name}/{path}": text for path, text in _files_of_pair(folder / name).items()}
    return texts


def unexplained(folder: Path, sections: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the rows over their limit that have no note in the folder of this pair, with the targets they miss."""
    notes = _notes(folder / pair())
    rows = [row for section in sections.values() for row in section]
    return [f"{row.name.strip()}: {', '.join(_missed(row))}" for row in rows if _missed(row) and not _note(notes, row)]


def _missed(row: Row) -> list[str]:
    return [target for target, reached in row.targets.items() if not reached]


def _notes(folder: Path) -> dict[str, str]:
    path = folder / NOTES
    return tomllib.loads(path.read_text()) if path.exists() else {}


def _note(notes: Mapping[str, str], row: Row) -> str:
    return notes.get(row.name.strip(), "").strip()


def _stored(folder: Path) -> tuple[dict[str, Any], dict[str, list[Row]]]:
    figures = json.loads((folder / FIGURES).read_text())
    return figures, {name: [_row(row) for row in rows] for name, rows in figures["sections"].items()}


def _title(name: str) -> str:
    """Return the title of a pair of versions, such as "Python 3.11, JAX 0.10.2"."""
    _, python, _, jax = name.split("-", 3)
    return f"Python {python}, JAX {jax}"


def _line_of_pair(folder: Path, name: str) -> str:
    figures, sections = _stored(folder / name)
    rows = [row for section in sections.values() for row in section]
    over = sum(bool(_missed(row)) for row in rows)
    return f"| [{_title(name)}]({name}/index.md) | {_dates(figures)} | {len(rows)} | {over} |"


def _dates(figures: dict[str, Any]) -> str:
    """Return the day on which the tables were measured, or the first and the last."""
    days = sorted({*figures["dates"].values()})
    return " to ".join(dict.fromkeys([days[0], days[-1]]))


def _files_of_pair(folder: Path) -> dict[str, str]:
    figures, sections = _stored(folder)
    texts = {"index.md": "\n".join([*_body(folder.name, figures, sections, _notes(folder)), ""])}
    for name, rows in sections.items():
        shown = [row for row in rows if _sides(row)]
        for shade, palette in (("light", LIGHT), ("dark", DARK)):
            if shown:
                texts[f"{name}-{shade}.svg"] = plot(shown, palette, _ABOUT.get(name, (name, ""))[0]).svg()
    return texts


def _row(fields: dict[str, Any]) -> Row:
    return Row(**{**fields, "spread": {side: tuple(pair) for side, pair in fields["spread"].items()}})


_HEAD = """# Benchmarks

mxcompat, hand-written `jax.jit` code and real MLX do the same work in turn on one machine. Their results are compared.
The ratios matter: mxcompat's time divided by the other's time in the same round. Below 1, mxcompat is faster. Ratios
differ between machines; to measure yours:

<!-- not run: takes half an hour or more, on an idle machine -->
```sh
python -m tests.benchmarks --report docs/benchmarks
```
"""

_EMPTY = "No figures have been taken yet: this writes them, and a page for the versions that it runs with."

_PAIRS = [
    "Every row has a limit, a multiple of another side's time. With some versions of Python and JAX, a row may be over",
    "its limit. Then their page says what changed, and by how much.",
    "",
    "| versions | taken on | rows | over their limit |",
    "|---|---|--:|--:|",
]


def _body(
    name: str, figures: dict[str, Any], sections: Mapping[str, Sequence[Row]], notes: Mapping[str, str]
) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    lines = [
        f"# Benchmarks with {_title(name)}",
        "",
        f"Taken on {_dates(figures)}: {figures['machine']}; {versions}.",
        "",
        "A dot is the median of the ratios of the rounds, a bar goes from the lower to the upper quartile; the tables",
        "give both. Rows over their limit have an asterisk. [Other versions](../index.md) have pages of their own.",
    ]
    over = [row for section in sections.values() for row in section if _missed(row)]
    if over:
        lines += ["", "## Over their limit", "", *(_explained(row, notes) for row in over)]
    for name, rows in sections.items():
        title, about = _ABOUT.get(name, (name.capitalize(), ""))
        lines += ["", f"## {title}", "", about, ""]
        if any(_sides(row) for row in rows):
            lines += [f"![{title}: ratios]({name}-{shade}.svg#only-{shade})" for shade in ("light", "dark")]
        lines += ["", "| | unit | " + " | ".join(SIDES) + " | / jax.jit | / MLX |", "|---|---|" + "--:|" * 5]
        lines += [_table_line(row) for row in rows]
    return lines


def _table_line(row: Row) -> str:
    values = [_rounded(row.values[side]) if side in row.values else "–" for side in SIDES]
    name = _label(row).replace("|", "\\|")
    name += " \\*" if _missed(row) else ""
    return f"| {name} | {row.unit} | {' | '.join([*values, *(_ratio(row, side) for side in SIDES[1:])])} |"


def _explained(row: Row, notes: Mapping[str, str]) -> str:
    return f"- {row.name.strip()}, at most {', '.join(_missed(row))}: {_note(notes, row) or '**no note yet**.'}"


def _label(row: Row) -> str:
    """Return the row's label; an indented row belongs to the row above."""
    return f"↳ {row.name.strip()}" if row.name.startswith(" ") else row.name


def _rounded(value: float) -> str:
    """Return the value with three significant digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _ratio(row: Row, side: str) -> str:
    ratio = row.ratio(side)
    if ratio is None:
        return "–"
    low, high = row.spread.get(side, (ratio, ratio))
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})" if side in row.spread else f"{ratio:.2f}"


def _sides(row: Row) -> list[str]:
    return [side for side in SIDES[1:] if row.ratio(side)]


def plot(rows: Sequence[Row], palette: Palette, title: str) -> Drawing:
    """Plot the ratios of the rows on a logarithmic axis: a dot for the median, a bar between the quartiles."""
    colours = dict(zip(SIDES[1:], (palette.accent, palette.second), strict=True))
    ends = [end for row in rows for side in _sides(row) for end in (row.ratio(side) or 1.0, *row.spread.get(side, ()))]
    low, high = 2.0 ** math.floor(math.log2(min(*ends, 0.5))), 2.0 ** math.ceil(math.log2(max(*ends, 2.0)))
    left, width, step, top = 330, 400, 22, 46

    def at(ratio: float) -> float:
        return left + width * math.log(ratio / low) / math.log(high / low)

    bottom = top + step * len(rows)
    out = Drawing(left + width + 30, bottom + 30, palette, f"{title}: time of mxcompat divided by that of the others")
    ticks = range(round(math.log2(low)), round(math.log2(high)) + 1)
    for power in ticks:
        if len(ticks) < 10 or power % 2 == 0:
            x = at(2.0**power)
            out.line([(x, top - 6), (x, bottom)], palette.fill if power else palette.faint, arrow=False)
            out.words(x, bottom + 18, f"{2.0**power:g}", 11, palette.faint, anchor="middle")
    for k, side in enumerate(SIDES[1:]):
        out.dot(left + 4 + 150 * k, 16, 5, colours[side])
        out.words(left + 16 + 150 * k, 20, f"divided by {side}", 12)
    for k, row in enumerate(rows):
        y = top + step * (k + 0.5)
        out.words(left - 12, y + 4, _label(row), 12, anchor="end")
        for offset, side in zip((-3, 3), SIDES[1:], strict=True):
            ratio = row.ratio(side)
            if ratio:
                ends_of = row.spread.get(side, (ratio, ratio))
                out.line([(at(end), y + offset) for end in ends_of], colours[side], arrow=False, width=2)
                out.dot(at(ratio), y + offset, 4, colours[side], f"{_label(row)}: {ratio:.2f} x {side}")
    return out
