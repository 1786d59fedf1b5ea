"""Descriptions of products with stored matrices for `products.c`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["KINDS", "product_numbers"]

KINDS: dict[Any, int] = {
    **{bits: number for number, bits in enumerate((1, 2, 3, 4, 5, 6, 8))},
    "e2m1": 7, "e4m3": 8, "e8m0": 12,
    np.dtype(ml_dtypes.bfloat16): 9, np.dtype(np.float16): 10, np.dtype(np.float32): 11,
}  # fmt: skip
"""C's kinds of elements: integer codes by their bits, small floats by their names, and floats by their dtypes."""


def product_numbers(
    kind: int,
    scale_kind: int,
    transposed: bool,
    group: int,
    sizes: Sequence[int],
    present: Sequence[bool] = (False,) * 3,
) -> np.ndarray:
    """Return the numbers that C reads when XLA calls it, see `ffi.c`.

    Args:
        kind, scale_kind: C's kinds of the elements of the matrices, and of scales that are codes.
        sizes: fields of `Product` in kernels.h: inner, outer, matrices, x_matrices, products, rows.
        present: whether the call has units, lhs and rhs.
    """
    return np.array([kind, scale_kind, *present, transposed, group, *sizes], np.int64)
