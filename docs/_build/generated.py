"""The files in the repository that are written by code; a test checks that they are current."""

from __future__ import annotations

from pathlib import Path

from docs._build.badge import badge
from docs._build.drawings import drawn
from tests.benchmarks.report import files

__all__ = ["generated"]

DOCS = Path(__file__).parent.parent


def generated() -> dict[Path, str]:
    """Return the content of each file."""
    made = {f"assets/{name}": text for name, text in {**drawn(), "conformance.svg": badge()}.items()}
    made |= {f"benchmarks/{name}": text for name, text in files(DOCS / "benchmarks").items()}
    return {DOCS / name: text for name, text in made.items()}
