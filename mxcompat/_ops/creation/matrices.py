"""Matrices of ones and zeros: ones on a diagonal, or at and below a diagonal."""

from __future__ import annotations

from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.casting import converted
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp

from ..arguments import integer, require_dtype
from ..define import op
from ..movement.diagonals import distance, on_diagonal

__all__ = ["eye", "identity", "tri"]

EYE = op(
    "eye",
    lambda out, k: converted(on_diagonal(out.shape, k), out.dtype),
    lambda out, k: out,
    ("out", "k"),
)

TRI = op(
    "tri",
    lambda out, k: converted(distance(out.shape) <= jnp.int32(k), out.dtype),
    lambda out, k: out,
    ("out", "k"),
)


def eye(n: int, m: int | None = None, k: int = 0, dtype: Dtype | None = _d.float32, *, stream: Any = None) -> array:
    """Return a matrix with ones on a diagonal.

    Args:
        n: the number of rows.
        m: the number of columns; None for `n`.
        k: the diagonal: above the main one if positive, below it if negative.
        dtype: the dtype; None for float32.
        stream: accepted, and ignored.

    Returns:
        An array of shape (n, m).

    Raises:
        ValueError: if a size is negative.

    Example:
        >>> mx.eye(2, 3, k=1)
        array([[0, 1, 0],
               [0, 0, 1]], dtype=float32)
    """
    check_stream(stream)
    shape, k, dtype = (integer(n), integer(n if m is None else m)), integer(k), _dtype(dtype)
    if min(shape) < 0:
        raise ValueError("[eye] N and M must be positive integers.")
    return wrap(_constant(EYE, shape, dtype, k))


def _constant(record: Any, shape: tuple[int, int], dtype: Dtype | None, k: int) -> Node:
    return apply(record, (), (aval(shape, _dtype(dtype)), integer(k)))


def _dtype(dtype: Dtype | None) -> Dtype:
    return _d.float32 if dtype is None else require_dtype(dtype, "")


def identity(n: int, dtype: Dtype | None = _d.float32, *, stream: Any = None) -> array:
    """Return a square matrix with ones on its main diagonal.

    Args:
        n: the number of rows and of columns.
        dtype: the dtype; None for float32.
        stream: accepted, and ignored.

    Returns:
        An array of shape (n, n).

    Raises:
        ValueError: if `n` is negative.

    Example:
        >>> mx.identity(3)
        array([[1, 0, 0],
               [0, 1, 0],
               [0, 0, 1]], dtype=float32)
    """
    check_stream(stream)
    return eye(n, dtype=dtype)


def tri(n: int, m: int | None = None, k: int = 0, dtype: Dtype | None = None, *, stream: Any = None) -> array:
    """Return a matrix with ones at and below a diagonal.

    Args:
        n: the number of rows; a negative one counts as 0.
        m: the number of columns; None for `n`.
        k: the diagonal: above the main one if positive, below it if negative.
        dtype: the dtype; None for float32.
        stream: accepted, and ignored.

    Returns:
        An array of shape (n, m).

    Example:
        >>> mx.tri(3, k=-1)
        array([[0, 0, 0],
               [1, 0, 0],
               [1, 1, 0]], dtype=float32)
    """
    check_stream(stream)
    shape = (max(0, integer(n)), max(0, integer(n if m is None else m)))
    return wrap(_constant(TRI, shape, dtype, k))
