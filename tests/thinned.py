"""Combinations of a test's arguments; the default run takes some of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["thinned"]


def thinned(one_in: int, *arguments: Iterable[Any]) -> list[Any]:
    """Return every combination of a value for each argument, to parametrize a test with.

    One in `one_in` runs by default, spread so that each value occurs; the others have the marker `exhaustive`.
    """
    return [
        pytest.param(
            *(value for _, value in chosen),
            marks=[] if sum(place for place, _ in chosen) % one_in == 0 else pytest.mark.exhaustive,
        )
        for chosen in itertools.product(*map(enumerate, arguments))
    ]
