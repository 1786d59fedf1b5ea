"""Ops: one record for each op, in one folder for each family.

The import of this package adds the methods and operators to `array` and registers the rules of the ops.
"""

from __future__ import annotations

from . import all_rules, methods
from .elementwise import arithmetic, bitwise, casts, comparison, unary
from .indexing import subscript
from .movement import diagonals, joining, shape, transposition
from .products import matmul
from .reductions import extremes, reduce, scans, statistics

_FAMILIES = (
    arithmetic, bitwise, casts, comparison, diagonals, extremes, joining, matmul, reduce, scans, shape, statistics,
    transposition, unary,
)  # fmt: skip
"""The modules with functions that are also methods or operators."""

methods.attach({name: getattr(family, name) for family in _FAMILIES for name in family.__all__})
subscript.attach()
