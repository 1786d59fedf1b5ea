"""Check that two sides of a benchmark compute the same result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["agree", "digest"]

_ALL = 16
"""Arrays of at most this many elements are their own digests."""


def digest(value: Any) -> list[float]:
    """Return numbers that represent a value, to compare it and to pass it between processes.

    Args:
        value: None, a number, a string, an array (evaluated, of real numbers), or lists and dicts of these.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [float(code) for code in value.encode()]
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in digest(value[key])]
    if isinstance(value, list | tuple):
        return [number for item in value for number in digest(item)]
    array = np.asarray(value).astype(np.float64).ravel()
    if array.size <= _ALL:
        return array.tolist()
    order = np.cos(np.arange(array.size))  # the weights make the digest depend on the order
    return [float(array.size), float(np.linalg.norm(array)), float(array @ order)]


def agree(ours: list[float], theirs: list[float], tolerance: float = 1e-3) -> bool:
    """Return True if two digests are equal up to rounding. Infinities must agree exactly."""
    return len(ours) == len(theirs) and all(
        a == b or (math.isfinite(a) and abs(a - b) <= tolerance * (1 + abs(b)))
        for a, b in zip(ours, theirs, strict=True)
    )
