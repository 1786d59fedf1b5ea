"""Ops: one record each, in a file per family. Importing this package attaches the methods and operators of `array`."""

from __future__ import annotations

from . import (  # fmt: skip
    arithmetic,
    bitwise,
    casts,
    comparison,
    diagonals,
    elementwise,
    growing_rules,
    hosted,
    indexing,
    joining,
    matmul,
    methods,
    reductions,
    scans,
    shape,
    statistics,
    transposition,
)

_FAMILIES = (
    arithmetic, bitwise, casts, comparison, diagonals, elementwise, joining, matmul, reductions, scans, shape,
    statistics, transposition,
)  # fmt: skip
"""Those with functions that are methods or operators too."""

methods.attach({name: getattr(family, name) for family in _FAMILIES for name in family.__all__})
indexing.attach()
growing_rules.attach()
hosted.attach()
