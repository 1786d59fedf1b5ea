"""Rules of eigenvalues and eigenvectors: NumPy, derivatives and batching."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import BATCH, COST, HOST, LAPACK, PULLBACK, PUSHFORWARD

from .eigen import EIG, EIGH, EIGVALS, EIGVALSH
from .lapack import batch_matrices, cubic_cost, dot, lapack, or_xla, swapped

__all__: list[str] = []


@HOST.of(EIGH)
@or_xla
def _host_eigh(out: Any, params: tuple, a: Any) -> Any:
    eigen = lapack("eigh_up" if params[0] else "eigh_lo", swapped(a), "x->rx")
    if eigen is None:
        return None
    w, v = eigen
    return w, v.conj() if v.dtype.kind == "c" else v


def _inverse_gaps(values: Any) -> Any:
    """Return 1 / (v[j] - v[i]) for each pair, and 0 where two are equal."""
    gaps = values[..., None, :] - values[..., :, None]
    return np.where(gaps == 0, gaps, 1 / np.where(gaps == 0, 1, gaps))


@PULLBACK.of(EIGH)
@or_xla
def _pull_eigh(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    if a.dtype.kind == "c":
        return None
    (gw, gv), (w, v) = g, y
    d: Any = 0
    if gv is not None:
        d = _inverse_gaps(w) * dot(swapped(v), gv)
    if gw is not None:
        d = d + gw[..., None] * np.eye(w.shape[-1], dtype=w.dtype)
    ga = dot(v, dot(d, swapped(v)))
    return ((ga + swapped(ga)) / 2,)


def _turned(t: Any, v: Any) -> Any:
    """Return the symmetric part of a tangent, in the basis of the eigenvectors."""
    return dot(swapped(v.conj()), dot((t + swapped(t.conj())) / 2, v))


@PUSHFORWARD.of(EIGH)
@or_xla
def _push_eigh(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    if a.dtype.kind == "c":
        return None
    w, v = y
    d = _turned(tangents[0], v)
    return d.diagonal(0, -2, -1), dot(v, _inverse_gaps(w) * d)


@HOST.of(EIGVALSH)
@or_xla
def _host_eigvalsh(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.eigvalsh(a, "L" if params[0] else "U")


@PULLBACK.of(EIGVALSH)
@or_xla
def _pull_eigvalsh(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    v = np.linalg.eigh(a, "L" if params[0] else "U")[1]
    # The gradient is not conjugated, because the change of each eigenvalue is linear in the matrix.
    return (dot(v.conj() * g[..., None, :], swapped(v)),)


@PUSHFORWARD.of(EIGVALSH)
@or_xla
def _push_eigvalsh(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    v = np.linalg.eigh(a, "L" if params[0] else "U")[1]
    return _turned(tangents[0], v).diagonal(0, -2, -1).real


@HOST.of(EIGVALS)
@or_xla
def _host_eigvals(out: Any, params: tuple, a: Any) -> Any:
    eigenvalues = lapack("eigvals", swapped(a), "x->c")
    return None if eigenvalues is None else eigenvalues.astype(np.complex64, copy=False)


BATCH.of(EIGH, EIGVALSH, EIG, EIGVALS)(batch_matrices)


COST.of(EIGH, EIGVALSH, EIG, EIGVALS)(cubic_cost)
LAPACK.update((EIGH, EIGVALSH, EIG, EIGVALS))
