"""Products and sums of products in NumPy, laid out for BLAS: helpers of the host rules of all products.

Half precision is multiplied in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from mxcompat._graph.policy import (
    DIVIDED_PRODUCTS,
    FEW_ELEMENTS,
    LARGE_ELEMENTS,
    MOST_ENTRIES,
    ORDERED_TERMS,
    PART_MULTIPLE,
    PARTS_PER_THREAD,
    SEPARATE_ELEMENTS,
)
from mxcompat._graph.run.blas import is_limited
from mxcompat._graph.run.kernel_time import as_fast_as_xla
from mxcompat._graph.run.parts import in_parts, threads

__all__ = [
    "Numbers", "bilinear", "chosen", "clipped", "contract", "multiply", "pull_contraction", "pull_product", "rounded",
    "swapped", "times", "wide_dtype", "widened",
]  # fmt: skip

_HALVES = {np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)}
_FLOAT32 = np.dtype(np.float32)

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
"""Dimension numbers of a contraction: the summed axes and the batch axes, as for `jax.lax.dot_general`."""


def wide_dtype(dtype: Any) -> Any:
    """Return the NumPy dtype for products and sums."""
    return _FLOAT32 if dtype in _HALVES else dtype


def widened(x: Any, dtype: Any) -> Any:
    """Return an operand cast to the dtype of the result, and then to the dtype of the computation."""
    if x.dtype != dtype:
        x = x.astype(dtype)
    return x.astype(_FLOAT32) if dtype in _HALVES else x


def rounded(x: Any, dtype: Any) -> Any:
    """Return a result in its dtype."""
    return x if x.dtype == dtype else x.astype(dtype)


def swapped(x: Any) -> Any:
    """Return the array with its last two axes swapped."""
    return x.T if x.ndim == 2 else x.swapaxes(-1, -2)


def times(x: Any, y: Any) -> Any:
    """Return the product of matrices, batches of matrices, or vectors.

    BLAS has a separate function for vectors, which adds in another order. So a small row or column is doubled, and the
    product of the two equal ones is computed. The result is then the same as within a larger matrix. If each element is
    a sum of few products, these are added one after the other, each rounded, as in MLX.
    """
    if _are_few(x, y):
        return _in_order(x, y)
    row, column = x.ndim == 1 or x.shape[-2] == 1, y.ndim == 1 or y.shape[-1] == 1
    if (row or column) and x.ndim + y.ndim > 2 and _are_small(x, y):
        return _of_pairs(x, y, column)
    return _by_blas(x, y)


def _by_blas(x: Any, y: Any) -> Any:
    """Return a product, computed by several threads if it is long."""
    if x.ndim > 1 and y.ndim > 1 and x.size * y.shape[-1] >= DIVIDED_PRODUCTS:
        with as_fast_as_xla():
            return _in_parts(x, y) if _can_be_divided(x, y) else _undivided(x, y)
    return _undivided(x, y)


def _undivided(x: Any, y: Any) -> Any:
    return np.matmul(x, y) if y.ndim > 2 else x.dot(y)


def _can_be_divided(x: Any, y: Any) -> bool:
    """Return True if a product can be divided among threads: its operands are arrays (not symbols), and BLAS is limited
    to one thread although the process may use more."""
    is_concrete = type(x) is type(y) is np.ndarray and x.dtype.char in "fd" and x.shape[:-2] == y.shape[:-2]
    return is_concrete and is_limited() and threads() > 1


def _in_parts(x: Any, y: Any) -> Any:
    """Multiply in several threads: parts of a batch, or of the rows or columns of the result."""
    out = np.empty((*x.shape[:-1], y.shape[-1]), x.dtype)
    rows, columns = out.ndim - 2, out.ndim - 1
    parts = PARTS_PER_THREAD * threads()
    longer = rows if out.shape[rows] >= out.shape[columns] else columns
    axis = next((k for k in range(rows) if out.shape[k] >= parts), longer)
    length = -(-out.shape[axis] // parts)
    if axis == longer:
        length = -(-length // PART_MULTIPLE) * PART_MULTIPLE

    def multiply_part(k: int) -> None:
        part = (slice(None),) * axis + (slice(k * length, (k + 1) * length),)
        left, right = x if axis == columns else x[part], y if axis == rows else y[part]
        np.matmul(left, right, out=out[part])

    in_parts(multiply_part, -(-out.shape[axis] // length))
    return out


def _are_few(x: Any, y: Any) -> bool:
    """Return True for concrete arrays (not symbols) whose product has few elements, each a sum of few terms."""
    inner = x.shape[-1]
    if not 1 < inner <= ORDERED_TERMS or type(x) is not np.ndarray or type(y) is not np.ndarray:
        return False
    rows, columns = x.shape[-2] if x.ndim > 1 else 1, y.shape[-1] if y.ndim > 1 else 1
    return max(x.size * columns, y.size * rows) <= FEW_ELEMENTS * inner and x.dtype.char in "fd"


def _in_order(x: Any, y: Any) -> Any:
    left, right = x if x.ndim > 1 else x[None], y if y.ndim > 1 else y[:, None]
    total = left[..., :1] * right[..., :1, :]
    for k in range(1, x.shape[-1]):
        total += left[..., k : k + 1] * right[..., k : k + 1, :]
    if y.ndim == 1:
        total = total[..., 0]
    return total if x.ndim > 1 else total[0] if y.ndim == 1 else total[..., 0, :]


def _are_small(x: Any, y: Any) -> bool:
    """Return whether these are small concrete arrays (not symbols) with a BLAS dtype."""
    if x.size > LARGE_ELEMENTS or y.size > LARGE_ELEMENTS:
        return False
    return type(x) is type(y) is np.ndarray and x.dtype.char in "fdF"


def _of_pairs(x: Any, y: Any, column: bool) -> Any:
    if column:
        out = times(x, (y if y.ndim > 1 else y[:, None]).repeat(2, -1))
        out = out[..., :1] if y.ndim > 1 else out[..., 0]
    else:
        out = times((x if x.ndim > 1 else x[None]).repeat(2, -2), y)
        out = out[..., :1, :] if x.ndim > 1 else out[..., 0, :]
    return np.ascontiguousarray(out)


def multiply(x: Any, y: Any) -> Any:
    """Return the matrix product of arrays with one dtype, which is not half precision. A batch of rows counts as one
    matrix."""
    if x.ndim > 2 and y.ndim == 2 and x.size:
        return times(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[-1])
    return times(x, y)


def pull_product(g: Any, x: Any, y: Any, needs_grad: Sequence[bool]) -> tuple[Any, Any]:
    """Return the cotangents of the operands of `multiply`, from the cotangent of its result."""
    if x.ndim == 1 and y.ndim == 1:
        return g * y, g * x
    if x.ndim == 1:
        g = g[..., None, :]
    elif y.ndim == 1:
        g = g[..., None]
    rows = x[None] if x.ndim == 1 else x
    columns = y[:, None] if y.ndim == 1 else y
    gx = gy = None
    if needs_grad[0]:
        gx = multiply(g, swapped(columns))
        gx = gx[..., 0, :] if x.ndim == 1 else gx
    if needs_grad[1]:
        if columns.ndim == 2 and rows.ndim > 1 and g.size and rows.size:
            product = times if rows.ndim == 2 else _by_blas
            left, right = rows.reshape(-1, rows.shape[-1]), g.reshape(-1, g.shape[-1])
            gy = product(right.T, left).T if _is_transposed(columns) else product(left.T, right)
        else:
            gy = multiply(swapped(rows), g)
        gy = gy[..., 0] if y.ndim == 1 else gy
    return gx, gy


def _is_transposed(x: Any) -> bool:
    """Return True for the transpose of a matrix that is stored by rows, such as the weights of a linear layer.

    Its cotangent is computed as the transpose of such a matrix, too. Otherwise, an optimizer would copy it before each
    of its ops on the weights (a step of AdamW with GPT-2 small: 0.7 of 4.3 s).
    """
    return type(x) is np.ndarray and x.flags.f_contiguous and not x.flags.c_contiguous


def _rest(ndim: int, *used: tuple[int, ...]) -> tuple[int, ...]:
    taken = {k for group in used for k in group}
    return tuple([k for k in range(ndim) if k not in taken])


@lru_cache(MOST_ENTRIES)
def _layout(shape_x: tuple[int, ...], shape_y: tuple[int, ...], numbers: Numbers) -> tuple[Any, ...]:
    """Return the axis orders and shapes that turn a contraction into a matrix product, and the shape of its result."""
    (sum_x, sum_y), (batch_x, batch_y) = numbers
    free_x, free_y = _rest(len(shape_x), sum_x, batch_x), _rest(len(shape_y), sum_y, batch_y)
    batch = tuple([shape_x[k] for k in batch_x])
    left, right = tuple([shape_x[k] for k in free_x]), tuple([shape_y[k] for k in free_y])
    inner = math.prod([shape_x[k] for k in sum_x])
    orders = batch_x + free_x + sum_x, batch_y + sum_y + free_y
    return *orders, (*batch, math.prod(left), inner), (*batch, inner, math.prod(right)), batch + left + right


def contract(x: Any, y: Any, numbers: Numbers) -> Any:
    """Return `jax.lax.dot_general` of arrays with one dtype, which is not half precision. The axes are: batch, x, y."""
    order_x, order_y, shape_x, shape_y, out = _layout(x.shape, y.shape, numbers)
    return multiply(x.transpose(order_x).reshape(shape_x), y.transpose(order_y).reshape(shape_y)).reshape(out)


def pull_contraction(g: Any, x: Any, y: Any, numbers: Numbers, needs_grad: Sequence[bool]) -> tuple[Any, Any]:
    """Return the cotangents of the operands of `contract`, from the cotangent of its result."""
    (sum_x, sum_y), (batch_x, batch_y) = numbers
    free_x, free_y = _rest(x.ndim, sum_x, batch_x), _rest(y.ndim, sum_y, batch_y)
    count, most = len(batch_x), len(batch_x) + len(free_x)
    lead = tuple(range(count))
    gx = gy = None
    if needs_grad[0]:
        out = contract(g, y, ((tuple(range(most, g.ndim)), free_y), (lead, batch_y)))
        order = sorted(range(len(sum_y)), key=sum_y.__getitem__)  # the summed axes are in the order of y
        gx = out.transpose(np.argsort([*batch_x, *free_x, *[sum_x[k] for k in order]]))
    if needs_grad[1]:
        out = contract(g, x, ((tuple(range(count, most)), free_x), (lead, batch_x)))
        order = sorted(range(len(sum_x)), key=sum_x.__getitem__)
        gy = out.transpose(np.argsort([*batch_y, *free_y, *[sum_y[k] for k in order]]))
    return gx, gy


def clipped(indices: Any, count: int) -> Any:
    """Return indices in the form that NumPy takes. Those out of bounds are clipped."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(count - 1))
    return np.minimum(np.maximum(indices.astype(np.intp), 0), count - 1)


