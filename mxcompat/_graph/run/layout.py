"""Layout: arrays are put in an order, or cut, in which NumPy is fast.

NumPy copies a matrix row by row; of a transposed one each element of a row is in another line of the cache. In tiles it
takes a fifth of the time (`_native/layout.c`). And it has a loop for each row: rows of two or three elements are
computed with column by column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._native import native

from .. import policy

__all__ = ["combined", "contiguous", "lie_alike", "reduced", "reshaped"]


def contiguous(x: np.ndarray) -> np.ndarray:
    """The same array; a copy, if its elements do not lie one after the other."""
    if x.flags.c_contiguous:
        return x
    if x.nbytes < policy.TILED_BYTES:
        return np.ascontiguousarray(x)
    out = np.empty(x.shape, x.dtype)
    _copy(out, x)
    return out


def _copy(out: np.ndarray, x: np.ndarray) -> None:
    words = _WORDS.get(x.itemsize)
    if native is None or words is None or not native.copy_transposed(out.view(words), x.view(words), policy.TILED_AXIS):
        np.copyto(out, x)


_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """The same elements in another shape, without a copy where that is possible."""
    if x.nbytes < policy.TILED_BYTES or x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return contiguous(x).reshape(shape)


def lie_alike(x: Any, y: Any) -> bool:
    """Whether it is as well to let NumPy read two arrays together: not two of a shape of which one lies in rows."""
    return x.shape != y.shape or _lies_in_rows(x) == _lies_in_rows(y)


def _lies_in_rows(x: Any) -> bool:
    return x.flags.c_contiguous or x.strides[-1] in (0, x.itemsize)


def combined(function: Callable[..., Any], x: Any, y: Any, in_place: bool = False) -> Any:
    """An elementwise function of two arrays; where only one of two of a shape lies in order, of a copy of the other.

    Args:
        in_place: whether the copy may be written over: `function` is a ufunc whose result has the arguments' dtype.
    """
    if x.shape != y.shape and (count := _short_row(x, y)):
        return _by_columns(function, x, y, count)
    if lie_alike(x, y):
        return function(x, y)
    if not in_place:
        return function(contiguous(x), contiguous(y))
    out = np.empty(x.shape, x.dtype)
    rows = max(1, policy.PART_BYTES * len(x) // x.nbytes)
    for start in range(0, len(x), rows):  # a part that is still in the cache when it is read again
        part, a, b = out[start : start + rows], x[start : start + rows], y[start : start + rows]
        if _lies_in_rows(x):
            _copy(part, b)
            function(a, part, out=part)
        else:
            _copy(part, a)
            function(part, b, out=part)
    return out


def _short_row(x: Any, y: Any) -> int:
    """The length of the rows of what two arrays broadcast to, if these are short and NumPy has to take each by itself,
    since one of the arrays has them and is spread along another axis; else 0."""
    (a, b), (c, d) = (1, 1, *x.shape)[-2:], (1, 1, *y.shape)[-2:]
    length = max(b, d)
    apart = (a == 1) != (b == 1) or (c == 1) != (d == 1)
    return length if 1 < length <= policy.SHORT_ROW_OF_TWO and max(a, c) > 1 and apart else 0


def _by_columns(function: Callable[..., Any], x: Any, y: Any, count: int) -> Any:
    first = function(_column(x, 0), _column(y, 0))
    out = np.empty((*first.shape, count), first.dtype)
    out[..., 0] = first
    for k in range(1, count):
        out[..., k] = function(_column(x, k), _column(y, k))
    return out


def _column(x: Any, k: int) -> Any:
    return x if x.ndim == 0 else x[..., k if x.shape[-1] > 1 else 0]


def reduced(ufunc: np.ufunc, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The reduction by a ufunc whose result has the dtype of `x`, to the same bits (but for which of two zeros is the
    extreme); of short rows, column by column, a part of them that stays in the cache at a time."""
    if not _has_short_rows(ufunc, x, axes):
        return ufunc.reduce(x, axes, x.dtype, None, keepdims)
    rows = x.reshape(-1, x.shape[-1])
    out = np.empty(len(rows), x.dtype)
    for start in range(0, len(rows), policy.ROWS_AT_A_TIME):
        _fold(ufunc, rows[start : start + policy.ROWS_AT_A_TIME].T, out[start : start + policy.ROWS_AT_A_TIME])
    return out.reshape((*x.shape[:-1], 1) if keepdims else x.shape[:-1])


def _has_short_rows(ufunc: np.ufunc, x: Any, axes: tuple[int, ...]) -> bool:
    longest = policy.SHORT_ROW if ufunc in (np.add, np.multiply) else policy.SHORT_ROW_OF_CHOICES
    return (
        len(axes) == 1 and axes[0] in (-1, x.ndim - 1) and 1 < x.shape[-1] <= longest
        and x.size >= policy.FEW_ROWS * x.shape[-1] and x.flags.c_contiguous and x.dtype.kind in "bfiu"
    )  # fmt: skip


def _fold(ufunc: np.ufunc, columns: Any, out: Any) -> None:
    if ufunc is np.add and len(columns) == 8:  # which NumPy adds up like this
        columns = columns[::2] + columns[1::2]
        columns = columns[::2] + columns[1::2]
    ufunc(columns[0], columns[1], out=out)
    for column in columns[2:]:
        ufunc(out, column, out=out)
