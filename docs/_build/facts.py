"""What can be measured of a name."""

from __future__ import annotations

__all__ = ["facts_of"]


def facts_of(name: str) -> list[str]:
    return []
