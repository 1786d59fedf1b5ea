"""Rules of inverses and linear systems: NumPy, derivatives, batching and failures."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, COST, HOST, LAPACK, PULLBACK, PUSHFORWARD
from mxcompat._jax import jax, jnp

from ..batching import aligned, rank
from ..define import TABLE
from ..products.contraction import rounded
from .common import transpose
from .failures import SVD_FAILED, fails, holds_nan
from .lapack import batch_matrices, cubic_cost, dot, lapack, or_xla, swapped, triangle
from .solve import CHOLESKY_INV, INV, PINV, SOLVE, SOLVE_TRIANGULAR, TRI_INV, fill_with_nan, operands

__all__: list[str] = []


def _fill_with_nan(a: Any) -> Any:
    """Fill each matrix that contains a NaN with NaN. LAPACK never chooses a NaN as a pivot, so its result may lack the
    NaN."""
    none = np.isnan(a).any((-2, -1), keepdims=True)
    return np.where(none, a.dtype.type(np.nan), a) if none.any() else a


def _regular(a: Any) -> Any:
    """Return the matrices if no pivot is zero in their precision, or raise LinAlgError.

    The pivots are those of a determinant, because NumPy factorizes in this precision only for determinants.
    """
    sign, _ = lapack("slogdet", a, "x->xr") or np.linalg.slogdet(a)
    if not np.all(sign):
        raise np.linalg.LinAlgError("one is singular")
    return a


@HOST.of(INV)
@or_xla
def _host_inv(out: Any, params: tuple, a: Any) -> Any:
    return swapped(np.linalg.inv(_regular(swapped(_fill_with_nan(a)))))


@PULLBACK.of(INV)
def _pull_inv(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    z = swapped(y)
    return (-dot(z, dot(g, z)),)


@PUSHFORWARD.of(INV)
def _push_inv(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return -dot(y, dot(tangents[0], y))


_LU = "[Inverse::eval_cpu] LU factorization failed with error code"


def _zero_on_diagonal(a: Any) -> Any:
    """Return, for each matrix, the position of the first zero on its diagonal, counted from 1; 0 if there is none."""
    zero = jnp.diagonal(a, axis1=-2, axis2=-1) == 0
    if not zero.size:
        return jnp.zeros(zero.shape[:-1], np.int32)
    return jnp.where(zero.any(-1), jnp.argmax(zero, -1) + 1, 0).astype(np.int32)


def _zero_pivot(a: Any) -> Any:
    """Return the failure code of the LU factors of the matrix that the op factorizes. XLA merges the two
    factorizations."""
    return _zero_on_diagonal(jax.lax.linalg.lu(a)[0] if a.size else a)


fails(INV, _LU, lambda _, a: _zero_pivot(transpose(fill_with_nan(a))))


def _finite(x: Any) -> Any:
    """Return a triangle whose entries are finite, or raise LinAlgError.

    NumPy solves triangular systems like general ones, so an infinity or NaN would affect more of the solution.
    """
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("a triangle that is not finite needs a triangular solver")
    return x


def triangular_inverse(a: Any, upper: bool) -> Any:
    """Return the inverse of a triangular matrix, which is triangular too."""
    return triangle(np.linalg.inv(_finite(triangle(a, upper))), upper)


@HOST.of(TRI_INV)
@or_xla
def _host_tri_inv(out: Any, params: tuple, a: Any) -> Any:
    return triangular_inverse(a, *params)


@PULLBACK.of(TRI_INV)
def _pull_tri_inv(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    z = swapped(y)
    return (-triangle(dot(z, dot(g, z)), *params),)


@PUSHFORWARD.of(TRI_INV)
def _push_tri_inv(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return -dot(y, dot(triangle(tangents[0], *params), y))


@HOST.of(CHOLESKY_INV)
@or_xla
def _host_cholesky_inv(out: Any, params: tuple, a: Any) -> Any:
    inverse = triangular_inverse(a, *params)
    return np.matmul(inverse, swapped(inverse)) if params[0] else np.matmul(swapped(inverse), inverse)


@PULLBACK.of(CHOLESKY_INV)
@or_xla
def _pull_cholesky_inv(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    (upper,) = params
    inverse = triangular_inverse(a, upper)
    both = g + swapped(g)
    back = dot(both, inverse) if upper else dot(inverse, both)
    z = swapped(inverse)
    return (-triangle(dot(z, dot(back, z)), upper),)


@PUSHFORWARD.of(CHOLESKY_INV)
@or_xla
def _push_cholesky_inv(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    (upper,) = params
    inverse = triangular_inverse(a, upper)
    t = -dot(inverse, dot(triangle(tangents[0], upper), inverse))
    moved = dot(t, swapped(inverse)) if upper else dot(swapped(t), inverse)
    return moved + swapped(moved)


@HOST.of(PINV)
@or_xla
def _host_pinv(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.pinv(a, 10 * max(a.shape[-2:]) * np.finfo(a.dtype).eps)


BATCH.of(INV, TRI_INV, CHOLESKY_INV, PINV)(batch_matrices)


fails(PINV, SVD_FAILED, lambda _, a: holds_nan(a))


def _columns(out: Any, b: Any) -> Any:
    b = rounded(b, out.dtype._numpy)
    return b[:, None] if b.ndim == 1 else b


@HOST.of(SOLVE)
@or_xla
def _host_solve(out: Any, params: tuple, a: Any, b: Any) -> Any:
    a = _regular(_fill_with_nan(rounded(a, out.dtype._numpy)))
    return np.linalg.solve(a, _columns(out, b)).reshape(out.shape)


def _pull_system(g: Any, y: Any, needs_grad: tuple, a: Any, b: Any, cut: Any) -> Any:
    vector = b.ndim == 1
    g, y = (g[..., None], y[..., None]) if vector else (g, y)
    gb = np.linalg.solve(swapped(cut(a.astype(y.dtype, copy=False))), g)
    ga = -cut(dot(gb, swapped(y))) if needs_grad[0] else None
    return ga, gb[..., 0] if vector else gb


@PULLBACK.of(SOLVE)
@or_xla
def _pull_solve(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any, b: Any) -> Any:
    return _pull_system(g, y, needs_grad, a, b, lambda x: x)


def _push_system(tangents: Any, y: Any, a: Any, b: Any, cut: Any) -> Any:
    da, db = tangents
    vector = b.ndim == 1
    moved: Any = None if db is None else db[..., None] if vector else db
    if da is not None:
        change = dot(cut(da), y[..., None] if vector else y)
        moved = -change if moved is None else moved - change
    moved = np.linalg.solve(cut(a.astype(y.dtype, copy=False)), moved)
    return moved[..., 0] if vector else moved


@PUSHFORWARD.of(SOLVE)
@or_xla
def _push_solve(tangents: Any, y: Any, params: tuple, a: Any, b: Any) -> Any:
    return _push_system(tangents, y, a, b, lambda x: x)


_TRIANGLE = "[Inverse::eval_cpu] triangular inversion failed with error code"


fails(SOLVE, _TRIANGLE, lambda _, a, b: _zero_pivot(fill_with_nan(operands(a, b)[0])))


@HOST.of(SOLVE_TRIANGULAR)
@or_xla
def _host_solve_triangular(out: Any, params: tuple, a: Any, b: Any) -> Any:
    a = _finite(triangle(rounded(a, out.dtype._numpy), *params))
    return np.linalg.solve(a, _finite(_columns(out, b))).reshape(out.shape)


@PULLBACK.of(SOLVE_TRIANGULAR)
@or_xla
def _pull_solve_triangular(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any, b: Any) -> Any:
    return _pull_system(g, y, needs_grad, a, b, lambda x: triangle(x, *params))


@PUSHFORWARD.of(SOLVE_TRIANGULAR)
@or_xla
def _push_solve_triangular(tangents: Any, y: Any, params: tuple, a: Any, b: Any) -> Any:
    return _push_system(tangents, y, a, b, lambda x: triangle(x, *params))


@BATCH.of(SOLVE, SOLVE_TRIANGULAR)
def _batch_system(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    a, b = inputs
    vector = b.aval.ndim - batched[1] == 1
    if vector and not batched[1]:
        return apply(op, inputs, params)
    if vector:
        b = apply(TABLE["expand_dims"], (b,), ((-1,),))
    out = apply(op, aligned((a, b), batched, rank((a, b), batched)), params)
    return apply(TABLE["squeeze"], (out,), ((-1,),)) if vector else out


for _op in (TRI_INV, CHOLESKY_INV, SOLVE_TRIANGULAR):
    fails(_op, _TRIANGLE, lambda _, a, *b: _zero_on_diagonal(a))


COST.of(INV, TRI_INV, CHOLESKY_INV, PINV, SOLVE, SOLVE_TRIANGULAR)(cubic_cost)
LAPACK.update((INV, TRI_INV, CHOLESKY_INV, PINV, SOLVE, SOLVE_TRIANGULAR))
