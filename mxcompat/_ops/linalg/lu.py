"""LU factorization, and the determinants that follow from it."""

from __future__ import annotations

from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, from_numpy, uint32
from mxcompat._graph.ir.node import Node, apply, items
from mxcompat._jax import jax, jnp, lazy

from ..arguments import require_array
from ..define import as_float, op
from .common import check_square, matrix

__all__ = ["DET", "LU", "LU_FACTOR", "SLOGDET", "det", "lu", "lu_factor", "slogdet"]


def _factor(a: Any) -> tuple[Any, Any, Any]:
    """Return the factors in one matrix, the row swaps, and for each row of the factors its row in `a`."""
    m, n = a.shape[-2:]
    if not a.size:
        rows = jnp.broadcast_to(jnp.arange(m, dtype=jnp.int32), (*a.shape[:-2], m))
        return a, rows[..., : min(m, n)], rows
    factors = jax.lax.linalg.lu(a)
    finite = jnp.isfinite(a).all((-2, -1))
    others = _of_not_finite(jax.lax.stop_gradient(a))
    both, exchanges, rows = (
        jnp.where(jnp.expand_dims(finite, tuple(range(finite.ndim, x.ndim))), x, other)
        for x, other in zip(factors, others, strict=True)
    )
    return both, exchanges, rows


@lazy.custom_batching.custom_vmap
def _of_not_finite(a: Any) -> Any:
    """Return the factors of matrices that are not all finite, or unused values if all are finite.

    Such matrices are rare, so their factors are computed in a branch (`lax.cond`). It also stays a branch under `vmap`,
    where JAX would otherwise compute both branches.
    """
    *batch, m, n = a.shape
    nothing = a, jnp.zeros((*batch, min(m, n)), jnp.int32), jnp.zeros((*batch, m), jnp.int32)
    return jax.lax.cond(jnp.isfinite(a).all(), lambda a: nothing, _factors_by_column, a)


@_of_not_finite.def_vmap
def _of_more(size: int, mapped: list[bool], a: Any) -> tuple[Any, tuple[bool, ...]]:
    return _of_not_finite(a), (True, True, True)


