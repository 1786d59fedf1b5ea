"""LU factors in NumPy, which has no routine for them: column by column, all the matrices of a batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import HOST

from .host import or_xla
from .lu import LU, LU_FACTOR

__all__: list[str] = []


def _factored(a: Any) -> tuple[Any, Any]:
    """Both factors in one array, and the row that each row was exchanged with; None for what has NaNs."""
    *batch, m, n = a.shape
    both = a.reshape(-1, m, n).copy()
    every = np.arange(len(both))
    pivots = np.empty((len(both), min(m, n)), np.uint32)
    for k in range(min(m, n)):
        largest = k + np.abs(both[:, k:, k]).argmax(1)
        pivots[:, k] = largest
        rows = both[every, largest]
        both[every, largest] = both[:, k]
        both[:, k] = rows
        divisor = np.where(rows[:, k] == 0, 1, rows[:, k])  # the column is zero then
        both[:, k + 1 :, k] /= divisor[:, None]
        both[:, k + 1 :, k + 1 :] -= both[:, k + 1 :, k, None] * both[:, None, k, k + 1 :]
    return both.reshape(a.shape), pivots.reshape(*batch, -1)


def _places(pivots: Any, m: int) -> Any:
    """Where each row has gone, once the exchanges are made."""
    found = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).reshape(-1, m).copy()
    every = np.arange(len(found))
    for k, others in enumerate(pivots.reshape(-1, pivots.shape[-1]).T):
        rows = found[every, others]
        found[every, others] = found[:, k]
        found[:, k] = rows
    return np.argsort(found, -1).astype(np.uint32).reshape(*pivots.shape[:-1], m)


@HOST.of(LU_FACTOR)
@or_xla
def _host_lu_factor(out: Any, params: tuple, a: Any) -> Any:
    return _factored(a) if np.isfinite(a).all() else None


@HOST.of(LU)
@or_xla
def _host_lu(out: Any, params: tuple, a: Any) -> Any:
    if not np.isfinite(a).all():
        return None
    both, pivots = _factored(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = np.tril(both[..., :k], -1) + np.eye(m, k, dtype=a.dtype)
    return _places(pivots, m), lower, np.triu(both[..., :k, :])
