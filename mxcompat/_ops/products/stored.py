"""Products with matrices that are stored in less than float32: quantized, or of half precision.

C reads the matrices as they are stored (`_native/products.c`), multiplies in float32 and rounds the sums once, without
unpacked copies in memory. If the C code was not built, the callers unpack or cast a matrix first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph.policy import MANY_ELEMENTS, ORDERED_TERMS
from mxcompat._native import native
from mxcompat._native.products import KINDS

__all__ = ["Stored", "as_bytes", "gathered", "multiplied", "multiply_halves"]


class Stored(NamedTuple):
    """Matrices that are contiguous in memory.

    `words`, `scales` and `biases` are arrays with a buffer for C. `units` has a factor for the scales of each matrix.
    `kinds` are C's kinds of elements, scales and biases. `group` elements of a row share a scale.
    """

    words: Any
    scales: Any
    biases: Any
    units: Any
    kinds: tuple[int, int, int]
    group: int
    count: int
    rows: int
    columns: int


def as_bytes(x: Any) -> Any:
    """Return a C-contiguous array with a dtype that C knows: uint16 for half precision."""
    x = np.ascontiguousarray(x)
    return x.view(np.uint16) if x.dtype.itemsize == 2 else x


def dense(matrices: Any) -> Stored:
    """Return matrices of half precision, a C-contiguous array of shape (..., rows, columns), as C reads them."""
    rows, columns = matrices.shape[-2:]
    kind = KINDS[matrices.dtype]
    count = math.prod(matrices.shape[:-2])
    return Stored(as_bytes(matrices), None, None, None, (kind, kind, kind), 0, count, rows, columns)


def multiply_stored(x: Any, matrices: Stored, transposed: bool, dtype: Any, lhs: Any = None, rhs: Any = None) -> Any:
    """Return products with matrices.

    Args:
        x: an array of shape (A, M, K), of float32, bfloat16 or float16.
        matrices: the matrices, with K rows (K columns if `transposed`).
        transposed: multiply by the transposed matrices.
        dtype: the dtype of the result: float32, bfloat16 or float16.
        lhs: the number of the matrix of x for each product; None for all A matrices in turn, or the only one.
        rhs: the same for `matrices`. Numbers out of bounds are clipped.

    Returns:
        An array of shape (products, M, N).
    """
    count, rows, inner = x.shape
    outer = matrices.rows if transposed else matrices.columns
    products = max(count, matrices.count) if lhs is None and rhs is None else len(rhs if lhs is None else lhs)
    out = np.empty((products, rows, outer), dtype)
    kinds = bytes((*matrices.kinds, KINDS[x.dtype], KINDS[out.dtype]))
    native.multiply_stored(
        as_bytes(out), as_bytes(x), *matrices[:4], _numbers(lhs), _numbers(rhs), kinds, transposed, matrices.group,
        inner, outer, matrices.count, count, products, rows,
    )  # fmt: skip
    return out


def _numbers(x: Any) -> Any:
    return x if x is None else np.ascontiguousarray(x, np.int32)


def multiplied(x: Any, matrices: Stored, batch: tuple[int, ...], transposed: bool, dtype: Any) -> Any:
    """Return products with matrices whose leading axes are `batch`. These broadcast against the leading axes of x."""
    if x.ndim == 1:
        return multiplied(x[None], matrices, batch, transposed, dtype)[..., 0, :]
    lead, tail = x.shape[:-2], x.shape[-2:]
    if not batch or not lead:
        out = multiply_stored(x.reshape(1, -1, tail[-1]) if not batch else x[None], matrices, transposed, dtype)
        return out.reshape(*lead, *batch, tail[0], out.shape[-1])
    lhs, rhs = (np.arange(math.prod(axes)).reshape(axes) for axes in (lead, batch))
    return gathered(x, matrices, lhs, rhs, transposed, dtype)


def gathered(x: Any, matrices: Stored, lhs: Any, rhs: Any, transposed: bool, dtype: Any) -> Any:
    """Return products of the matrices with these numbers. `lhs` and `rhs` broadcast against each other."""
    lhs, rhs = np.broadcast_arrays(lhs, rhs)
    x = x.reshape(-1, *x.shape[-2:])
    out = multiply_stored(x, matrices, transposed, dtype, lhs.ravel(), rhs.ravel())
    return out.reshape(*lhs.shape, *out.shape[-2:])


def multiply_halves(x: Any, y: Any, dtype: Any) -> Any:
    """Return `x @ y` in a dtype, computed in C. Return None if C does not have the dtypes, or if no operand is a half-
    precision array that is large enough."""
    if native is None or type(x) is not np.ndarray or type(y) is not np.ndarray or x.shape[-1] <= ORDERED_TERMS:
        return None
    if not (x.dtype in KINDS and y.dtype in KINDS and dtype in KINDS):
        return None
    if y.ndim == 1:
        if not _is_stored(x):
            return None
        return multiply_stored(y[None, None], dense(x.reshape(-1, x.shape[-1])), True, dtype).reshape(x.shape[:-1])
    if not _is_stored(y) or not x.size:
        return None
    turned = y.swapaxes(-1, -2)
    transposed = turned.flags.c_contiguous and not y.flags.c_contiguous
    return multiplied(x, dense(turned if transposed else y), y.shape[:-2], transposed, dtype)


def _is_stored(x: Any) -> bool:
    return x.dtype.itemsize == 2 and x.size >= MANY_ELEMENTS and x.ndim > 1
