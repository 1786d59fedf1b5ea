"""Ops: one record each, in a folder per family. Importing this package attaches the methods and operators of `array`,
and gives the ops their rules."""

from __future__ import annotations

from . import methods, padding_rules
from .creation import batch as creation_batch
from .creation import filled, ranges
from .creation import host as creation_host
from .elementwise import arithmetic, bitwise, casts, comparison, unary
from .fast import attention
from .indexing import batch as indexing_batch
from .indexing import host as indexing_host
from .indexing import pullback as indexing_pullback
from .indexing import subscript
from .movement import arrange, diagonals, host, joining, shape, transposition
from .movement import batch as movement_batch
from .movement import pullback as movement_pullback
from .products import matmul
from .quantized import matmul as quantized_matmul
from .reductions import reduce, scans, softmax, statistics

_FAMILIES = (
    arithmetic, bitwise, casts, comparison, diagonals, joining, matmul, reduce, scans, shape, statistics,
    transposition, unary,
)  # fmt: skip
"""Those with functions that are methods or operators too."""

methods.attach({name: getattr(family, name) for family in _FAMILIES for name in family.__all__})
subscript.attach()
padding_rules.attach()
host.attach()
