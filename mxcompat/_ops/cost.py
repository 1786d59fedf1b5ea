"""Estimated run times in NumPy for ops that do more than read and write each element a few times.

The figures are rough. The scheduler uses them only to decide whether NumPy is far too slow: see `_graph/policy.py`.
"""

from __future__ import annotations

import math
from typing import Any

from mxcompat._graph.ir.rules import COST, LAPACK
from mxcompat._graph.policy import BYTE_SECONDS, FLOP_SECONDS, OP_SECONDS
from mxcompat._native import native

from .define import TABLE
from .linalg.norm import NORM

__all__: list[str] = []


def _product(out: Any, params: tuple, x: Any, *others: Any) -> float:
    """Return the cost of an op whose result elements are sums over the last axis of the first operand."""
    return OP_SECONDS + FLOP_SECONDS * out.size * (x.shape[-1] if x.ndim else 1)


def _convolution(out: Any, params: tuple, x: Any, w: Any, *others: Any) -> float:
    """Return the cost of a convolution. C reads the inputs where they are; NumPy copies them to patches first."""
    copies = 0.0 if native is not None else BYTE_SECONDS
    return 10 * OP_SECONDS + (FLOP_SECONDS + copies) * out.size * math.prod(w.shape[1:])


def _attention(out: Any, params: tuple, q: Any, k: Any, *others: Any) -> float:
    scores = math.prod(q.shape[:-1]) * k.shape[-2]
    return 10 * OP_SECONDS + scores * (2 * FLOP_SECONDS * q.shape[-1] + 20 * BYTE_SECONDS)


def _cubic(out: Any, params: tuple, x: Any, *others: Any) -> float:
    return 10 * OP_SECONDS + 10 * FLOP_SECONDS * x.size * (x.shape[-1] if x.ndim else 1)


def _by_columns(out: Any, params: tuple, x: Any) -> float:
    columns = min(x.shape[-2:])
    return columns * (10 * OP_SECONDS + 2 * BYTE_SECONDS * x.dtype.size * x.size)


def _sorted(out: Any, params: tuple, x: Any, *others: Any) -> float:
    """Return the cost of a sort. Vector instructions sort 32-bit numbers, and half precision is sorted as float32."""
    fast = (x.dtype._kind == "f" and x.dtype.size <= 4) or (x.dtype._kind in "iu" and x.dtype.size == 4)
    each = 1e-8 if fast else 5e-9 * math.log2(x.size + 2)
    return OP_SECONDS + each * x.size


def _quantized(out: Any, params: tuple, x: Any, w: Any, *others: Any) -> float:
    """Return the cost of a product with a quantized matrix. C multiplies by the packed words; NumPy unpacks them first,
    in about 20 passes."""
    unpacking = 0.0 if native is not None else w.size * 8 * 20 * BYTE_SECONDS
    return 10 * OP_SECONDS + unpacking + _product(out, params, x)


for _rule, _names in (
    (_product, ("matmul", "addmm", "gather_mm", "inner", "tensordot", "block_masked_mm", "segmented_mm")),
    (_convolution, ("conv",)),
    (_attention, ("scaled_dot_product_attention",)),
    (_cubic, ("linalg_inv", "linalg_svd", "linalg_qr", "linalg_eigh", "linalg_eig", "linalg_cholesky", "linalg_solve")),
    (_cubic, ("linalg_singular_values", "linalg_eigvalsh", "linalg_eigvals", "linalg_det", "linalg_slogdet")),
    (_cubic, ("linalg_pinv", "linalg_tri_inv", "linalg_cholesky_inv", "linalg_solve_triangular")),
    (_by_columns, ("linalg_lu", "linalg_lu_factor")),
    (_sorted, ("sort", "argsort", "partition", "argpartition", "topk", "median", "unique")),
    (_quantized, ("quantized_matmul", "quantized_matmul_fp", "gather_qmm", "gather_qmm_fp", "qqmm", "gather_qqmm")),
):
    COST.of(*[TABLE[name] for name in _names])(_rule)

LAPACK.update(op for op, _rule in COST.items() if _rule in (_cubic, _by_columns))
LAPACK.add(NORM)
