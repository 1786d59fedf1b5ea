"""The linear algebra extension of the standard. The last two axes are matrices; the axes before them are a batch."""

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
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: array
    eigenvectors: array


class QR(NamedTuple):
    """The result of `qr`: a matrix with orthonormal columns, and an upper triangular matrix."""

    Q: array
    R: array


class Slogdet(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: array
    logabsdet: array


class SVD(NamedTuple):
    """The left singular vectors as columns, the singular values in descending order, and the right vectors as rows."""

    U: array
    S: array
    Vh: array


def cholesky(x: array, /, *, upper: bool = False) -> array:
    """Compute the Cholesky factor of positive definite matrices, lower triangular or `upper`."""
    return mx.linalg.cholesky(x, upper)


def cross(x1: array, x2: array, /, *, axis: int = -1) -> array:
    """Compute the cross products of vectors with three elements."""
    dtype = mx.result_type(x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"[cross] Vectors of 3 elements are needed, not {x1.shape[axis]} and {x2.shape[axis]}.")
    a, b = [mx.moveaxis(x.astype(dtype), axis, -1) for x in mx.broadcast_arrays(x1, x2)]
    parts = [a[..., (k + 1) % 3] * b[..., (k + 2) % 3] - a[..., (k + 2) % 3] * b[..., (k + 1) % 3] for k in range(3)]
    return mx.stack(parts, axis)


def det(x: array, /) -> array:
    """Compute the determinants of matrices."""
    return mx.linalg.det(x)


def diagonal(x: array, /, *, offset: int = 0) -> array:
    """Return the diagonals of matrices."""
    return mx.diagonal(x, offset, -2, -1)


def eigh(x: array, /) -> Eigh:
    """Compute the eigenvalues and eigenvectors of Hermitian matrices."""
    return Eigh(*mx.linalg.eigh(x))


def eigvalsh(x: array, /) -> array:
    """Compute the eigenvalues of Hermitian matrices, in ascending order."""
    return mx.linalg.eigvalsh(x)


def inv(x: array, /) -> array:
    """Compute the inverses of matrices."""
    return mx.linalg.inv(x)


def matmul(x1: array, x2: array, /) -> array:
    """Multiply matrices, or a vector and a matrix. Integers are multiplied elementwise and summed."""
    dtype = mx.result_type(x1, x2)
    if dtype._kind in "fc":
        return mx.matmul(x1, x2)
    if x1.ndim == 1 and x2.ndim == 1:
        return vecdot(x1, x2)
    a = x1[None] if x1.ndim == 1 else x1
    b = x2[:, None] if x2.ndim == 1 else x2
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"[matmul] Shapes {x1.shape} and {x2.shape} do not fit.")
    product = mx.sum(a.astype(dtype)[..., None] * b.astype(dtype)[..., None, :, :], -2).astype(dtype)
    return product[..., 0, :] if x1.ndim == 1 else product[..., 0] if x2.ndim == 1 else product


