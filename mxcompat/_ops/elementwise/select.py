"""What NumPy makes of a choice between two arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.policy import SELECTED_ELEMENTS

__all__ = ["select"]

_INTEGERS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def select(mask: Any, x: Any, y: Any, into: Any = None) -> Any:
    """`np.where`, which branches at each element: where the mask has no pattern it waits for half of these branches.
    The bits of many elements are combined instead.

    Args:
        into: `x` or `y`, of the result's shape and dtype, if that may be written over; else None.
    """
    if not (isinstance(mask, np.ndarray) and mask.dtype == bool and mask.size >= SELECTED_ELEMENTS):
        return np.where(mask, x, y)
    integer = _INTEGERS.get(x.dtype.itemsize)
    if x.dtype != y.dtype or integer is None:
        return np.where(mask, x, y)
    one, other = x.view(integer), y.view(integer)
    chosen = np.negative(mask.view(np.int8)).astype(integer, copy=False)  # all bits, or none
    if other.ndim == 0 and not other:
        bits = np.bitwise_and(chosen, one, out=None if into is None else into.view(integer))
    elif into is None:
        bits = (chosen & (one ^ other)) ^ other
    else:
        bits = np.bitwise_xor(chosen & (one ^ other), other, out=into.view(integer))
    return bits.view(y.dtype) if into is None else into
