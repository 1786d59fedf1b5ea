"""The page docs/conformance-by-op.md, which the sweep writes: agreement with real MLX by op, dtype and transform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.sweep.cases import DTYPES
from tests.sweep.comparison import KINDS
from tests.sweep.page import subject
from tests.sweep.worker import Cell, Finding, case_of

__all__ = ["COVERAGE", "covered"]

COVERAGE = Path(__file__).parent.parent.parent / "docs" / "conformance-by-op.md"

_COLUMNS = {
    "plain": ("plain", "special"), "compile": ("compile", "xla"), "vjp": ("vjp",), "jvp": ("jvp",), "vmap": ("vmap",),
}  # fmt: skip
_HEAD = """# Conformance, op by op

The sweep writes this page (`python -m tests.sweep --write`; see [Conformance](conformance.md)). It shows in how many
dtypes an op, layer or function gives real MLX's result, plain and under each transform. If results differ in some
dtypes, these are named; [the list of differences](differences.md#what-the-sweep-finds) has the causes. A dash means
that there is nothing to compare: MLX has no answer, or the transform has no meaning. `compile` includes the results
that XLA computes alone.
"""


def covered(cells: Iterable[Cell], all_findings: Sequence[Finding]) -> str:
    """Return the page for the compared cells and the differences in them."""
    findings = {f[:3]: f for f in all_findings}
    rows: dict[str, dict[str, dict[str, dict[str, bool]]]] = {}
    for cell in cells:
        case = case_of(cell)
        finding = findings.get((case.expression, cell.dtype, cell.way))
        if finding is None or finding.what not in KINDS:
            row = rows.setdefault(case.family, {}).setdefault(subject(case.expression), {})
            dtypes = row.setdefault(_column(cell.way), {})
            dtypes[cell.dtype] = dtypes.get(cell.dtype, True) and finding is None
    lines = [_HEAD]
    for family, ops in rows.items():
        lines += [f"## {family.capitalize()}", "", f"| | {' | '.join(_COLUMNS)} |", "|---" * (len(_COLUMNS) + 1) + "|"]
        for name in sorted(ops):
            entries = [_entry(ops[name].get(column, {})) for column in _COLUMNS]
            lines.append(f"| `{name.replace('|', chr(92) + '|')}` | {' | '.join(entries)} |")
        lines.append("")
    return "\n".join(lines)


def _column(way: str) -> str:
    word = way.split()[0]
    return next(column for column, words in _COLUMNS.items() if word in words)


def _entry(dtypes: Mapping[str, bool]) -> str:
    """Return the number of dtypes that agree, of the total, and the names of the others."""
    if not dtypes:
        return "–"
    others = [dtype for dtype in DTYPES if not dtypes.get(dtype, True)]
    if not others:
        return str(len(dtypes))
    return f"{len(dtypes) - len(others)} of {len(dtypes)}, not {', '.join(others)}"