def _factors_by_column(a: Any) -> tuple[Any, Any, Any]:
    """Return the factors of matrices that are not finite, on which LAPACK's versions and devices disagree.

    The result is MLX's: a NaN is never the largest of a column, unless it is the first.
    """
    m, n = a.shape[-2:]
    rows, columns = jnp.arange(m, dtype=jnp.int32), jnp.arange(n)

    def step(k: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        both, exchanges, order = state
        size = jnp.where(rows < k, -1, jnp.abs(both[:, k]))
        largest = jnp.where(jnp.isnan(size[k]), k, jnp.argmax(jnp.where(jnp.isnan(size), -1, size)).astype(jnp.int32))
        exchanged = jnp.where(rows == k, largest, jnp.where(rows == largest, k, rows))
        both, order = both[exchanged], order[exchanged]
        pivot = both[k, k]
        below = both[:, k] / jnp.where(pivot == 0, jnp.ones_like(pivot), pivot)
        both = jnp.where((rows > k)[:, None] & (columns == k), below[:, None], both)
        both = jnp.where((rows > k)[:, None] & (columns > k), both - below[:, None] * both[k], both)
        return both, exchanges.at[k].set(largest), order

    def of_one(a: Any) -> tuple[Any, Any, Any]:
        return jax.lax.fori_loop(0, min(m, n), step, (a, rows[: min(m, n)], rows))

    factors = jax.vmap(of_one)(a.reshape(-1, m, n))
    return tuple([x.reshape(*a.shape[:-2], *x.shape[1:]) for x in factors])  # type: ignore[return-value]


def _lu_factor(a: Any) -> Any:
    both, exchanges, _ = _factor(a)
    return both, exchanges.astype(jnp.uint32)


def _lu(a: Any) -> Any:
    both, _, rows = _factor(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = jnp.tril(both[..., :k], -1) + jnp.eye(m, k, dtype=a.dtype)
    return jnp.argsort(rows, axis=-1).astype(jnp.uint32), lower, jnp.triu(both[..., :k, :])


def _lu_factor_infer(a: Aval) -> tuple[Aval, Aval]:
    return a, aval((*a.shape[:-2], min(a.shape[-2:])), uint32)


def _lu_infer(a: Aval) -> tuple[Aval, Aval, Aval]:
    *batch, m, n = a.shape
    k = min(m, n)
    return aval((*batch, m), uint32), aval((*batch, m, k), a.dtype), aval((*batch, k, n), a.dtype)


LU_FACTOR = op("linalg_lu_factor", _lu_factor, _lu_factor_infer)
LU = op("linalg_lu", _lu, _lu_infer)


def lu_factor(a: array, *, stream: Any = None) -> tuple[array, array]:
    """Return the LU factorization in compact form.

    Args:
        a: matrices `(..., M, N)`, float32 or float64.
        stream: accepted, and ignored.

    Returns:
        Two arrays. The first holds both factors, without the ones on the diagonal of `l`, and has the shape of `a`.
        The second, uint32 `(..., K)`, holds the row swaps: row i was swapped with row `pivots[i]`. K is the smaller of
        M and N.

    Raises:
        ValueError: for any other dtype, or for fewer than two dimensions.

    Example:
        >>> mx.linalg.lu_factor(mx.array([[1.0, 2.0], [2.0, 8.0]]))
        (array([[2, 8],
               [0.5, -2]], dtype=float32), array([1, 1], dtype=uint32))
    """
    check_stream(stream)
    both, pivots = items(apply(LU_FACTOR, (matrix("lu_factor", a),)))
    return wrap(both), wrap(pivots)


def lu(a: array, *, stream: Any = None) -> tuple[array, array, array]:
    """Return the LU factorization with row swaps: `l[p, :] @ u` is `a`.

    Args:
        a: matrices `(..., M, N)`, float32 or float64.
        stream: accepted, and ignored.

    Returns:
        `p`, uint32 `(..., M)`; `l` `(..., M, K)`, lower triangular with ones on its diagonal; and `u` `(..., K, N)`,
        upper triangular. K is the smaller of M and N.

    Raises:
        ValueError: for any other dtype, or for fewer than two dimensions.

    Example:
        >>> p, l, u = mx.linalg.lu(mx.array([[1.0, 2.0], [2.0, 8.0]]))
        >>> p, u
        (array([1, 0], dtype=uint32), array([[2, 8],
               [0, -2]], dtype=float32))
    """
    check_stream(stream)
    p, lower, u = items(apply(LU, (matrix("lu", a),)))
    return wrap(p), wrap(lower), wrap(u)


def _widened(a: Any) -> Any:
    """Return the matrices in float32 at least, since half precision and integers have no factorization."""
    return jnp.asarray(a, jnp.float64 if a.dtype == jnp.float64 else jnp.float32)


def _det(a: Any) -> Any:
    want = as_float(from_numpy(a.dtype))._numpy  # type: ignore[arg-type]
    return jnp.linalg.det(_widened(a)).astype(want)


def _slogdet(a: Any) -> Any:
    want = as_float(from_numpy(a.dtype))._numpy  # type: ignore[arg-type]
    sign, logarithm = jnp.linalg.slogdet(_widened(a))
    if a.shape[-1] <= 3:  # MLX computes small determinants by formulas, without pivots
        sign = jnp.where(jnp.isnan(logarithm), 0, sign)
    return sign.astype(want), logarithm.astype(want)


def _det_infer(a: Aval) -> Aval:
    return aval(a.shape[:-2], as_float(a.dtype))


DET = op("linalg_det", _det, _det_infer)
SLOGDET = op("linalg_slogdet", _slogdet, lambda a: (_det_infer(a),) * 2)


def _square(name: str, a: Any) -> Node:
    node = require_array(a, name)
    matrix = node.aval
    if matrix.dtype._kind == "c":
        raise ValueError(f"[linalg::{name}] Complex inputs are not supported.")
    if matrix.ndim < 2:
        raise ValueError(
            f"[linalg::{name}] Arrays must have >= 2 dimensions. Received array with {matrix.ndim} dimensions."
        )
    check_square(name, matrix)
    return node


def det(a: array, *, stream: Any = None) -> array:
    """Return the determinant of square matrices.

    Args:
        a: matrices `(..., N, N)` of any real dtype.
        stream: accepted, and ignored.

    Returns:
        The determinants `(...)`, with the dtype of `a` (float32 for integers).

    Raises:
        ValueError: for complex numbers, or for any other shape.

    Example:
        >>> mx.linalg.det(mx.array([[1.0, 2.0], [3.0, 4.0]]))
        array(-2, dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(DET, (_square("det", a),)))


def slogdet(a: array, *, stream: Any = None) -> tuple[array, array]:
    """Return the sign of the determinant of square matrices, and the logarithm of its absolute value.

    Args:
        a: matrices `(..., N, N)` of any real dtype.
        stream: accepted, and ignored.

    Returns:
        The signs, -1, 0 or 1, and the logarithms, `-inf` for a singular matrix. Both are `(...)`, with the dtype of `a`
        (float32 for integers).

    Raises:
        ValueError: for complex numbers, or for any other shape.

    Example:
        >>> mx.linalg.slogdet(mx.array([[1.0, 2.0], [3.0, 4.0]]))
        (array(-1, dtype=float32), array(0.693147, dtype=float32))
    """
    check_stream(stream)
    sign, logarithm = items(apply(SLOGDET, (_square("slogdet", a),)))
    return wrap(sign), wrap(logarithm)
