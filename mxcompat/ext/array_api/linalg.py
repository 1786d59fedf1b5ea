"""The linear algebra extension of the standard. Matrices are the last two axes, those before them a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mxcompat import core as mx
from mxcompat.core import Dtype, array

from ._arguments import say_what_is_no_array
from .reductions import summed

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


class Eigh(NamedTuple):
    """The eigenvalues, in ascending order, and the eigenvectors, in columns."""

    eigenvalues: array
    eigenvectors: array


class QR(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix."""

    Q: array
    R: array


class Slogdet(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: array
    logabsdet: array


class SVD(NamedTuple):
    """The left singular vectors in columns, the singular values, descending, and the right vectors in rows."""

    U: array
    S: array
    Vh: array


def cholesky(x: array, /, *, upper: bool = False) -> array:
    """The Cholesky factor of positive definite matrices, lower triangular or `upper`."""
    return mx.linalg.cholesky(x, upper)


def cross(x1: array, x2: array, /, *, axis: int = -1) -> array:
    """The cross products of vectors of three elements."""
    dtype = mx.result_type(x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"[cross] Vectors of 3 elements are needed, not {x1.shape[axis]} and {x2.shape[axis]}.")
    a, b = [mx.moveaxis(x.astype(dtype), axis, -1) for x in mx.broadcast_arrays(x1, x2)]
    parts = [a[..., (k + 1) % 3] * b[..., (k + 2) % 3] - a[..., (k + 2) % 3] * b[..., (k + 1) % 3] for k in range(3)]
    return mx.stack(parts, axis)


def det(x: array, /) -> array:
    """The determinants."""
    return mx.linalg.det(x)


def diagonal(x: array, /, *, offset: int = 0) -> array:
    """The diagonals."""
    return mx.diagonal(x, offset, -2, -1)


def eigh(x: array, /) -> Eigh:
    """The eigenvalues and eigenvectors of Hermitian matrices."""
    return Eigh(*mx.linalg.eigh(x))


def eigvalsh(x: array, /) -> array:
    """The eigenvalues of Hermitian matrices, in ascending order."""
    return mx.linalg.eigvalsh(x)


def inv(x: array, /) -> array:
    """The inverses."""
    return mx.linalg.inv(x)


def matmul(x1: array, x2: array, /) -> array:
    """The products of matrices, or of a vector and a matrix. Those of integers are summed element by element."""
    dtype = mx.result_type(x1, x2)
    if dtype._kind in "fc":
        return mx.matmul(x1, x2)
    if x1.ndim == 1 and x2.ndim == 1:
        return vecdot(x1, x2)
    a = x1[None] if x1.ndim == 1 else x1
    b = x2[:, None] if x2.ndim == 1 else x2
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"[matmul] Shapes {x1.shape} and {x2.shape} do not fit.")
    found = mx.sum(a.astype(dtype)[..., None] * b.astype(dtype)[..., None, :, :], -2).astype(dtype)
    return found[..., 0, :] if x1.ndim == 1 else found[..., 0] if x2.ndim == 1 else found