def matrix_norm(x: array, /, *, keepdims: bool = False, ord: Any = "fro") -> array:
    """Compute the norms of matrices; `ord` is "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    if ord == "nuc" or ord in (2, -2):
        values = svdvals(x)
        norms = mx.sum(values, -1) if ord == "nuc" else mx.max(values, -1) if ord == 2 else mx.min(values, -1)
    elif ord == "fro":
        norms = mx.sqrt(mx.sum(mx.square(mx.abs(x)), (-2, -1)))
    elif ord in (1, -1, mx.inf, -mx.inf):
        sums = mx.sum(mx.abs(x), -2 if ord in (1, -1) else -1)
        norms = mx.max(sums, -1) if ord > 0 else mx.min(sums, -1)
    else:
        raise ValueError(f"[matrix_norm] ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}.")
    return norms[..., None, None] if keepdims else norms


def matrix_power(x: array, n: int, /) -> array:
    """Raise matrices to the power n. For a negative n, their inverses are multiplied."""
    if n < 0:
        x, n = inv(x), -n
    power = mx.broadcast_to(mx.eye(x.shape[-1], dtype=x.dtype), x.shape)
    while n:
        if n & 1:
            power = matmul(power, x)
        x, n = (matmul(x, x) if n > 1 else x), n >> 1
    return power


def _tolerance(x: array, rtol: Any) -> Any:
    if rtol is None:
        return max(x.shape[-2:]) * mx.finfo(x.dtype).eps
    return rtol[..., None] if isinstance(rtol, array) else rtol


def matrix_rank(x: array, /, *, rtol: float | array | None = None) -> array:
    """Return the number of singular values above `rtol` times the largest, as int32."""
    values = svdvals(x)
    limit = mx.max(values, -1, keepdims=True) * _tolerance(x, rtol)
    return mx.sum((values > limit).astype(mx.int32), -1)


def matrix_transpose(x: array, /) -> array:
    """Swap the rows and columns of matrices."""
    return mx.swapaxes(x, -1, -2)


def outer(x1: array, x2: array, /) -> array:
    """Multiply each element of one vector by each element of another."""
    return x1[:, None] * x2[None, :]


def pinv(x: array, /, *, rtol: float | array | None = None) -> array:
    """Compute pseudo-inverses. Singular values up to `rtol` times the largest count as zero."""
    u, s, vh = svd(x, full_matrices=False)
    limit = mx.max(s, -1, keepdims=True) * _tolerance(x, rtol)
    inverse = mx.where(s > limit, 1 / s, mx.array(0, s.dtype)).astype(x.dtype)
    return mx.matmul(mx.conj(matrix_transpose(vh)) * inverse[..., None, :], mx.conj(matrix_transpose(u)))


def qr(x: array, /, *, mode: str = "reduced") -> QR:
    """Compute the QR decomposition; the mode is "reduced" or "complete".

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
    # Complete the basis: Q of [x, identity] begins with the columns of x's own Q.
    identity = mx.broadcast_to(mx.eye(rows, dtype=x.dtype), (*x.shape[:-2], rows, rows))
    q = mx.linalg.qr(mx.concatenate([x, identity], -1))[0]
    r = mx.linalg.qr(x)[1]
    below = mx.zeros((*x.shape[:-2], rows - columns, columns), x.dtype)
    return QR(q, mx.concatenate([r, below], -2))


def slogdet(x: array, /) -> Slogdet:
    """Compute the signs of determinants, and the logarithms of their magnitudes."""
    return Slogdet(*mx.linalg.slogdet(x))


def solve(x1: array, x2: array, /) -> array:
    """Solve x1 @ x = x2 for x. With one axis, x2 is a vector; with more, it holds matrices."""
    if x2.ndim == 1:
        batch = (*x1.shape[:-2], x1.shape[-1], 1)
        return mx.linalg.solve(x1, mx.broadcast_to(x2[:, None], batch))[..., 0]
    batch = mx.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    a, b = [mx.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2)]
    return mx.linalg.solve(a, b)


def svd(x: array, /, *, full_matrices: bool = True) -> SVD:
    """Compute the singular value decomposition. Without `full_matrices` there is one singular vector per singular
    value."""
    u, s, vh = mx.linalg.svd(x)
    if not full_matrices:
        count = min(x.shape[-2:])
        u, vh = u[..., :count], vh[..., :count, :]
    return SVD(u, s, vh)


def svdvals(x: array, /) -> array:
    """Compute the singular values in descending order."""
    return mx.linalg.svd(x, compute_uv=False)


def tensordot(x1: array, x2: array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> array:
    """Sum products over axes of both arrays: a number of last and first axes, or the listed ones."""
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
    size = 1
    for n in shape:
        size *= n
    return size


def trace(x: array, /, *, offset: int = 0, dtype: Dtype | None = None) -> array:
    """Compute the sums of the diagonals."""
    summands = summed(diagonal(x, offset=offset), dtype)
    return mx.sum(summands, -1).astype(summands.dtype)


def vecdot(x1: array, x2: array, /, *, axis: int = -1) -> array:
    """Sum conj(x1) * x2 along an axis."""
    dtype = mx.result_type(x1, x2)
    a, b = [mx.moveaxis(x, axis, -1).astype(dtype) for x in (x1, x2)]
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"[vecdot] Axes of {a.shape[-1]} and {b.shape[-1]} elements do not fit.")
    return mx.sum((mx.conj(a) if dtype._kind == "c" else a) * b, -1).astype(dtype)


def vector_norm(
    x: array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> array:
    """Compute the norms of vectors along axes. The order `ord` may be infinite, or 0 to count the nonzero elements."""
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
