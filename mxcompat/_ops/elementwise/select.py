"""The choice between two arrays in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.policy import MANY_ELEMENTS

__all__ = ["select"]

_INTEGERS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def select(mask: Any, x: Any, y: Any, into: Any = None) -> Any:
    """Return `np.where(mask, x, y)`, computed from the bits of the elements for large arrays.

    `np.where` branches at each element. For a mask without a pattern, half of the branches are mispredicted.

    Args:
        into: `x` or `y`, if it has the shape and dtype of the result and may be overwritten; else None.
    """
    if not (isinstance(mask, np.ndarray) and mask.dtype == bool and mask.size >= MANY_ELEMENTS):
        return np.where(mask, x, y)
    integer = _INTEGERS.get(x.dtype.itemsize)
    if x.dtype != y.dtype or integer is None:
        return np.where(mask, x, y)
    one, other = x.view(integer), y.view(integer)
    chosen = np.negative(mask.view(np.int8)).astype(integer, copy=False)  # a mask with all bits set, or none
    if other.ndim == 0 and not other:
        bits = np.bitwise_and(chosen, one, out=None if into is None else into.view(integer))
    elif into is None:
        bits = (chosen & (one ^ other)) ^ other
    else:
        bits = np.bitwise_xor(chosen & (one ^ other), other, out=into.view(integer))
    return bits.view(y.dtype) if into is None else into