def matrix_norm(x: array, /, *, keepdims: bool = False, ord: Any = "fro") -> array:
    """The norms of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    if ord == "nuc" or ord in (2, -2):
        values = svdvals(x)
        found = mx.sum(values, -1) if ord == "nuc" else mx.max(values, -1) if ord == 2 else mx.min(values, -1)
    elif ord == "fro":
        found = mx.sqrt(mx.sum(mx.square(mx.abs(x)), (-2, -1)))
    elif ord in (1, -1, mx.inf, -mx.inf):
        sums = mx.sum(mx.abs(x), -2 if ord in (1, -1) else -1)
        found = mx.max(sums, -1) if ord > 0 else mx.min(sums, -1)
    else:
        raise ValueError(f"[matrix_norm] ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}.")
    return found[..., None, None] if keepdims else found


def matrix_power(x: array, n: int, /) -> array:
    """The matrices multiplied with themselves, n times; their inverses, if n is negative."""
    if n < 0:
        x, n = inv(x), -n
    found = mx.broadcast_to(mx.eye(x.shape[-1], dtype=x.dtype), x.shape)
    while n:
        if n & 1:
            found = matmul(found, x)
        x, n = (matmul(x, x) if n > 1 else x), n >> 1
    return found


def _tolerance(x: array, rtol: Any) -> Any:
    if rtol is None:
        return max(x.shape[-2:]) * mx.finfo(x.dtype).eps
    return rtol[..., None] if isinstance(rtol, array) else rtol


def matrix_rank(x: array, /, *, rtol: float | array | None = None) -> array:
    """How many singular values are above `rtol` times the largest; an int32."""
    values = svdvals(x)
    limit = mx.max(values, -1, keepdims=True) * _tolerance(x, rtol)
    return mx.sum((values > limit).astype(mx.int32), -1)


def matrix_transpose(x: array, /) -> array:
    """The matrices with rows and columns exchanged."""
    return mx.swapaxes(x, -1, -2)


def outer(x1: array, x2: array, /) -> array:
    """The products of each element of one vector with each of another."""
    return x1[:, None] * x2[None, :]


def pinv(x: array, /, *, rtol: float | array | None = None) -> array:
    """The pseudo-inverses, without the singular values that are not above `rtol` times the largest."""
    u, s, vh = svd(x, full_matrices=False)
    limit = mx.max(s, -1, keepdims=True) * _tolerance(x, rtol)
    inverse = mx.where(s > limit, 1 / s, mx.array(0, s.dtype)).astype(x.dtype)
    return mx.matmul(mx.conj(matrix_transpose(vh)) * inverse[..., None, :], mx.conj(matrix_transpose(u)))


def qr(x: array, /, *, mode: str = "reduced") -> QR:
    """The QR factors, "reduced" or "complete".

    Raises:
        ValueError: for another mode.
    """
    if mode == "reduced":
        return QR(*mx.linalg.qr(x))
    if mode != "complete":
        raise ValueError(f"[qr] mode must be 'reduced' or 'complete', not {mode!r}.")
    rows, columns = x.shape[-2:]
    if rows <= columns:
        return QR(*mx.linalg.qr(x))
    # A basis of the whole space: Q of x beside the identity has that of x in its first columns.
    identity = mx.broadcast_to(mx.eye(rows, dtype=x.dtype), (*x.shape[:-2], rows, rows))
    q = mx.linalg.qr(mx.concatenate([x, identity], -1))[0]
    r = mx.linalg.qr(x)[1]
    below = mx.zeros((*x.shape[:-2], rows - columns, columns), x.dtype)
    return QR(q, mx.concatenate([r, below], -2))


def slogdet(x: array, /) -> Slogdet:
    """The signs of the determinants, and the logarithms of their magnitudes."""
    return Slogdet(*mx.linalg.slogdet(x))


def solve(x1: array, x2: array, /) -> array:
    """The solutions of x1 @ x = x2; x2 is one vector if it has one axis, else matrices."""
    if x2.ndim == 1:
        batch = (*x1.shape[:-2], x1.shape[-1], 1)
        return mx.linalg.solve(x1, mx.broadcast_to(x2[:, None], batch))[..., 0]
    batch = mx.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    a, b = [mx.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2)]
    return mx.linalg.solve(a, b)


def svd(x: array, /, *, full_matrices: bool = True) -> SVD:
    """The singular value decomposition; with square matrices of vectors, or as many as there are values."""
    u, s, vh = mx.linalg.svd(x)
    if not full_matrices:
        count = min(x.shape[-2:])
        u, vh = u[..., :count], vh[..., :count, :]
    return SVD(u, s, vh)


def svdvals(x: array, /) -> array:
    """The singular values, descending."""
    return mx.linalg.svd(x, compute_uv=False)


def tensordot(x1: array, x2: array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> array:
    """The sum of products over axes of both: so many of the last and first, or those listed."""
    dtype = mx.result_type(x1, x2)
    if isinstance(axes, int):
        axes = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    first, second = [k % x1.ndim for k in axes[0]], [k % x2.ndim for k in axes[1]]
    left = [k for k in range(x1.ndim) if k not in first]
    right = [k for k in range(x2.ndim) if k not in second]
    if [x1.shape[k] for k in first] != [x2.shape[k] for k in second]:
        raise ValueError(f"[tensordot] Axes {axes} of arrays of shapes {x1.shape} and {x2.shape} do not fit.")
    rows, columns = [x1.shape[k] for k in left], [x2.shape[k] for k in right]
    count = 1
    for k in first:
        count *= x1.shape[k]
    a = mx.transpose(x1.astype(dtype), (*left, *first)).reshape(_size(rows), count)
    b = mx.transpose(x2.astype(dtype), (*second, *right)).reshape(count, _size(columns))
    return matmul(a, b).reshape(*rows, *columns)


def _size(shape: Sequence[int]) -> int:
    found = 1
    for n in shape:
        found *= n
    return found


def trace(x: array, /, *, offset: int = 0, dtype: Dtype | None = None) -> array:
    """The sums of the diagonals."""
    found = summed(diagonal(x, offset=offset), dtype)
    return mx.sum(found, -1).astype(found.dtype)


def vecdot(x1: array, x2: array, /, *, axis: int = -1) -> array:
    """The sums of conj(x1) * x2 along an axis."""
    dtype = mx.result_type(x1, x2)
    a, b = [mx.moveaxis(x, axis, -1).astype(dtype) for x in (x1, x2)]
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"[vecdot] Axes of {a.shape[-1]} and {b.shape[-1]} elements do not fit.")
    return mx.sum((mx.conj(a) if dtype._kind == "c" else a) * b, -1).astype(dtype)


def vector_norm(
    x: array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> array:
    """The norms of vectors along axes: of order `ord`, which may be infinite, or 0 for the number of non-zeros."""
    size = mx.abs(x)
    if ord == mx.inf:
        return mx.max(size, axis, keepdims)
    if ord == -mx.inf:
        return mx.min(size, axis, keepdims)
    if ord == 0:
        return mx.sum((size != 0).astype(size.dtype), axis, keepdims)
    if ord == 1:
        return mx.sum(size, axis, keepdims)
    if ord == 2:
        return mx.sqrt(mx.sum(mx.square(size), axis, keepdims))
    return mx.power(mx.sum(mx.power(size, ord), axis, keepdims), 1 / ord)


say_what_is_no_array(globals())
