"""Compare a cell's results, and classify each difference by whether real MLX is right.

Real MLX may refuse, crash, contradict itself (its `vmap` differs from its rows) or compute float64 in float32. A
difference is listed separately if mxcompat's result follows from real MLX's own answers.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from mxcompat.testing import TOLERANCE, differences
from tests.oracle import real
from tests.sweep.cases import Case
from tests.sweep.ways import row_by_row, run

__all__ = ["KINDS", "Found", "compared"]

KINDS = {
    "works here": "MLX raises an error, because it has no implementation",
    "as its rows": "MLX's `vmap` differs from MLX's results for each row; mxcompat's does not",
    "more precise": "MLX computes float64 in float32, and both agree to that precision",
    "MLX dies": "MLX ends the process",
}
"""Differences that need no fix: real MLX is inconsistent there, and mxcompat gives the defined result."""

_REFUSED = re.compile(
    "not implemented|not yet implemented|not supported|unsupported|only supports|NYI|cannot be vmapped"
    "|no implementation|Can only handle groups"
    r"|\[gather_axis\] Cannot calculate VJP"
    "|Type of cotangents does not match primal output type",
    re.I,
)


class Found(NamedTuple):
    """A difference: its kind, one of `KINDS` or a property ("value", "dtype", "shape", "exception", …), and both
    results as text."""

    what: str
    real: str
    ours: str


def compared(case: Case, dtype: str, way: str, got: Any) -> Found | None:
    """Return the first difference between mxcompat's result and real MLX's, or None."""
    want = run(real, case, dtype, way)
    deviations = differences(want, got)
    if not deviations:
        return None
    texts = _short(deviations[0].real), _short(deviations[0].ours)
    if isinstance(got, Exception):
        return Found(deviations[0].what, *texts)
    if way.startswith("vmap"):
        rows = row_by_row(real, case, dtype, way)
        refused = isinstance(want, Exception)
        if not isinstance(rows, Exception) and not differences(rows, got):
            return Found("works here" if refused else "as its rows", *texts)
    if isinstance(want, Exception):
        return Found("works here" if _REFUSED.search(str(want)) else "no exception", repr(want)[:160], _short(got))
    if (
        "float64" in (dtype, *[g.dtype for g in case.operands])
        and deviations[0].what == "value"
        and not differences(want, got, TOLERANCE["float32"])
    ):
        return Found("more precise", *texts)
    return Found(deviations[0].what, *texts)


def _short(x: Any) -> str:
    return " ".join(str(x).split())[:160]
