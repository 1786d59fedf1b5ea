"""Products of vectors: inner, outer, elementwise along an axis, Kronecker."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp

from ..arguments import any_integer, axis_of, require_array
from ..define import broadcast, op
from ..movement.diagonals import sum_dtype
from .matmul import common, contract, inexact, wide

__all__ = ["INNER", "KRON", "OUTER", "VECDOT", "inner", "kron", "outer", "vecdot"]


def _inner_aval(a: Aval, b: Aval) -> Aval:
    if a.ndim == 0 or b.ndim == 0:
        return aval(a.shape + b.shape, promote(a.dtype, b.dtype))
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("[inner] a and b must have the same last dimension.")
    return aval(a.shape[:-1] + b.shape[:-1], inexact(a.dtype, b.dtype))


def _inner_impl(x: Any, y: Any) -> Any:
    if jnp.ndim(x) == 0 or jnp.ndim(y) == 0:
        dtype = common(x, y)
        return jnp.asarray(x, dtype) * jnp.asarray(y, dtype)
    return contract(x, y, ((-1,), (-1,)))


INNER = op("inner", _inner_impl, _inner_aval)


def inner(a: array, b: array, /, *, stream: Any = None) -> array:
    """Return the sum of products over the last axes of two arrays.

    Args:
        a: an array of shape (..., K), or a 0-d array, which multiplies.
        b: an array of shape (..., K), or a 0-d array.
        stream: accepted, and ignored.

    Returns:
        An array whose shape is that of `a`, then that of `b`, both without the last axis.

    Raises:
        ValueError: if the last axes differ in size, or if the promoted dtype is not a float.

    Example:
        >>> mx.inner(mx.ones(3), mx.ones((2, 3)))
        array([3, 3], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(INNER, (require_array(a, "inner"), require_array(b, "inner"))))


def _outer_impl(x: Any, y: Any) -> Any:
    dtype = common(x, y)
    return jnp.reshape(jnp.asarray(x, dtype), (-1, 1)) * jnp.reshape(jnp.asarray(y, dtype), (1, -1))


OUTER = op("outer", _outer_impl, lambda a, b: aval((a.size, b.size), promote(a.dtype, b.dtype)))


def outer(a: array, b: array, /, *, stream: Any = None) -> array:
    """Return the product of every element of one array with every element of another.

    Args:
        a: an array, flattened if it is not of one dimension.
        b: an array, flattened if it is not of one dimension.
        stream: accepted, and ignored.

    Returns:
        An array of shape (M, N), if `a` has M elements and `b` has N.

    Example:
        >>> mx.outer(mx.arange(2), mx.arange(3))
        array([[0, 0, 0],
               [0, 1, 2]], dtype=int32)
    """
    check_stream(stream)
    return wrap(apply(OUTER, (require_array(a, "outer"), require_array(b, "outer"))))


def _vecdot_aval(a: Aval, b: Aval, axis: int) -> Aval:
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("[vecdot] inputs must be at least 1D.")
    k = axis_of(axis, a.ndim, message="[vecdot] axis is out of bounds.")
    if k != (axis + b.ndim if axis < 0 else axis) or axis >= b.ndim:
        raise ValueError("[vecdot] axis is out of bounds.")
    if a.shape[k] != b.shape[k]:
        raise ValueError("[vecdot] a and b must have the same size along axis.")
    shape = list(broadcast(a.shape, b.shape))
    del shape[k]
    return aval(tuple(shape), sum_dtype(promote(a.dtype, b.dtype)))


def _vecdot_impl(x: Any, y: Any, axis: int) -> Any:
    dtype = common(x, y)
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    total = sum_dtype(from_numpy(dtype))._numpy  # type: ignore[arg-type]
    products = jnp.conj(x) * y if dtype.kind == "c" else x * y
    return jnp.sum(products, axis=axis % x.ndim, dtype=wide(total)).astype(total)


VECDOT = op("vecdot", _vecdot_impl, _vecdot_aval, ("axis",))


def vecdot(a: array, b: array, /, axis: int = -1, *, stream: Any = None) -> array:
    """Return the dot products of vectors along an axis. If they are complex, the first one is conjugated.

    Args:
        a: an array of at least one dimension.
        b: an array of at least one dimension. The operands broadcast against each other.
        axis: the axis of the vectors, the same one in both arrays.
        stream: accepted, and ignored.

    Returns:
        An array without that axis.

    Raises:
        ValueError: if the sizes along the axis differ, or if it is not the same axis in both arrays.
        IndexError: if `a` has no such axis.

    Example:
        >>> mx.vecdot(mx.ones((2, 3)), mx.ones((2, 3)))
        array([3, 3], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(VECDOT, (require_array(a, "vecdot"), require_array(b, "vecdot")), (any_integer(axis),)))


def _kron_aval(a: Aval, b: Aval) -> Aval:
    if a.size == 0 or b.size == 0:
        raise ValueError("[kron] Input arrays cannot be empty.")
    ndim = max(a.ndim, b.ndim)
    shapes = [(1,) * (ndim - x.ndim) + x.shape for x in (a, b)]
    return aval(tuple([m * n for m, n in zip(*shapes, strict=True)]), promote(a.dtype, b.dtype))


def _kron_impl(x: Any, y: Any) -> Any:
    dtype = common(x, y)
    if dtype == np.bool_:  # JAX multiplies, but XLA has no product of bools
        return jnp.kron(jnp.asarray(x, np.uint8), jnp.asarray(y, np.uint8)).astype(dtype)
    return jnp.kron(jnp.asarray(x, dtype), jnp.asarray(y, dtype))


KRON = op("kron", _kron_impl, _kron_aval)


def kron(a: array, b: array, *, stream: Any = None) -> array:
    """Return the Kronecker product: the blocks `a[i, j] * b`.

    Args:
        a: a nonempty array.
        b: a nonempty array.
        stream: accepted, and ignored.

    Returns:
        An array whose sizes are the products of the sizes of `a` and `b`, axis by axis, from the last axis.

    Raises:
        ValueError: if an array is empty.

    Example:
        >>> mx.kron(mx.eye(2), mx.ones((2, 2)))
        array([[1, 1, 0, 0],
               [1, 1, 0, 0],
               [0, 0, 1, 1],
               [0, 0, 1, 1]], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(KRON, (require_array(a, "kron"), require_array(b, "kron"))))
