"""Rules of `qr`, `svd` and `cholesky`: NumPy, derivatives, batching and failures."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import BATCH, COST, HOST, LAPACK, PULLBACK, PUSHFORWARD

from .decompositions import CHOLESKY, QR, SINGULAR_VALUES, SVD
from .failures import SVD_FAILED, fails, holds_nan
from .lapack import batch_matrices, cubic_cost, dot, lapack, or_xla, swapped

__all__: list[str] = []


@HOST.of(QR)
@or_xla
def _host_qr(out: Any, params: tuple, a: Any) -> Any:
    return tuple(np.linalg.qr(a))


@HOST.of(SVD)
@or_xla
def _host_svd(out: Any, params: tuple, a: Any) -> Any:
    factors = lapack("svd_f", swapped(a), "x->xrx")
    if factors is None:
        return None
    v, s, uh = factors
    return swapped(uh), s, swapped(v)


@HOST.of(SINGULAR_VALUES)
@or_xla
def _host_singular_values(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.svd(a, compute_uv=False)


for _op in (SVD, SINGULAR_VALUES):
    fails(_op, SVD_FAILED, lambda _, a: holds_nan(a))


@HOST.of(CHOLESKY)
@or_xla
def _host_cholesky(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.cholesky(a, upper=params[0])


def _halved(x: Any) -> Any:
    """Return the lower triangle, with the diagonal divided by 2."""
    return (np.tril(x) + np.tril(x, -1)) / 2


@PULLBACK.of(CHOLESKY)
@or_xla
def _pull_cholesky(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    lower, g = (swapped(y), swapped(g)) if params[0] else (y, g)
    inverse = np.linalg.inv(lower)
    ga = dot(swapped(inverse), dot(_halved(dot(swapped(lower), g)), inverse))
    return ((ga + swapped(ga)) / 2,)


@PUSHFORWARD.of(CHOLESKY)
@or_xla
def _push_cholesky(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    t = (tangents[0] + swapped(tangents[0])) / 2
    lower = swapped(y) if params[0] else y
    inverse = np.linalg.inv(lower)
    moved = dot(lower, _halved(dot(inverse, dot(t, swapped(inverse)))))
    return swapped(moved) if params[0] else moved


BATCH.of(QR, SVD, SINGULAR_VALUES, CHOLESKY)(batch_matrices)


COST.of(QR, SVD, SINGULAR_VALUES, CHOLESKY)(cubic_cost)
LAPACK.update((QR, SVD, SINGULAR_VALUES, CHOLESKY))
