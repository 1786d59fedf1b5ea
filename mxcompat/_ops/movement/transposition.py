"""Transposition: the same elements with the axes in another order.

Everything here is one op, `transpose`, whose parameter is a permutation, or None to reverse the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import apply
from mxcompat._graph.policy import MOST_ENTRIES
from mxcompat._jax import jnp

from ..arguments import any_integer, axis_of, integer, plain, require_array
from ..define import op

__all__ = ["matrix_transpose", "moveaxis", "permute_dims", "swapaxes", "transpose"]


@lru_cache(MOST_ENTRIES)
def order(ndim: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return, for each axis of the result, the axis that it comes from."""
    if axes is None:
        return tuple(range(ndim))[::-1]
    if len(axes) != ndim:
        raise ValueError(f"[transpose] Received {len(axes)} axes for array with {ndim} dimensions.")
    order: list[int] = []
    for axis in axes:
        k = axis_of(axis, ndim, message="[transpose] Invalid axis ({place}) for array with {ndim} dimensions.")
        if k in order:
            raise ValueError("[transpose] Repeat axes not allowed.")
        order.append(k)
    return tuple(order)


def _transposed(a: Aval, axes: tuple[int, ...] | None) -> Aval:
    return aval(tuple([a.shape[k] for k in order(a.ndim, axes)]), a.dtype)


TRANSPOSE = op("transpose", lambda x, axes: jnp.transpose(x, order(jnp.ndim(x), axes)), _transposed, ("axes",))


def transpose(a: array, /, axes: Sequence[int] | None = None, *, stream: Any = None) -> array:
    """Reorder the axes.

    Args:
        a: an array.
        axes: for each axis of the result, the axis of `a` that it comes from; None reverses the axes.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if `axes` is not a permutation of the axes.
        IndexError: if there is no such axis.

    Example:
        >>> mx.transpose(mx.zeros((2, 3, 4)), (0, 2, 1)).shape
        (2, 4, 3)
    """
    if stream is not None:
        check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "transpose")
    return wrap(apply(TRANSPOSE, (x,), (None if axes is None else plain(axes, integer),)))


def permute_dims(a: array, /, axes: Sequence[int] | None = None, *, stream: Any = None) -> array:
    """Reorder the axes, like `transpose`.

    Args:
        a: an array.
        axes: for each axis of the result, the axis of `a` that it comes from; None reverses the axes.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if `axes` is not a permutation of the axes.
        IndexError: if there is no such axis.

    Example:
        >>> mx.permute_dims(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
        (3, 2, 4)
    """
    check_stream(stream)
    return transpose(a, axes)


_BAD_AXIS = "[{name}] Invalid axis {axis} for array with {ndim} dimensions."


@lru_cache(None)
def _swap(ndim: int, first: int, second: int, name: str) -> tuple[int, ...]:
    order = list(range(ndim))
    i, j = (axis_of(k, ndim, name, _BAD_AXIS) for k in (first, second))
    order[i], order[j] = order[j], order[i]
    return tuple(order)


@lru_cache(None)
def _move(ndim: int, source: int, destination: int) -> tuple[int, ...]:
    order = list(range(ndim))
    i, j = (axis_of(k, ndim, "moveaxis", _BAD_AXIS) for k in (source, destination))
    order.insert(j, order.pop(i))
    return tuple(order)


def matrix_transpose(a: array, /, *, stream: Any = None) -> array:
    """Swap the last two axes.

    Args:
        a: an array of at least two dimensions.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., N, M) with the dtype of `a`, if `a` is (..., M, N).

    Raises:
        ValueError: if `a` has fewer than two dimensions.

    Example:
        >>> mx.matrix_transpose(mx.zeros((5, 2, 3))).shape
        (5, 3, 2)
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "matrix_transpose")
    if x.aval.ndim < 2:
        raise ValueError("[matrix_transpose] Input array must have at least 2 dimensions.")
    return wrap(apply(TRANSPOSE, (x,), (_swap(x.aval.ndim, -1, -2, "swapaxes"),)))


def swapaxes(a: array, /, axis1: int, axis2: int, *, stream: Any = None) -> array:
    """Swap two axes.

    Args:
        a: an array.
        axis1: one axis.
        axis2: the other axis.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        IndexError: if there is no such axis.

    Example:
        >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, -1).shape
        (4, 3, 2)
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "swapaxes")
    return wrap(apply(TRANSPOSE, (x,), (_swap(x.aval.ndim, any_integer(axis1), any_integer(axis2), "swapaxes"),)))


def moveaxis(a: array, /, source: int, destination: int, *, stream: Any = None) -> array:
    """Move one axis to another place; the others keep their order.

    Args:
        a: an array.
        source: the axis to move.
        destination: its place in the result.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        IndexError: if there is no such axis.

    Example:
        >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "moveaxis")
    return wrap(apply(TRANSPOSE, (x,), (_move(x.aval.ndim, any_integer(source), any_integer(destination)),)))
