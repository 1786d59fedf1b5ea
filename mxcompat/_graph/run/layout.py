"""Layout: copy operands into a memory order in which NumPy is fast.

NumPy copies a matrix row by row, and in a transposed matrix each element of a row is in another cache line. A copy in
tiles takes a fifth of the time (`_native/layout.c`). So a transposed operand is copied before an op with one that is
not transposed (sum of a transposed 4096x100 matrix and another: 310 us in NumPy, 92 us with the copy).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._native import native

from .. import policy
from .short_rows import by_columns, short_row

__all__ = ["combined", "contiguous", "lie_alike", "reshaped"]


def contiguous(x: np.ndarray) -> np.ndarray:
    """Return the array, or a C-contiguous copy of it."""
    if x.flags.c_contiguous:
        return x
    if x.nbytes < policy.CACHED_BYTES:
        return np.ascontiguousarray(x)
    out = np.empty(x.shape, x.dtype)
    _copy(out, x)
    return out


def _copy(out: np.ndarray, x: np.ndarray) -> None:
    words, least = _WORDS.get(x.itemsize), policy.SHORT_ROW // 2
    if native is None or words is None or not native.copy_transposed(out.view(words), x.view(words), least):
        np.copyto(out, x)


_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Reshape an array, without a copy if possible."""
    if x.nbytes < policy.CACHED_BYTES or x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return contiguous(x).reshape(shape)


def lie_alike(x: Any, y: Any) -> bool:
    """Return True if NumPy can read two arrays together at full speed: not if they have one shape and only one of them
    is stored by rows."""
    return x.shape != y.shape or _lies_in_rows(x) == _lies_in_rows(y)


def _lies_in_rows(x: Any) -> bool:
    return x.flags.c_contiguous or x.strides[-1] in (0, x.itemsize)


def combined(function: Callable[..., Any], x: Any, y: Any, in_place: bool = False) -> Any:
    """Apply an elementwise function to two arrays. If they have one shape and only one is stored by rows, copy the
    other.

    Args:
        in_place: write the result over the copy. `function` must be a ufunc whose result has the operands' dtype.
    """
    if x.shape != y.shape and (count := short_row(x, y)):
        return by_columns(function, x, y, count)
    if lie_alike(x, y):
        return function(x, y)
    if not in_place:
        return function(contiguous(x), contiguous(y))
    if _lies_in_rows(x):
        out = y = contiguous(y)
    else:
        out = x = contiguous(x)
    return function(x, y, out=out)