def chosen(x: Any, indices: Any, matrix: Callable[[int], Any], count: int, shape: tuple[int, int]) -> Any:
    """Return `x @ matrices[indices]`. Each matrix is made once, and multiplied by all its rows together.

    Args:
        x: an array of shape (..., M, K).
        indices: the numbers of the matrices, from `clipped`; they broadcast against the leading axes of x.
        matrix: the function that returns the matrix of shape (K, N) for a number.
        count: the number of matrices.
        shape: the shape of each matrix.

    Returns:
        An array of shape (..., M, N).
    """
    batch = np.broadcast_shapes(x.shape[:-2], indices.shape)
    size = math.prod(batch)
    if math.prod(shape) * size <= SEPARATE_ELEMENTS and count <= size:
        return times(x, np.stack([matrix(k) for k in range(count)])[indices])
    rows = x if x.shape[:-2] == batch else np.broadcast_to(x, (*batch, *x.shape[-2:]))
    rows = rows.reshape(size, *x.shape[-2:])
    out = np.empty((size, x.shape[-2], shape[1]), x.dtype)
    numbers = indices if indices.shape == batch else np.broadcast_to(indices, batch)
    places: dict[int, list[int]] = {}
    for place, k in enumerate(numbers.ravel().tolist()):
        places.setdefault(k, []).append(place)
    for k, some in places.items():
        if len(some) == 1:
            out[some[0]] = multiply(rows[some[0]], matrix(k))
        else:
            out[some] = multiply(rows[some], matrix(k))
    return out.reshape(*batch, *out.shape[-2:])


def bilinear(product: Any, tangents: Any, dtype: Any, x: Any, y: Any) -> Any:
    """Return the tangent of a product of two operands."""
    dx, dy = tangents
    if dy is None:
        return product(widened(dx, dtype), widened(y, dtype))
    moved = product(widened(x, dtype), widened(dy, dtype))
    return moved if dx is None else moved + product(widened(dx, dtype), widened(y, dtype))
