"""The decompositions of `linalg`: qr, svd and cholesky, in MLX's form, with all derivatives.

The SVD is computed from the transpose, as in MLX's own call of LAPACK. This gives MLX's signs of the vectors, which
mathematics does not determine.
"""

from __future__ import annotations

from typing import Any

from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import apply, items
from mxcompat._jax import jax, jnp, lazy

from ..arguments import flag
from ..define import op
from .common import (
    INEXACT,
    adjoint,
    check_square,
    hermitian,
    inverse_gaps,
    matmul,
    matrix,
    real_dtype,
    transpose,
)  # fmt: skip

__all__ = ["CHOLESKY", "QR", "SINGULAR_VALUES", "SVD", "cholesky", "qr", "singular_values", "square_root", "svd"]


def _sizes(a: Aval) -> tuple[tuple[int, ...], int, int, int]:
    """Return the batch shape, the rows, the columns, and the smaller of the two."""
    *batch, m, n = a.shape
    return tuple(batch), m, n, min(m, n)


def _qr(a: Any) -> Any:
    m, n = a.shape[-2:]
    if m >= n:
        return tuple(jnp.linalg.qr(a))
    q, r = jnp.linalg.qr(a[..., :m])  # q depends only on the first m columns, and JAX can differentiate only this form
    return q, jnp.concatenate([r, matmul(transpose(q), a[..., m:])], axis=-1)


def _qr_infer(a: Aval) -> tuple[Aval, Aval]:
    batch, m, n, k = _sizes(a)
    return aval((*batch, m, k), a.dtype), aval((*batch, k, n), a.dtype)


QR = op("linalg_qr", _qr, _qr_infer)


def qr(a: array, *, stream: Any = None) -> tuple[array, array]:
    """Return the QR factorization: `q @ r` is `a`, with orthonormal columns in `q` and upper triangular `r`.

    Args:
        a: matrices `(..., M, N)`, float32 or float64.
        stream: accepted, and ignored.

    Returns:
        `q`, `(..., M, K)`, and `r`, `(..., K, N)`, with the dtype of `a`. K is the smaller of M and N.

    Raises:
        ValueError: for any other dtype, or for fewer than two dimensions.

    Example:
        >>> q, r = mx.linalg.qr(mx.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> mx.allclose(q @ r, mx.array([[3.0, 1.0], [4.0, 2.0]]), atol=1e-5)
        array(True, dtype=bool)
    """
    check_stream(stream)
    q, r = items(apply(QR, (matrix("qr", a),)))
    return wrap(q), wrap(r)


def _thin_rotations(d: Any, s: Any) -> tuple[Any, Any]:
    """Return the rotations of the singular vectors of a square diagonal matrix, within their own span, for a tangent
    `d`."""
    gaps = inverse_gaps(jnp.square(s))
    right, left = s[..., None, :] * d, s[..., :, None] * d
    u = gaps * (right + adjoint(right))
    v = gaps * (left + adjoint(left))
    if jnp.iscomplexobj(d):
        scale = jnp.where(s == 0, 0, 0.5 / jnp.where(s == 0, 1, s))
        diagonal = (d - adjoint(d)) * jnp.eye(s.shape[-1], dtype=d.dtype)
        u = u + diagonal * scale[..., None, :]
    return u, v


@lazy.custom_jvp
def _svd(a: Any) -> tuple[Any, Any, Any]:
    """Return the full SVD."""
    if not a.size:  # XLA refuses an empty matrix, for which any orthonormal vectors are correct
        *batch, m, n = a.shape
        u, v = (jnp.broadcast_to(jnp.eye(k, dtype=a.dtype), (*batch, k, k)) for k in (m, n))
        return u, jnp.zeros((*batch, min(m, n)), a.real.dtype), v
    v, s, uh = jnp.linalg.svd(transpose(a), full_matrices=True)
    return transpose(uh), s, transpose(v)


@_svd.defjvp
def _svd_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a,), (t,) = primals, tangents
    u, s, vh = out = _svd(a)
    if a.shape[-2] < a.shape[-1]:
        dv, ds, du = _svd_tangent(transpose(vh), s, transpose(u), transpose(t))
        return out, (transpose(du), ds, transpose(dv))
    return out, _svd_tangent(u, s, vh, t)


def _svd_tangent(u: Any, s: Any, vh: Any, t: Any) -> tuple[Any, Any, Any]:
    """Return the tangent of the SVD of a matrix with at least as many rows as columns, for a tangent `t` of the
    matrix."""
    n = vh.shape[-1]
    d = matmul(matmul(adjoint(u), t), adjoint(vh))
    square, below = d[..., :n, :], d[..., n:, :]
    turn_u, turn_v = _thin_rotations(square, s)
    inverse = jnp.where(s == 0, 0, 1 / jnp.where(s == 0, 1, s))
    below = below * inverse[..., None, :]
    rest = jnp.zeros((*below.shape[:-1], below.shape[-2]), below.dtype)
    turn = jnp.concatenate(
        [jnp.concatenate([turn_u, -adjoint(below)], axis=-1), jnp.concatenate([below, rest], axis=-1)], axis=-2
    )
    return matmul(u, turn), jnp.diagonal(square, axis1=-2, axis2=-1).real, -matmul(turn_v, vh)


