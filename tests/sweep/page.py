"""The list of differences that the sweep writes into docs/differences.md, between two markers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.sweep.cases import DTYPES
from tests.sweep.causes import CAUSES, INTEGER_DERIVATIVES, cause_of
from tests.sweep.comparison import KINDS
from tests.sweep.worker import Finding

__all__ = ["BEGIN", "END", "PAGE", "faults", "mentions", "section", "share", "written"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "differences.md"
BEGIN = "<!-- written by `python -m tests.sweep --write`: begin -->"
END = "<!-- end -->"
WIDTH = 118


def faults(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without a cause."""
    return [f for f in findings if f.what not in KINDS and cause_of(f) is None]


def share(findings: Sequence[Finding], cells: int) -> float:
    """Return the share of cells that differ, in percent, without derivatives with respect to integers."""
    counted = [f for f in findings if f.what not in KINDS and cause_of(f) is not INTEGER_DERIVATIVES]
    return 100 * len(counted) / cells


def section(findings: Sequence[Finding], cells: int, every: int | None = None) -> str:
    """Return the text between the markers: the findings in `cells` cells, which are a sample if `every` is larger."""
    compared = f"{cells} cells" if every in (None, cells) else f"A sample of {cells} of {every} cells"
    kinds = Counter(f.what for f in findings)
    same = cells - len(findings)
    differ = sum(n for what, n in kinds.items() if what not in KINDS)
    integer = sum(f.what not in KINDS and cause_of(f) is INTEGER_DERIVATIVES for f in findings)
    lines = [
        BEGIN,
        "",
        *_filled(
            f"{compared} were compared: each case of the tables in `tests/sweep`, in every dtype, plain, compiled "
            f"and under every transform. {same} ({100 * same / cells:.1f} %) are the same: type, dtype, shape, values, "
            f"exception and message. {differ} differ: {differ - integer} ({share(findings, cells):.2f} %), and "
            f"{integer} derivatives with respect to integers. In the other "
            f"{len(findings) - differ} MLX has no answer, or none that agrees with its own:"
        ),
        "",
    ]
    lines += [f"- {kinds[kind]} cells: {text}." for kind, text in KINDS.items() if kinds[kind]]
    lines += ["", "The cells that differ, by cause:"]
    for cause in CAUSES:
        mine = [f for f in findings if f.what not in KINDS and cause_of(f) is cause]
        if mine:
            lines += ["", *_filled(f"- {cause.reason} ({len(mine)} cells)", "  ")]
            lines += _filled(
                f"Seen in: {', '.join(f'`{name}`' for name in sorted({subject(f.expression) for f in mine}))}.",
                "  ",
                "  ",
            )
    return "\n".join([*lines, "", END])


def subject(expression: str) -> str:
    """Return the name of the function that a case tests."""
    called = re.search(r"\b((?:mx|nn|optim|utils)\.[a-z][\w.]*\w|nn\.[A-Z]\w+)", expression)
    if called and called[1] != "mx.array" and called[1][3:] not in DTYPES:
        return called[1]
    method = re.search(r"\bx\.(\w+)", expression)
    if method:
        return f"array.{method[1]}"
    operator = re.search(r"(?<=\s)[-+*/%@&|^<>=]+(?=\s|'|$)|'[^']*='", expression)
    return operator[0].strip("'") if operator else "x[...]" if "[" in expression else expression


def _filled(text: str, indent: str = "", first: str = "") -> list[str]:
    lines = [first]
    for word in text.split():
        if len(lines[-1]) + len(word) >= WIDTH:
            lines.append(indent)
        lines[-1] += (" " if lines[-1].strip() else "") + word
    return lines


def written(page: str, new: str) -> str:
    """Return a page with a new section between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + new + after


def mentions(page: str) -> dict[str, set[str]]:
    """Return the reasons on a page, each with the functions in which it is seen."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    names_by_reason = {}
    for block in re.split(r"\n(?=- )", text.partition("by cause:")[2]):
        reason, seen, names = block.partition("Seen in:")
        if seen:
            names_by_reason[" ".join(reason.strip("- \n").rpartition(" (")[0].split())] = set(
                re.findall(r"`([^`]*)`", names)
            )
    return names_by_reason
