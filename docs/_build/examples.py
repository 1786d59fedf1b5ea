"""Examples for names whose docstrings have none; what they print is found when the site is built."""

from __future__ import annotations

__all__ = ["EXAMPLES", "example_of"]

EXAMPLES: dict[str, str] = {}


def example_of(name: str, text: str) -> list[str]:
    return []