def _svd_infer(a: Aval) -> tuple[Aval, Aval, Aval]:
    batch, m, n, k = _sizes(a)
    return aval((*batch, m, m), a.dtype), aval((*batch, k), real_dtype(a.dtype)), aval((*batch, n, n), a.dtype)


def singular_values(a: Any) -> Any:
    """Return the singular values of matrices given as a JAX array."""
    if 0 in a.shape[-2:]:
        return jnp.zeros((*a.shape[:-2], 0), a.real.dtype)
    return jnp.linalg.svd(a, compute_uv=False)


@lazy.custom_jvp
def square_root(matrix: Any) -> Any:
    """Return U sqrt(S) V^T of matrices U S V^T: the square root, if they are symmetric positive semi-definite."""
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    return (left * jnp.sqrt(values)[..., None, :]) @ right


@square_root.defjvp
def _square_root_jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """Return the tangent X of the root R for symmetric matrices: the solution of R X + X R = the matrix tangent.

    It exists also for equal singular values, where the decomposition itself has no derivative.
    """
    (matrix,), (tangent,) = primals, tangents
    left, values, _ = jnp.linalg.svd(matrix, full_matrices=False)
    roots = jnp.sqrt(values)
    sums = roots[..., :, None] + roots[..., None, :]
    turned = jnp.swapaxes(left, -1, -2) @ tangent @ left
    inner = jnp.where(sums > 0, turned / jnp.where(sums > 0, sums, 1), 0)
    return square_root(matrix), left @ inner @ jnp.swapaxes(left, -1, -2)


def _values_infer(a: Aval) -> Aval:
    batch, _, _, k = _sizes(a)
    return aval((*batch, k), real_dtype(a.dtype))


SVD = op("linalg_svd", _svd, _svd_infer)
SINGULAR_VALUES = op("linalg_singular_values", singular_values, _values_infer)


def svd(a: array, compute_uv: bool = True, *, stream: Any = None) -> Any:
    """Return the singular value decomposition: `u[:, :K] * s @ vt[:K]` is `a`, where K is the smaller of M and N.

    Args:
        a: matrices `(..., M, N)`, float32, float64 or complex64.
        compute_uv: whether to compute the vectors as well.
        stream: accepted, and ignored.

    Returns:
        `u` `(..., M, M)`, `s` `(..., K)`, and `vt` `(..., N, N)`; or only `s`. The values in `s` are real and
        descending.

    Raises:
        ValueError: for any other dtype, or for fewer than two dimensions.
        RuntimeError: at evaluation, for a matrix with a NaN.

    Example:
        >>> u, s, vt = mx.linalg.svd(mx.array([[3.0, 0.0], [0.0, 2.0]]))
        >>> s
        array([3, 2], dtype=float32)
    """
    check_stream(stream)
    both = flag(compute_uv, "svd", "compute_uv")
    node = matrix("svd", a, INEXACT)
    if not both:
        return wrap(apply(SINGULAR_VALUES, (node,)))
    return tuple(wrap_all(apply(SVD, (node,))))


def _cholesky(a: Any, upper: bool) -> Any:
    if not a.size:
        return a
    lower = hermitian(transpose(a) if upper else a)
    out = jax.lax.linalg.cholesky(lower, symmetrize_input=False)
    return transpose(out) if upper else out


CHOLESKY = op("linalg_cholesky", _cholesky, lambda a, upper: a, ("upper",))


def cholesky(a: array, upper: bool = False, *, stream: Any = None) -> array:
    """Return the Cholesky factor of symmetric positive definite matrices: `l @ l.T`, or `u.T @ u`, is `a`.

    Args:
        a: matrices `(..., N, N)`, float32 or float64. Only the same triangle as that of the result is read.
        upper: whether to return the upper triangular factor instead of the lower.
        stream: accepted, and ignored.

    Returns:
        The factors `(..., N, N)`; NaN if a matrix is not positive definite. Gradients are those of a function of the
        whole symmetric matrix.

    Raises:
        ValueError: for any other dtype or shape.

    Example:
        >>> mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2, 0],
               [1, 2]], dtype=float32)
    """
    check_stream(stream)
    params = (flag(upper, "cholesky", "upper"),)
    node = matrix("cholesky", a)
    check_square("cholesky", node.aval, "Cholesky decomposition is only defined for square matrices.")
    return wrap(apply(CHOLESKY, (node,), params))
