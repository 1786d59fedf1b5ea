"""Ops: one record each, in a folder per family. Importing this package attaches the methods and operators of `array`,
and gives the ops their rules."""

from __future__ import annotations

from . import methods, padding_rules
from .conv import host as conv_host
from .conv import host_signal
from .creation import filled, ranges
from .elementwise import arithmetic, bitwise, casts, comparison, unary
from .fast import attention
from .fft import host as fft_host
from .indexing import subscript
from .linalg import batch as linalg_batch
from .linalg import host as linalg_host
from .linalg import pullback as linalg_pullback
from .movement import arrange, diagonals, host, joining, shape, transposition
from .products import batch as products_batch
from .products import host as products_host
from .products import host_einsum, host_gathered, matmul
from .products import pullback as products_pullback
from .quantized import batch as quantized_batch
from .quantized import host as quantized_host
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
