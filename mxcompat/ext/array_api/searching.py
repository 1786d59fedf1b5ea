"""Searching, sorting and set functions of the standard. Where the shape depends on the data, these are evaluated."""

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
    """The place of the first largest element, an int32."""
    return mx.argmax(x, axis, keepdims).astype(mx.int32)


def argmin(x: array, /, *, axis: int | None = None, keepdims: bool = False) -> array:
    """The place of the first smallest element, an int32."""
    return mx.argmin(x, axis, keepdims).astype(mx.int32)


def argsort(x: array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> array:
    """The places of the elements in order along an axis, int32; equal ones stay in theirs."""
    if not descending:
        return mx.argsort(x, axis).astype(mx.int32)
    last = x.shape[axis] - 1
    return mx.flip(last - mx.argsort(mx.flip(x, axis), axis).astype(mx.int32), axis)


def isin(x1: array | complex, x2: array | complex, /, *, invert: bool = False) -> array:
    """Whether each element of x1 is one of x2."""
    x1 = x1 if isinstance(x1, array) else mx.array(x1)
    x2 = x2 if isinstance(x2, array) else mx.array(x2)
    found = mx.any(x1[..., None] == x2.reshape(-1), -1)
    return mx.logical_not(found) if invert else found


def nonzero(x: array, /) -> tuple[array, ...]:
    """The places of the elements that are not zero: for each axis an int32 array. Evaluates `x`.

    Raises:
        ValueError: if `x` has no axes.
    """
    if not x.ndim:
        raise ValueError("[nonzero] An array with one axis at least is needed.")
    return tuple([mx.array(k.astype(np.int32)) for k in np.nonzero(np.asarray(x))])


def searchsorted(x1: array, x2: array | complex, /, *, side: str = "left", sorter: array | None = None) -> array:
    """Where in the sorted x1 each element of x2 goes, before (left) or behind (right) its equals; int32."""
    x1 = x1 if sorter is None else mx.take(x1, sorter, 0)
    x2 = x2 if isinstance(x2, array) else mx.array(x2, x1.dtype)
    return mx.searchsorted(x1, x2, side).astype(mx.int32)


def sort(x: array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> array:
    """The elements in order along an axis."""
    found = mx.sort(x, axis)
    return mx.flip(found, axis) if descending else found


class UniqueAll(NamedTuple):
    """The values, where each was first, which each element is, and how often each was there."""

    values: array
    indices: array
    inverse_indices: array
    counts: array


class UniqueCounts(NamedTuple):
    """The values, and how often each was there."""

    values: array
    counts: array


class UniqueInverse(NamedTuple):
    """The values, and which each element is."""

    values: array
    inverse_indices: array


def unique_all(x: array, /) -> UniqueAll:
    """The different elements, in order, and all about them. NaNs are different from each other. Evaluates `x`."""
    data = np.asarray(x)
    found = np.unique(data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    values, indices, inverse, counts = found
    places = [mx.array(k.astype(np.int32)) for k in (indices, inverse.reshape(data.shape), counts)]
    return UniqueAll(mx.array(values, x.dtype), *places)


def unique_counts(x: array, /) -> UniqueCounts:
    """The different elements, in order, and how often each is there. Evaluates `x`."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: array, /) -> UniqueInverse:
    """The different elements, in order, and which each element is. Evaluates `x`."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: array, /) -> array:
    """The different elements, in order. Evaluates `x`."""
    return unique_all(x).values


def where(condition: array, x1: array | complex, x2: array | complex, /) -> array:
    """The elements of x1 where the condition is true, those of x2 elsewhere."""
    return mx.where(condition, x1, x2)
