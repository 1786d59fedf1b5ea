"""Ops: one record each, in a folder per family. Importing this package attaches the methods and operators of `array`,
and gives the ops their rules."""

from __future__ import annotations

from . import methods, rules
from .elementwise import arithmetic, bitwise, casts, comparison, unary
from .indexing import subscript
from .movement import diagonals, joining, shape, transposition
from .products import matmul
from .reductions import extremes, reduce, scans, statistics

_FAMILIES = (
    arithmetic, bitwise, casts, comparison, diagonals, extremes, joining, matmul, reduce, scans, shape, statistics,
    transposition, unary,
)  # fmt: skip
"""Those with functions that are methods or operators too."""

methods.attach({name: getattr(family, name) for family in _FAMILIES for name in family.__all__})
subscript.attach()
