"""Searching, sorting and set functions of the standard. If a result's shape depends on the data, the data are
evaluated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxcompat import core as mx
from mxcompat.core import array

__all__ = [
    "argmax", "argmin", "argsort", "isin", "nonzero", "searchsorted", "sort", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "where",
]  # fmt: skip


def argmax(x: array, /, *, axis: int | None = None, keepdims: bool = False) -> array:
    """Return the index of the first largest element, as int32."""
    return mx.argmax(x, axis, keepdims).astype(mx.int32)


def argmin(x: array, /, *, axis: int | None = None, keepdims: bool = False) -> array:
    """Return the index of the first smallest element, as int32."""
    return mx.argmin(x, axis, keepdims).astype(mx.int32)


def argsort(x: array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> array:
    """Return the int32 indices that sort the elements along an axis; equal elements keep their order."""
    if not descending:
        return mx.argsort(x, axis).astype(mx.int32)
    last = x.shape[axis] - 1
    return mx.flip(last - mx.argsort(mx.flip(x, axis), axis).astype(mx.int32), axis)


def isin(x1: array | complex, x2: array | complex, /, *, invert: bool = False) -> array:
    """Return, for each element of x1, whether it is an element of x2."""
    x1 = x1 if isinstance(x1, array) else mx.array(x1)
    x2 = x2 if isinstance(x2, array) else mx.array(x2)
    is_in = mx.any(x1[..., None] == x2.reshape(-1), -1)
    return mx.logical_not(is_in) if invert else is_in


def nonzero(x: array, /) -> tuple[array, ...]:
    """Return the indices of the nonzero elements, as one int32 array for each axis. Evaluates `x`.

    Raises:
        ValueError: if `x` has no axes.
    """
    if not x.ndim:
        raise ValueError("[nonzero] An array with one axis at least is needed.")
    return tuple([mx.array(k.astype(np.int32)) for k in np.nonzero(np.asarray(x))])


def searchsorted(x1: array, x2: array | complex, /, *, side: str = "left", sorter: array | None = None) -> array:
    """Return the int32 index at which each element of x2 fits into the sorted x1, before (left) or after (right) equal
    elements."""
    x1 = x1 if sorter is None else mx.take(x1, sorter, 0)
    x2 = x2 if isinstance(x2, array) else mx.array(x2, x1.dtype)
    return mx.searchsorted(x1, x2, side).astype(mx.int32)


def sort(x: array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> array:
    """Sort the elements along an axis."""
    ordered = mx.sort(x, axis)
    return mx.flip(ordered, axis) if descending else ordered


class UniqueAll(NamedTuple):
    """The distinct values, their first indices, the index into the values for each element, and the counts."""

    values: array
    indices: array
    inverse_indices: array
    counts: array


class UniqueCounts(NamedTuple):
    """The distinct values and their counts."""

    values: array
    counts: array


class UniqueInverse(NamedTuple):
    """The distinct values, and the index into them for each element."""

    values: array
    inverse_indices: array


def unique_all(x: array, /) -> UniqueAll:
    """Return the distinct elements in order, with their first indices, inverse indices and counts. NaNs count as
    distinct. Evaluates `x`."""
    data = np.asarray(x)
    results = np.unique(data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    values, indices, inverse, counts = results
    places = [mx.array(k.astype(np.int32)) for k in (indices, inverse.reshape(data.shape), counts)]
    return UniqueAll(mx.array(values, x.dtype), *places)


def unique_counts(x: array, /) -> UniqueCounts:
    """Return the distinct elements in order, and their counts. Evaluates `x`."""
    unique = unique_all(x)
    return UniqueCounts(unique.values, unique.counts)


def unique_inverse(x: array, /) -> UniqueInverse:
    """Return the distinct elements in order, and the index into them for each element. Evaluates `x`."""
    unique = unique_all(x)
    return UniqueInverse(unique.values, unique.inverse_indices)


def unique_values(x: array, /) -> array:
    """Return the distinct elements in order. Evaluates `x`."""
    return unique_all(x).values


def where(condition: array, x1: array | complex, x2: array | complex, /) -> array:
    """Select elements of x1 where the condition is true, and of x2 elsewhere."""
    return mx.where(condition, x1, x2)
