"""The files in the repository that are written by code; a test holds them up to date."""

from __future__ import annotations

from pathlib import Path

from docs._build.badge import badge
from docs._build.drawings import drawn
from tests.benchmarks.report import files

__all__ = ["generated"]

DOCS = Path(__file__).parent.parent


def generated() -> dict[Path, str]:
    """Each file, and what has to be in it."""
    made = {f"assets/{name}": text for name, text in {**drawn(), "conformance.svg": badge()}.items()}
    made |= {f"benchmarks/{name}": text for name, text in files(DOCS / "benchmarks").items()}
    return {DOCS / name: text for name, text in made.items()}
