"""Products of selected matrices with selected quantized matrices in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._native.products import KINDS

from ..products.contraction import chosen, clipped, rounded, widened
from ..products.stored import Stored, gathered

__all__ = ["Selected", "flattened"]


def flattened(a: Any) -> Any:
    return a if a is None else a.reshape(-1, *a.shape[-2:])


class Selected:
    """Products of selected matrices of x with selected quantized matrices.

    Args:
        lhs, rhs: the numbers of the selected matrices, or None for all matrices in place.
        build: returns the unpacked matrix with a number.
        batch: the leading axes of the quantized matrices.
        shape: the shape of each quantized matrix as right operand.
        matrices: all matrices as C reads them, or None if C cannot.
        transpose: multiply by the transposed matrices.
    """

    def __init__(
        self, lhs: Any, rhs: Any, build: Any, batch: tuple[int, ...], shape: tuple[int, int],
        matrices: Stored | None, transpose: bool,
    ) -> None:  # fmt: skip
        self.count = math.prod(batch)
        self.lhs, self.build, self.shape = lhs, build, shape
        self.matrices, self.transpose = matrices, transpose
        self.rhs = np.arange(self.count).reshape(batch) if rhs is None else clipped(rhs, self.count)

    def rows(self, x: Any) -> Any:
        """Return, for each product, the position of its left matrix among the matrices of x."""
        count = math.prod(x.shape[:-2])
        return np.arange(count).reshape(x.shape[:-2]) if self.lhs is None else clipped(self.lhs, count)

    def product(self, x: Any, dtype: Any) -> Any:
        """Return the products in a dtype. x is first cast to this dtype, unless C reads x as it is."""
        if self.matrices is not None:
            x = x if x.dtype in KINDS else x.astype(dtype)
            return gathered(x, self.matrices, self.rows(x), self.rhs, self.transpose, dtype)
        x = widened(x, dtype)
        return rounded(chosen(flattened(x)[self.rows(x)], self.rhs, self.build, self.count, self.shape), dtype)

    def pull(self, g: Any, x: Any) -> Any:
        """Return the cotangent of x."""
        lead = g.shape[:-2]
        inner, columns = self.shape
        rhs = np.broadcast_to(self.rhs, lead)
        if self.matrices is not None:
            numbers = np.arange(rhs.size).reshape(lead)
            back = gathered(g, self.matrices, numbers, rhs, not self.transpose, g.dtype)
        else:
            back = chosen(g, rhs, lambda k: self.build(k).T, self.count, (columns, inner))
        gx = np.zeros((math.prod(x.shape[:-2]), *x.shape[-2:]), g.dtype)
        np.add.at(gx, np.broadcast_to(self.rows(x), lead).ravel(), flattened(back))
        return gx.reshape(x.shape)
