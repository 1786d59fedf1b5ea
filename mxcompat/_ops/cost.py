"""Estimated run times in NumPy for ops that do more than read and write each element a few times.

The figures are rough. The scheduler uses them only to decide whether NumPy is far too slow: see `_graph/policy.py`.
"""

from __future__ import annotations

import math
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import COST
from mxcompat._graph.policy import BYTE_SECONDS, FLOP_SECONDS, MEASURED_PRODUCTS, OP_SECONDS, SAMPLE_SIZE
from mxcompat._native import native

from .define import TABLE

__all__ = ["product_cost", "products_seconds", "quantized_cost"]


def products_seconds(count: float) -> float:
    """Return the estimated time of matrix products with this number of multiplications."""
    return count * (FLOP_SECONDS if count < MEASURED_PRODUCTS else _measured_seconds())


@cache
def _measured_seconds() -> float:
    """Return the time of a multiplication in a matrix product on this machine, and `FLOP_SECONDS` at most, because
    other processes may have disturbed the measurement."""
    matrix = np.ones((SAMPLE_SIZE, SAMPLE_SIZE), np.float32)
    times = []
    for _ in range(3):
        start = perf_counter()
        matrix.dot(matrix)
        times.append(perf_counter() - start)
    return min(FLOP_SECONDS, min(times) / SAMPLE_SIZE**3)


def product_cost(out: Any, params: tuple, x: Any, *others: Any) -> float:
    """Return the cost of an op whose result elements are sums over the last axis of the first operand."""
    return OP_SECONDS + products_seconds(out.size * (x.shape[-1] if x.ndim else 1))


def quantized_cost(out: Any, params: tuple, x: Any, w: Any, *others: Any) -> float:
    """Return the cost of a product with a quantized matrix. C multiplies by the packed words; NumPy unpacks them first,
    in about 20 passes."""
    unpacking = 0.0 if native is not None else w.size * 8 * 20 * BYTE_SECONDS
    return 10 * OP_SECONDS + unpacking + product_cost(out, params, x)


@COST.of(*[TABLE[name] for name in ("sort", "argsort", "partition", "argpartition", "topk", "median", "unique")])
def _sorted(out: Any, params: tuple, x: Any, *others: Any) -> float:
    """Return the cost of a sort. Vector instructions sort 32-bit numbers, and half precision is sorted as float32."""
    fast = (x.dtype._kind == "f" and x.dtype.size <= 4) or (x.dtype._kind in "iu" and x.dtype.size == 4)
    each = 1e-8 if fast else 5e-9 * math.log2(x.size + 2)
    return OP_SECONDS + each * x.size
