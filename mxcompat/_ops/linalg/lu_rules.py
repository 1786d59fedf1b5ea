"""Rules of LU factors and determinants: NumPy, derivatives and batching.

NumPy has no routine for LU factors. They are computed column by column, for all matrices of a batch together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import BATCH, COST, HOST, LAPACK, PULLBACK, PUSHFORWARD
from mxcompat._graph.policy import BYTE_SECONDS, OP_SECONDS

from ..products.contraction import rounded, widened
from .lapack import batch_matrices, cubic_cost, or_xla, swapped, wide
from .lu import DET, LU, LU_FACTOR, SLOGDET

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


@HOST.of(LU_FACTOR)
@or_xla
def _host_lu_factor(out: Any, params: tuple, a: Any) -> Any:
    return _factored(a)


def _places(pivots: Any, m: int) -> Any:
    """Return the new position of each row after the swaps."""
    rows = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).reshape(-1, m).copy()
    for k, others in enumerate(pivots.reshape(-1, pivots.shape[-1]).T):
        _exchange(rows, k, others)
    return np.argsort(rows, -1).astype(np.uint32).reshape(*pivots.shape[:-1], m)


@HOST.of(LU)
@or_xla
def _host_lu(out: Any, params: tuple, a: Any) -> Any:
    both, pivots = _factored(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = np.tril(both[..., :k], -1) + np.eye(m, k, dtype=a.dtype)
    return _places(pivots, m), lower, np.triu(both[..., :k, :])


@COST.of(LU_FACTOR, LU)
def _lu_cost(out: Any, params: tuple, x: Any) -> float:
    columns = min(x.shape[-2:])
    return columns * (10 * OP_SECONDS + 2 * BYTE_SECONDS * x.dtype.size * x.size)


LAPACK.update((LU_FACTOR, LU))


@HOST.of(DET)
@or_xla
def _host_det(out: Any, params: tuple, a: Any) -> Any:
    return rounded(np.linalg.det(wide(a)), out.dtype._numpy)


@PULLBACK.of(DET)
@or_xla
def _pull_det(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    inverse = np.linalg.inv(widened(a, a.dtype))
    return ((g * y)[..., None, None] * swapped(inverse),)


def _trace_of(inverse: Any, t: Any) -> Any:
    """Return the trace of the product of two matrices."""
    return (swapped(inverse) * t).sum((-1, -2))


@PUSHFORWARD.of(DET)
@or_xla
def _push_det(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return y * _trace_of(np.linalg.inv(widened(a, a.dtype)), tangents[0])


@HOST.of(SLOGDET)
@or_xla
def _host_slogdet(out: Any, params: tuple, a: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(wide(a))
    if a.shape[-1] <= 3:  # MLX computes small determinants by formulas, without pivots
        sign = np.where(np.isnan(logarithm), 0, sign)
    return tuple([rounded(x, o.dtype._numpy) for x, o in zip((sign, logarithm), out, strict=True)])


@PULLBACK.of(SLOGDET)
@or_xla
def _pull_slogdet(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    if g[1] is None:
        return (None,)
    return (g[1][..., None, None] * swapped(np.linalg.inv(widened(a, a.dtype))),)


@PUSHFORWARD.of(SLOGDET)
@or_xla
def _push_slogdet(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return None, _trace_of(np.linalg.inv(widened(a, a.dtype)), tangents[0]).real


BATCH.of(LU_FACTOR, LU, DET, SLOGDET)(batch_matrices)


COST.of(DET, SLOGDET)(cubic_cost)
LAPACK.update((DET, SLOGDET))
