"""The files in the repository that are written by code; a test holds them up to date."""

from __future__ import annotations

from pathlib import Path

from docs._build.badge import badge
from docs._build.drawings import drawn

__all__ = ["generated"]

ASSETS = Path(__file__).parent.parent / "assets"


def generated() -> dict[Path, str]:
    """Each file, and what has to be in it."""
    return {ASSETS / name: text for name, text in {**drawn(), "conformance.svg": badge()}.items()}
