"""Broadcasting in NumPy, and the sum that takes a cotangent back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._graph.policy import CALL_BYTES
from mxcompat._graph.run.values import in_order

from ..indexing.rows import wide

__all__ = ["spread", "unspread"]


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Return `x` broadcast to a shape. The result must not be written to."""
    if x.shape == shape:
        return x
    if math.prod(shape) * x.dtype.itemsize > CALL_BYTES:
        return np.broadcast_to(x, shape)
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


def unspread(g: Any, shape: tuple[int, ...]) -> Any:
    """Return the cotangent of an array with this shape, from the cotangent of its broadcast result."""
    g = in_order(wide(g))
    if g.ndim > len(shape):
        g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    axes = tuple([k for k, (n, m) in enumerate(zip(g.shape, shape[len(shape) - g.ndim :], strict=True)) if m == 1 != n])
    return (g.sum(axis=axes, keepdims=True) if axes else g).reshape(shape)
