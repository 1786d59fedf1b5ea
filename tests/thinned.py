"""Combinations of a test's arguments, of which the default run takes some."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["thinned"]


def thinned(one_in: int, *arguments: Iterable[Any]) -> list[Any]:
    """Every combination of a value for each argument, to parametrize a test with. One in so many is in the default run,
    so spread that each value is there; the others have the marker `exhaustive`."""
    values = [[*a] for a in arguments]
    return [
        pytest.param(*chosen, marks=[] if sum(places) % one_in == 0 else pytest.mark.exhaustive)
        for places, chosen in zip(
            itertools.product(*[range(len(v)) for v in values]), itertools.product(*values), strict=True
        )
    ]
