"""Inverses and linear systems of `linalg`."""

from __future__ import annotations

from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, format_shape, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jax, jnp

from ..arguments import flag, require_array
from ..define import broadcast, op
from .common import FLOATS, check_matrix, check_square, matmul, matrix, transpose

__all__ = [
    "CHOLESKY_INV",
    "INV",
    "PINV",
    "SOLVE",
    "SOLVE_TRIANGULAR",
    "TRI_INV",
    "cholesky_inv",
    "fill_with_nan",
    "inv",
    "operands",
    "pinv",
    "solve",
    "solve_triangular",
    "tri_inv",
]  # fmt: skip


def fill_with_nan(a: Any) -> Any:
    """Fill each matrix that contains a NaN with NaN. LAPACK never chooses a NaN as a pivot, so its result may lack the
    NaN."""
    return a * jnp.where(jnp.isnan(a).any((-2, -1), keepdims=True), jnp.nan, 1).astype(a.dtype)


def _triangular_inverse(a: Any, upper: bool) -> Any:
    if not a.size:
        return a
    eye = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    inverse = jax.lax.linalg.triangular_solve(a, eye, left_side=True, lower=not upper)
    return jnp.triu(inverse) if upper else jnp.tril(inverse)  # this keeps NaNs out of the other triangle


def _cholesky_inverse(a: Any, upper: bool) -> Any:
    inverse = _triangular_inverse(a, upper)
    transposed = transpose(inverse)
    return matmul(inverse, transposed) if upper else matmul(transposed, inverse)


def _inverse(a: Any) -> Any:
    """Return the inverse. MLX factorizes the transpose, which may have zero pivots where the matrix has none."""
    return transpose(jnp.linalg.inv(transpose(fill_with_nan(a)))) if a.size else a


INV = op("linalg_inv", _inverse, lambda a: a)
TRI_INV = op("linalg_tri_inv", _triangular_inverse, lambda a, upper: a, ("upper",))
CHOLESKY_INV = op("linalg_cholesky_inv", _cholesky_inverse, lambda a, upper: a, ("upper",))
PINV = op(
    "linalg_pinv",
    lambda a: jnp.linalg.pinv(a) if a.size else transpose(a),
    lambda a: aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),
)


def _square(name: str, a: Any, message: str, called: str = "") -> Node:
    node = matrix(name, a, called=called)
    check_square(name, node.aval, message)
    return node


def inv(a: array, *, stream: Any = None) -> array:
    """Return the inverse of square matrices.

    Args:
        a: matrices `(..., N, N)`, float32 or float64.
        stream: accepted, and ignored.

    Returns:
        The inverses `(..., N, N)`.

    Raises:
        ValueError: for any other dtype or shape.
        RuntimeError: at evaluation, for a matrix whose LU factors have a zero on the diagonal, in the precision of `a`.

    Example:
        >>> mx.linalg.inv(mx.array([[1.0, 1.0], [1.0, 2.0]]))
        array([[2, -1],
               [-1, 1]], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(INV, (_square("inv", a, "Inverses are only defined for square matrices."),)))


def tri_inv(a: array, upper: bool = False, *, stream: Any = None) -> array:
    """Return the inverse of triangular matrices.

    Args:
        a: matrices `(..., N, N)`, float32 or float64; only one triangle is read.
        upper: whether to read the upper triangle.
        stream: accepted, and ignored.

    Returns:
        The inverses `(..., N, N)`, triangular too.

    Raises:
        ValueError: for any other dtype or shape.
        RuntimeError: at evaluation, for a zero on a diagonal.

    Example:
        >>> mx.linalg.tri_inv(mx.array([[2.0, 0.0], [2.0, 4.0]]))
        array([[0.5, 0],
               [-0.25, 0.25]], dtype=float32)
    """
    check_stream(stream)
    params = (flag(upper, "tri_inv", "upper"),)
    node = _square("inv", a, "Inverses are only defined for square matrices.", "tri_inv")
    return wrap(apply(TRI_INV, (node,), params))


def cholesky_inv(a: array, upper: bool = False, *, stream: Any = None) -> array:
    """Return the inverse of symmetric positive definite matrices, from their Cholesky factors.

    Args:
        a: factors `(..., N, N)` from `cholesky`, float32 or float64. Only one triangle is read.
        upper: whether the factors are upper triangular.
        stream: accepted, and ignored.

    Returns:
        The inverses `(..., N, N)` of `a @ a.T`, or of `a.T @ a` for upper factors.

    Raises:
        ValueError: for any other dtype or shape.
        RuntimeError: at evaluation, for a zero on a diagonal.

    Example:
        >>> root = mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]))
        >>> mx.linalg.cholesky_inv(root)
        array([[0.3125, -0.125],
               [-0.125, 0.25]], dtype=float32)
    """
    check_stream(stream)
    params = (flag(upper, "cholesky_inv", "upper"),)
    node = _square("cholesky_inv", a, "Cholesky inverse is only defined for square matrices.")
    return wrap(apply(CHOLESKY_INV, (node,), params))


def pinv(a: array, *, stream: Any = None) -> array:
    """Return the Moore-Penrose pseudo-inverse of matrices.

    Args:
        a: matrices `(..., M, N)`, float32 or float64.
        stream: accepted, and ignored.

    Returns:
        The pseudo-inverses `(..., N, M)`. Singular values below `10 * max(M, N) * eps` times the largest count as 0.

    Raises:
        ValueError: for any other dtype, or for fewer than two dimensions.
        RuntimeError: at evaluation, for a matrix with a NaN.

    Example:
        >>> mx.linalg.pinv(mx.array([[1.0], [1.0]]))
        array([[0.5, 0.5]], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(PINV, (matrix("pinv", a),)))


