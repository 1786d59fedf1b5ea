"""LU factors in NumPy, which has no routine for them: column by column, for all matrices of a batch together."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import HOST

from .host import or_xla
from .lu import LU, LU_FACTOR

__all__: list[str] = []


def _exchange(x: Any, k: int, others: Any) -> None:
    """Swap row k of each matrix with another row."""
    every = np.arange(len(x))
    rows = x[every, others]
    x[every, others] = x[:, k]
    x[:, k] = rows


def _largest(column: Any) -> Any:
    """Return the position of the largest number in each column, as LAPACK finds it: a NaN is skipped, unless it is
    first."""
    none = np.isnan(column)
    if none.any():
        column = np.where(none, np.where(np.arange(column.shape[1]) == 0, np.inf, -1), column)
        column[none[:, 0], 1:] = -1  # this also finds an infinity
    return column.argmax(1)


def _factored(a: Any) -> tuple[Any, Any]:
    """Return both factors in one array, and for each row the row that it was swapped with."""
    *batch, m, n = a.shape
    both = a.reshape(-1, m, n).copy()
    pivots = np.empty((len(both), min(m, n)), np.uint32)
    for k in range(min(m, n)):
        largest = k + _largest(np.abs(both[:, k:, k]))
        pivots[:, k] = largest
        _exchange(both, k, largest)
        pivot = both[:, k, k]
        divisor = np.where(pivot == 0, 1, pivot)  # if the pivot is 0, all of the column is 0
        both[:, k + 1 :, k] /= divisor[:, None]
        both[:, k + 1 :, k + 1 :] -= both[:, k + 1 :, k, None] * both[:, None, k, k + 1 :]
    return both.reshape(a.shape), pivots.reshape(*batch, -1)


def _places(pivots: Any, m: int) -> Any:
    """Return the new position of each row after the swaps."""
    rows = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).reshape(-1, m).copy()
    for k, others in enumerate(pivots.reshape(-1, pivots.shape[-1]).T):
        _exchange(rows, k, others)
    return np.argsort(rows, -1).astype(np.uint32).reshape(*pivots.shape[:-1], m)


@HOST.of(LU_FACTOR)
@or_xla
def _host_lu_factor(out: Any, params: tuple, a: Any) -> Any:
    return _factored(a)


@HOST.of(LU)
@or_xla
def _host_lu(out: Any, params: tuple, a: Any) -> Any:
    both, pivots = _factored(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = np.tril(both[..., :k], -1) + np.eye(m, k, dtype=a.dtype)
    return _places(pivots, m), lower, np.triu(both[..., :k, :])
