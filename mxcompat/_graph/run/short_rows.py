"""Short rows: work by columns on arrays with rows of a few elements, because NumPy runs one loop for each row.

Two arrays are combined, and rows are reduced, column by column. A reduction along an axis before a short last axis is
done in C (`_native/rows.c`), in NumPy's order of summation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._native import native

from .. import policy

__all__ = ["by_columns", "reduced", "short_row"]


def short_row(x: Any, y: Any) -> int:
    """Return the row length of two arrays' broadcast result if NumPy would need a loop for each of its short rows, and
    otherwise 0. NumPy needs it if one of the arrays has such rows and the other is broadcast along them."""
    (a, b), (c, d) = (1, 1, *x.shape)[-2:], (1, 1, *y.shape)[-2:]
    length = max(b, d)
    apart = (a == 1) != (b == 1) or (c == 1) != (d == 1)
    return length if 1 < length <= policy.SHORT_ROW // 2 and max(a, c) > 1 and apart else 0


def by_columns(function: Callable[..., Any], x: Any, y: Any, count: int) -> Any:
    first = function(_column(x, 0), _column(y, 0))
    out = np.empty((*first.shape, count), first.dtype)
    out[..., 0] = first
    for k in range(1, count):
        out[..., k] = function(_column(x, k), _column(y, k))
    return out


def _column(x: Any, k: int) -> Any:
    return x if x.ndim == 0 else x[..., k if x.shape[-1] > 1 else 0]


def reduced(ufunc: np.ufunc, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Reduce `x` by a ufunc whose result has the dtype of `x`. The bits are NumPy's, except for the sign of a zero that
    is a minimum or maximum."""
    if not axes or x.size < policy.MANY_ROWS or not x.flags.c_contiguous:
        return ufunc.reduce(x, axes, x.dtype, None, keepdims)
    first, last = min(axes) % x.ndim, max(axes) % x.ndim
    result = None
    if last - first == len(axes) - 1:
        if _is_of_short_rows(ufunc, x, first):
            result = _rows(ufunc, x)
        elif native is not None and ufunc in _IN_C:
            result = _before_short_rows(ufunc, x, first, last + 1)
    if result is None:
        return ufunc.reduce(x, axes, x.dtype, None, keepdims)
    return result.reshape((*x.shape[:first], *([1] * len(axes) if keepdims else []), *x.shape[last + 1 :]))


_IN_C = {np.add: 0, np.maximum: 1, np.minimum: 2, np.multiply: 3, np.logical_or: 1, np.logical_and: 2}
"""The ufuncs' numbers in C. The last two are for bools only."""


def _before_short_rows(ufunc: np.ufunc, x: Any, start: int, stop: int) -> Any:
    """Reduce along the axes from `start` to `stop` in C. Return None if NumPy should do it."""
    length = math.prod(x.shape[stop:])
    if not 1 < length <= policy.VECTOR_ELEMENTS:
        return None
    blocks = math.prod(x.shape[:start])
    out = np.empty((blocks, length), x.dtype)
    rows = x.reshape(blocks, -1, length)
    if x.dtype.kind == "b":  # reduced with NumPy's "or" and "and"
        return out if native.reduce_rows(out.view(np.uint8), rows.view(np.uint8), _IN_C[ufunc]) else None
    return out if native.reduce_rows(out, rows, _IN_C[ufunc]) else None


def _is_of_short_rows(ufunc: np.ufunc, x: Any, axis: int) -> bool:
    longest = policy.SHORT_ROW if ufunc in (np.add, np.multiply) else policy.VECTOR_ELEMENTS
    length = x.shape[-1]
    return (
        axis == x.ndim - 1 and 1 < length <= longest and x.size >= policy.MANY_ROWS * length and x.dtype.kind in "bfiu"
    )


def _rows(ufunc: np.ufunc, x: Any) -> Any:
    """Reduce short rows column by column, in blocks of rows that fit into the processor's cache."""
    rows = x.reshape(-1, x.shape[-1])
    out = np.empty(len(rows), x.dtype)
    for start in range(0, len(rows), policy.CACHED_ELEMENTS):
        _fold(ufunc, rows[start : start + policy.CACHED_ELEMENTS].T, out[start : start + policy.CACHED_ELEMENTS])
    return out


def _fold(ufunc: np.ufunc, columns: Any, out: Any) -> None:
    if ufunc is np.add and len(columns) == 8:  # pair the columns in the order in which NumPy adds rows of 8
        columns = columns[::2] + columns[1::2]
        columns = columns[::2] + columns[1::2]
    ufunc(columns[0], columns[1], out=out)
    for column in columns[2:]:
        ufunc(out, column, out=out)
    if ufunc is np.add:
        np.add(out, 0, out=out)  # NumPy's sums start at 0, so a sum of -0.0 is 0