def _solution(a: Aval, b: Aval) -> Aval:
    batch = broadcast(a.shape[:-2], b.shape[:-2] if b.ndim > 1 else ())
    return aval((*batch, *b.shape[-2:]) if b.ndim > 1 else (*batch, *b.shape), promote(a.dtype, b.dtype))


def operands(a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Return both operands in the result's dtype and batch shape, with `b` as columns. Also return True if `b` was a
    vector."""
    result = _solution(*[aval(x.shape, from_numpy(x.dtype)) for x in (a, b)])  # type: ignore[arg-type]
    vector = b.ndim == 1
    batch = result.shape[: -1 if vector else -2]
    b = b[:, None] if vector else b
    a, b = (jnp.broadcast_to(jnp.asarray(x, result.dtype._numpy), (*batch, *x.shape[-2:])) for x in (a, b))
    return a, b, vector


def _solve(a: Any, b: Any) -> Any:
    a, b, vector = operands(a, b)
    x = jnp.linalg.solve(fill_with_nan(a), b) if a.size and b.size else b
    return x[..., 0] if vector else x


def _solve_triangular(a: Any, b: Any, upper: bool) -> Any:
    a, b, vector = operands(a, b)
    x = jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=not upper) if a.size and b.size else b
    return x[..., 0] if vector else x


SOLVE = op("linalg_solve", _solve, _solution)
SOLVE_TRIANGULAR = op("linalg_solve_triangular", _solve_triangular, lambda a, b, upper: _solution(a, b), ("upper",))


def _system(name: str, inner: str, a: Any, b: Any) -> tuple[Node, Node]:
    """Return the nodes of a linear system after MLX's checks. `inner` is the routine that checks the matrix itself."""
    left, right = require_array(a, name), require_array(b, name)
    x, y = left.aval, right.aval
    if x.ndim < 2:
        raise ValueError(
            f"[linalg::{name}] First input must have >= 2 dimensions. Received array with {x.ndim} dimensions."
        )
    if y.ndim < 1:
        raise ValueError(
            f"[linalg::{name}] Second input must have >= 1 dimensions. Received array with {y.ndim} dimensions."
        )
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"[linalg::{name}] First input must be a square matrix. Received array with shape {format_shape(x.shape)}."
        )
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise ValueError(
            f"[linalg::{name}] Last dimension of first input with shape {format_shape(x.shape)} must match second to "
            f"last dimension of second input with shape {format_shape(y.shape)}."
        )
    if promote(x.dtype, y.dtype) not in FLOATS:
        raise ValueError(
            f"[linalg::{name}] Input arrays must promote to float32 or float64.  Received arrays with type "
            f"{x.dtype._label} and {y.dtype._label}."
        )
    check_matrix(inner, x, FLOATS)
    return left, right


def solve(a: array, b: array, *, stream: Any = None) -> array:
    """Return the solution `x` of the linear systems `a @ x = b`.

    Args:
        a: matrices `(..., N, N)`, float32 or float64.
        b: right-hand sides: one vector `(N,)`, or columns `(..., N, K)`.
        stream: accepted, and ignored.

    Returns:
        The solutions, with the shape of `b`; batch dimensions broadcast.

    Raises:
        ValueError: for any other dtype or shape.
        RuntimeError: at evaluation, for a matrix whose LU factors have a zero on the diagonal, in the precision of the
            result.

    Example:
        >>> mx.linalg.solve(mx.array([[2.0, 0.0], [0.0, 4.0]]), mx.array([2.0, 2.0]))
        array([1, 0.5], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(SOLVE, _system("solve", "lu", a, b)))


def solve_triangular(a: array, b: array, *, upper: bool = False, stream: Any = None) -> array:
    """Return the solution `x` of the triangular systems `a @ x = b`.

    Args:
        a: matrices `(..., N, N)`, float32 or float64; only one triangle is read.
        b: right-hand sides: one vector `(N,)`, or columns `(..., N, K)`.
        upper: whether to read the upper triangle.
        stream: accepted, and ignored.

    Returns:
        The solutions, with the shape of `b`; batch dimensions broadcast.

    Raises:
        ValueError: for any other dtype or shape.
        RuntimeError: at evaluation, for a zero on a diagonal.

    Example:
        >>> mx.linalg.solve_triangular(mx.array([[2.0, 0.0], [1.0, 1.0]]), mx.array([2.0, 2.0]))
        array([1, 1], dtype=float32)
    """
    check_stream(stream)
    params = (flag(upper, "solve_triangular", "upper"),)
    nodes = _system("solve_triangular", "inv", a, b)
    return wrap(apply(SOLVE_TRIANGULAR, nodes, params))
