"""Layout: arrays whose elements do not lie one after the other, as transposed ones, are put in order.

NumPy copies a matrix row by row; of a transposed one each element of a row is in another line of the cache. In tiles it
takes a fifth of the time (`_native/layout.c`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._native import native

from .. import policy

__all__ = ["combined", "contiguous", "reshaped"]


def contiguous(x: np.ndarray) -> np.ndarray:
    """The same array; a copy, if its elements do not lie one after the other."""
    if x.flags.c_contiguous:
        return x
    axis = _axis_for_tiles(x) if native is not None and x.nbytes >= policy.TILED_BYTES else None
    if axis is None:
        return np.ascontiguousarray(x)
    out = np.empty(x.shape, x.dtype)
    words = _WORDS[x.itemsize]
    native.copy_transposed(out.view(words), x.view(words), axis)
    return out


def _axis_for_tiles(x: np.ndarray) -> int | None:
    """The axis along which elements lie one after the other, if it is not the last and long enough; what copying in
    tiles supports."""
    size, strides = x.itemsize, x.strides
    if size not in _WORDS or strides[-1] == size or size not in strides:
        return None
    axis = strides.index(size)
    aligned = all(s % size == 0 for s in strides)
    return axis if aligned and min(x.shape[axis], x.shape[-1]) >= policy.TILED_AXIS else None


_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """The same elements in another shape, without a copy where that is possible."""
    if x.nbytes < policy.TILED_BYTES or x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return contiguous(x).reshape(shape)


def combined(function: Callable[..., Any], x: Any, y: Any, in_place: bool = False) -> Any:
    """An elementwise function of two arrays; where only one of two of a shape lies in order, of a copy of the other.

    Args:
        in_place: whether the copy may be written over: `function` is a ufunc whose result has the arguments' dtype.
    """
    if x.shape != y.shape or x.flags.c_contiguous == y.flags.c_contiguous:
        return function(x, y)
    a, b = contiguous(x), contiguous(y)
    return function(a, b, out=b if a is x else a) if in_place else function(a, b)
