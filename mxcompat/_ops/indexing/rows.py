"""In-place updates of the rows of a matrix with NumPy. If several updates hit one row, each counts, in order.

Every read or write at index arrays, in any number of dimensions, reduces to rows of a matrix (see `places`). The
derivative of a read is an update of this kind, if the read returns an element more than once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.policy import MANY_ROWS

__all__ = ["accumulate", "update_rows", "wide"]

_UFUNCS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def wide(x: Any) -> Any:
    """Return float16 and bfloat16 as float32, for sums."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def update_rows(mode: str, matrix: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Apply `matrix[rows] op= values`: every occurrence of a row counts, and for "set" the last one wins.

    Half precision is rounded after each update, as in MLX and in XLA.

    Args:
        mode: "set", "add", "multiply", "maximum" or "minimum".
        matrix: (N, R), contiguous; it is overwritten.
        rows: (M,), contiguous int64 from 0 to N - 1.
        values: (M, R), with the dtype of the matrix.
    """
    if mode == "set":
        matrix[rows] = values
        return
    ufunc = _UFUNCS[mode]
    if matrix.dtype.kind == "b" and mode in ("add", "multiply"):
        ufunc = np.maximum if mode == "add" else np.minimum
    width = matrix.shape[1]
    if width == 1:
        ufunc.at(matrix.reshape(-1), rows, values.reshape(-1))
    elif width < MANY_ROWS and len(rows) > 1:
        ufunc.at(matrix.reshape(-1), (rows[:, None] * width + np.arange(width)).reshape(-1), values.reshape(-1))
    else:
        for row, value in zip(rows.tolist(), values, strict=True):
            there = matrix[row]
            ufunc(there, value, out=there)


def accumulate(shape: tuple[int, ...], places: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the cotangent of an array with this shape whose elements were read at these flat places: the sums of
    `g`."""
    out = np.zeros((int(np.prod(shape, dtype=np.int64)), 1), g.dtype)
    update_rows("add", out, np.ascontiguousarray(places, np.intp).reshape(-1), g.reshape(-1, 1))
    return out.reshape(shape)
