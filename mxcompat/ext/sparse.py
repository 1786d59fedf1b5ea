"""Sparse matrices: the nonzero elements and their indices, stored as in `jax.experimental.sparse.BCOO`.

Products consist of reads and writes by index. So they are lazy, run wherever these run, and have gradients with respect
to the values and to dense operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mxcompat import core as mx
from mxcompat._array.errors import expected
from mxcompat.core import Dtype, array

from .interop import from_jax, to_jax

__all__ = ["SparseMatrix", "from_bcoo", "from_coo", "from_dense", "matmul"]


class SparseMatrix(NamedTuple):
    """A matrix that stores only some of its elements. `from_dense`, `from_coo` and `from_bcoo` make one.

    It is a tree, so functions that are compiled, mapped or checkpointed can take and return it. To differentiate with
    respect to the values, make them the argument, see `with_values`.

    Args:
        values: the elements, an array of shape (n,).
        indices: their rows and columns, an int32 array of shape (n, 2). Elements with equal indices are added up.
        shape: the numbers of rows and columns.

    Example:
        >>> s = mx.ext.sparse.from_dense(mx.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> s @ mx.array([1.0, 10.0])
        array([20, 3], dtype=float32)
        >>> mx.grad(lambda v: (s.with_values(v) @ mx.array([1.0, 10.0])).sum())(s.values)
        array([10, 1], dtype=float32)
    """

    values: array
    indices: array
    shape: tuple[int, int]

    @property
    def dtype(self) -> Dtype:
        """The type of the elements."""
        return self.values.dtype

    @property
    def T(self) -> SparseMatrix:
        """The transpose."""
        return SparseMatrix(self.values, self.indices[:, ::-1], (self.shape[1], self.shape[0]))

    def with_values(self, values: array) -> SparseMatrix:
        """Return a matrix with other elements at the same indices.

        Raises:
            ValueError: if the number of elements differs.
        """
        if values.shape != self.values.shape:
            raise ValueError(f"[sparse] Expected values of shape {self.values.shape}, got {values.shape}.")
        return SparseMatrix(values, self.indices, self.shape)

    def todense(self) -> array:
        """Convert the matrix to a dense array."""
        rows, columns = self.indices[:, 0], self.indices[:, 1]
        return mx.zeros(self.shape, self.dtype).at[rows, columns].add(self.values)

    def to_bcoo(self) -> Any:
        """Convert the matrix to a JAX BCOO matrix."""
        from jax.experimental.sparse import BCOO  # imported here because the import is slow

        return BCOO((to_jax(self.values), to_jax(self.indices)), shape=self.shape)

    def astype(self, dtype: Dtype) -> SparseMatrix:
        """Cast the elements to another dtype."""
        return self.with_values(self.values.astype(dtype))

    def __matmul__(self, other: array | SparseMatrix) -> array:
        return matmul(self, other)

    def __mul__(self, other: Any) -> SparseMatrix:
        """Multiply each element by a number, or by the element of a dense matrix at its index."""
        if isinstance(other, array) and other.ndim:
            dense = mx.broadcast_to(other, self.shape)
            return self.with_values(self.values * dense[self.indices[:, 0], self.indices[:, 1]])
        return self.with_values(self.values * other)

    __rmul__ = __mul__

    def __neg__(self) -> SparseMatrix:
        return self.with_values(-self.values)

    def __add__(self, other: SparseMatrix) -> SparseMatrix:  # type: ignore[override]
        """Add two matrices; the result stores the elements of both."""
        if not isinstance(other, SparseMatrix) or other.shape != self.shape:
            what = other.shape if isinstance(other, SparseMatrix) else type(other).__name__
            raise ValueError(f"[sparse] Only a sparse matrix of shape {self.shape} can be added, not {what}.")
        values, indices = [self.values, other.values], [self.indices, other.indices]
        return SparseMatrix(mx.concatenate(values), mx.concatenate(indices), self.shape)

    def __sub__(self, other: SparseMatrix) -> SparseMatrix:
        return self + -other

    def __repr__(self) -> str:
        return f"SparseMatrix({self.dtype._label}{list(self.shape)}, {self.values.size} elements)"


def from_dense(x: array) -> SparseMatrix:
    """Return the sparse matrix of the nonzero elements of `x`. Evaluates `x`, because their number determines shapes.

    Raises:
        ValueError: if `x` is not a matrix; also within `vmap` and `compile`, where arrays have no value.
        TypeError: if `x` is not an array.

    Example:
        >>> mx.ext.sparse.from_dense(mx.eye(3))
        SparseMatrix(float32[3, 3], 3 elements)
    """
    if not isinstance(x, array):
        raise expected("from_dense", "an array", x)
    if x.ndim != 2:
        raise ValueError(f"[sparse] A matrix is needed, not an array of shape {x.shape}.")
    places = mx.array(np.argwhere(np.asarray(x != 0)).astype(np.int32).reshape(-1, 2))
    return SparseMatrix(x[places[:, 0], places[:, 1]], places, (x.shape[0], x.shape[1]))


def from_coo(values: Any, rows: Any, columns: Any, shape: Sequence[int]) -> SparseMatrix:
    """Make a matrix from its elements and their indices.

    Args:
        values: n numbers.
        rows, columns: n integers each. Elements with equal indices are added up.
        shape: the numbers of rows and columns.

    Raises:
        ValueError: if their lengths differ.
        IndexError: if an index is outside the shape. Arrays without a value are not checked.

    Example:
        >>> mx.ext.sparse.from_coo([1.0, 2.0], [0, 1], [2, 0], (2, 3)).todense()
        array([[0, 0, 1],
               [2, 0, 0]], dtype=float32)
    """
    values, rows, columns = [x if isinstance(x, array) else mx.array(x) for x in (values, rows, columns)]
    if not values.shape == rows.shape == columns.shape or values.ndim != 1:
        raise ValueError(
            f"[sparse] values, rows and columns must be vectors of one length, not of shapes {values.shape}, "
            f"{rows.shape} and {columns.shape}."
        )
    height, width = shape
    for what, places, n in (("row", rows, height), ("column", columns, width)):
        if places.dtype._kind not in "iu":
            raise ValueError(f"[sparse] The {what}s must be integers, not {places.dtype._label}.")
        if places.size and not places._node.trace and (int(mx.min(places)) < 0 or int(mx.max(places)) >= n):
            raise IndexError(f"[sparse] A {what} is out of bounds for a matrix of shape {(height, width)}.")
    return SparseMatrix(values, mx.stack([rows.astype(mx.int32), columns.astype(mx.int32)], 1), (height, width))


def from_bcoo(matrix: Any) -> SparseMatrix:
    """Convert a `jax.experimental.sparse.BCOO` matrix, without a copy.

    Raises:
        ValueError: if it does not have exactly two sparse axes.
        TypeError: if `matrix` is not a BCOO matrix.

    Example:
        >>> from jax.experimental.sparse import BCOO
        >>> mx.ext.sparse.from_bcoo(BCOO.fromdense(np.eye(3))).todense().sum()
        array(3, dtype=float32)
    """
    if not hasattr(matrix, "n_batch"):
        raise expected("from_bcoo", "a BCOO matrix", matrix)
    if matrix.n_batch or matrix.n_dense or matrix.n_sparse != 2:
        raise ValueError(f"[sparse] A matrix with two sparse axes is needed, not {matrix!r}.")
    return SparseMatrix(from_jax(matrix.data), from_jax(matrix.indices).astype(mx.int32), tuple(matrix.shape))


def matmul(a: array | SparseMatrix, b: array | SparseMatrix) -> array:
    """Multiply a sparse matrix by a dense matrix or a vector, or a dense matrix by a sparse one. All products are
    dense, also that of two sparse matrices.

    Raises:
        ValueError: if the shapes do not fit.
        TypeError: if an operand is neither an array nor a sparse matrix.

    Example:
        >>> s = mx.ext.sparse.from_dense(mx.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> mx.ext.sparse.matmul(mx.array([[1.0, 10.0]]), s)
        array([[30, 2]], dtype=float32)
    """
    for x in (a, b):
        if not isinstance(x, (array, SparseMatrix)):
            raise expected("matmul", "an array or a sparse matrix", x)
    if not isinstance(a, SparseMatrix):
        if not isinstance(b, SparseMatrix):
            return mx.matmul(a, b)
        product = matmul(b.T, a.T if a.ndim == 2 else a)
        return product.T if a.ndim == 2 else product
    dense = b.todense() if isinstance(b, SparseMatrix) else b
    if dense.ndim not in (1, 2) or dense.shape[0] != a.shape[1]:
        raise ValueError(f"[sparse] Matrices of shapes {a.shape} and {dense.shape} do not fit; use vmap for a batch.")
    rows, columns = a.indices[:, 0], a.indices[:, 1]
    values = a.values[:, None] if dense.ndim == 2 else a.values
    terms = values * dense[columns]
    return mx.zeros((a.shape[0], *dense.shape[1:]), terms.dtype).at[rows].add(terms)
