"""Sorting and searching. NaN sorts last, complex numbers by their real, then their imaginary part; sorts are stable.

`partition` and `argpartition` sort completely, which is one of the orders they may return; `topk` returns its elements
in ascending order.
"""

from __future__ import annotations

import math
from operator import index
from typing import Any

import jax.numpy as jnp
from jax import lax

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.devices import check_stream
from mxcompat._array.promotion import promote
from mxcompat._graph import aval as avals
from mxcompat._graph.aval import Aval, aval, from_numpy
from mxcompat._graph.node import Node, apply, items

from .define import op, strict

__all__ = ["argpartition", "argsort", "partition", "searchsorted", "sort", "topk", "unique"]


def _flat(x: Any, axis: int | None) -> tuple[Any, int]:
    x = jnp.asarray(x)
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def _sort(x: Any, axis: int | None) -> Any:
    x, k = _flat(x, axis)
    if x.dtype.kind == "b":
        return lax.sort(x.astype(jnp.uint8), dimension=k) != 0
    return lax.sort(x, dimension=k)


def _argsort(x: Any, axis: int | None) -> Any:
    x, k = _flat(x, axis)
    places = lax.broadcasted_iota(jnp.uint32, x.shape, k)
    keys = lax.stop_gradient(x.astype(jnp.uint8) if x.dtype.kind == "b" else x)
    return lax.sort((keys, places), dimension=k, num_keys=1)[1]


def _axis(name: str, axis: Any, ndim: int) -> int | None:
    if axis is None:
        return None
    k = index(axis)
    if not -ndim <= k < ndim:
        raise IndexError(f"[{name}] Axis {k} is out of bounds for array with {ndim} dimensions.")
    return k % ndim


def _sorted_aval(a: Aval, axis: int | None) -> Aval:
    return a if axis is not None else aval((a.size,), a.dtype)


def _indices_aval(a: Aval, axis: int | None) -> Aval:
    return aval(a.shape if axis is not None else (a.size,), avals.uint32)


_SORT = op("sort", _sort, _sorted_aval, ("axis",))
_ARGSORT = op("argsort", _argsort, _indices_aval, ("axis",))


def sort(a: array, /, axis: int | None = -1, *, stream: Any = None) -> array:
    """The elements in ascending order.

    Args:
        a: an array.
        axis: the axis to sort along; None to sort the flattened array.
        stream: accepted, and ignored.

    Returns:
        An array with the shape (1-d if `axis` is None) and the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.

    Example:
        `mx.sort(mx.array([3, 1, 2]))`
    """
    check_stream(stream)
    node = strict(a, "sort")
    return wrap(apply(_SORT, (node,), (_axis("sort", axis, node.aval.ndim),)))


def argsort(a: array, /, axis: int | None = -1, *, stream: Any = None) -> array:
    """The indices that put the elements in ascending order. Equal elements keep theirs.

    Args:
        a: an array.
        axis: the axis to sort along; None to sort the flattened array.
        stream: accepted, and ignored.

    Returns:
        A uint32 array with the shape of `a` (1-d if `axis` is None).

    Raises:
        IndexError: if the axis is out of range.

    Example:
        `mx.argsort(mx.array([3, 1, 2]))`
    """
    check_stream(stream)
    node = strict(a, "argsort")
    return wrap(apply(_ARGSORT, (node,), (_axis("argsort", axis, node.aval.ndim),)))


def _check_kth(name: str, node: Node, kth: int, axis: Any, gap: str) -> int | None:
    k = _axis(name, axis, node.aval.ndim)
    size = node.aval.size if k is None else node.aval.shape[k]
    if not -size <= index(kth) < size:
        shape = (node.aval.size,) if k is None else node.aval.shape
        shown = 0 if k is None else index(axis)
        raise ValueError(
            f"[{name}] Received invalid kth {index(kth)}{gap}along axis {shown} for array with shape: {_shape(shape)}"
        )
    return k


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ")"


def partition(a: array, /, kth: int, axis: int | None = -1, *, stream: Any = None) -> array:
    """The elements, such that the kth is where it would be if sorted, no larger one before it, no smaller one after.

    Args:
        a: an array.
        kth: the index to partition at.
        axis: the axis to partition along; None to partition the flattened array.
        stream: accepted, and ignored.

    Returns:
        An array with the shape (1-d if `axis` is None) and the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `kth` is out of range.

    Example:
        `mx.partition(mx.array([3, 1, 2, 0]), 2)`
    """
    check_stream(stream)
    node = strict(a, "partition")
    return wrap(apply(_SORT, (node,), (_check_kth("partition", node, kth, axis, ""),)))


def argpartition(a: array, /, kth: int, axis: int | None = -1, *, stream: Any = None) -> array:
    """The indices that partition an array: see `partition`.

    Args:
        a: an array.
        kth: the index to partition at.
        axis: the axis to partition along; None to partition the flattened array.
        stream: accepted, and ignored.

    Returns:
        A uint32 array with the shape of `a` (1-d if `axis` is None).

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `kth` is out of range.

    Example:
        `mx.argpartition(mx.array([3, 1, 2, 0]), 2)`
    """
    check_stream(stream)
    node = strict(a, "argpartition")
    return wrap(apply(_ARGSORT, (node,), (_check_kth("argpartition", node, kth, axis, " "),)))


def _topk(x: Any, k: int, axis: int | None) -> Any:
    x, axis = _flat(x, axis)
    if k == x.shape[axis]:
        return x
    if x.dtype.kind == "c" or k == 0:
        return lax.slice_in_dim(_sort(x, axis), x.shape[axis] - k, None, axis=axis)
    rows = jnp.moveaxis(x.astype(jnp.uint8) if x.dtype.kind == "b" else x, axis, -1)
    if jnp.issubdtype(rows.dtype, jnp.floating):
        rows = jnp.where(rows != rows, jnp.asarray(math.nan, rows.dtype), rows)  # top_k tells the signs of NaNs apart
    # flipped twice, so that later ones of equal elements are preferred, in their order
    out = jnp.moveaxis(jnp.flip(lax.top_k(jnp.flip(rows, -1), k)[0], -1), -1, axis)
    return out != 0 if x.dtype.kind == "b" else out


def _topk_aval(a: Aval, k: int, axis: int | None) -> Aval:
    if axis is None:
        return aval((k,), a.dtype)
    return aval((*a.shape[:axis], k, *a.shape[axis + 1 :]), a.dtype)


_TOPK = op("topk", _topk, _topk_aval, ("k", "axis"))


def topk(a: array, /, k: int, axis: int | None = -1, *, stream: Any = None) -> array:
    """The `k` largest elements.

    Args:
        a: an array.
        k: how many.
        axis: the axis to choose along; None to choose from the flattened array.
        stream: accepted, and ignored.

    Returns:
        An array of the dtype of `a`, with size `k` along the axis. Only their being the largest is promised, no order.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `k` is negative or larger than the axis.

    Example:
        `mx.topk(mx.array([3, 1, 2, 0]), 2)`
    """
    check_stream(stream)
    node = strict(a, "topk")
    shape = node.aval.shape
    place = _axis("topk", axis, node.aval.ndim)
    size = node.aval.size if place is None else shape[place]
    k = index(k)
    if not 0 <= k <= size:
        shown = 0 if axis is None else index(axis)
        of = _shape((size,) if place is None else shape)
        raise ValueError(f"[topk] Received invalid k={k} along axis {shown} for array with shape: {of}")
    return wrap(apply(_TOPK, (node,), (k, place)))


def _searchsorted(ordered: Any, values: Any, side: str) -> Any:
    dtype = promote(from_numpy(ordered.dtype), from_numpy(values.dtype)).numpy  # type: ignore[arg-type]
    ordered, values = (jnp.asarray(x, jnp.uint8 if dtype.kind == "b" else dtype) for x in (ordered, values))
    return jnp.searchsorted(ordered, values, side=side).astype(jnp.uint32)


_SEARCHSORTED = op("searchsorted", _searchsorted, lambda a, v, side: aval(v.shape, avals.uint32), ("side",))


def searchsorted(sorted_sequence: array, values: array, /, side: str = "left", *, stream: Any = None) -> array:
    """Where to insert values into a sorted array so that it stays sorted.

    Args:
        sorted_sequence: a 1-d array in ascending order.
        values: an array, of any shape.
        side: "left" for the first such place, "right" for the last.
        stream: accepted, and ignored.

    Returns:
        A uint32 array with the shape of `values`.

    Raises:
        ValueError: if `sorted_sequence` is not 1-d, or `side` neither "left" nor "right".

    Example:
        `mx.searchsorted(mx.array([1, 3, 5]), mx.array([2, 6]))`
    """
    check_stream(stream)
    nodes = strict(sorted_sequence, "searchsorted"), strict(values, "searchsorted")
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] Invalid side '{side}'. Expected 'left' or 'right'.")
    ndim = nodes[0].aval.ndim
    if ndim != 1:
        raise ValueError(f"[searchsorted] The sorted sequence must be 1-D but has {ndim} dimensions.")
    return wrap(apply(_SEARCHSORTED, nodes, (side,)))


def _unique(x: Any, *fill: Any, size: int) -> tuple[Any, Any, Any, Any]:
    x = jnp.asarray(x)
    flat = x.reshape(-1)
    n = flat.shape[0]
    order = _argsort(flat, 0)
    ordered = flat[order]
    fresh = jnp.concatenate([jnp.ones((min(n, 1),), bool), ordered[1:] != ordered[:-1]])
    rank = jnp.cumsum(fresh, dtype=jnp.int32) - 1
    place = jnp.where(fresh, rank, size)
    if fill:
        padding = jnp.asarray(fill[0]).astype(x.dtype).reshape(())
    else:
        padding = ordered[0] if n else jnp.zeros((), x.dtype)
    first = order[0] if n else jnp.zeros((), jnp.uint32)
    values = jnp.full((size,), padding).at[place].set(ordered, mode="drop")
    positions = jnp.full((size,), first).at[place].set(order, mode="drop")
    inverse = jnp.zeros((n,), jnp.uint32).at[order].set(jnp.clip(rank, 0, max(size - 1, 0)).astype(jnp.uint32))
    counts = jnp.zeros((size,), jnp.int32).at[rank].add(1, mode="drop")
    return values, positions, inverse.reshape(x.shape), counts


def _unique_avals(a: Aval, *fill: Aval, size: int) -> tuple[Aval, ...]:
    places = aval((size,), avals.uint32)
    return aval((size,), a.dtype), places, aval(a.shape, avals.uint32), aval((size,), avals.int32)


_UNIQUE = op("unique", _unique, _unique_avals, ("size",))


def unique(
    a: array, /, size: int, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    fill_value: Any = None, *, stream: Any = None,
) -> array | tuple[array, ...]:  # fmt: skip
    """The distinct elements in ascending order: as many as asked for.

    Args:
        a: an array, of any shape. Every NaN counts as distinct.
        size: how many to return. Fewer leave out the largest; places left over are filled with `fill_value`.
        return_index: whether to return where each first occurs in the flattened array.
        return_inverse: whether to return the place of each element of `a` among the distinct ones.
        return_counts: whether to return how often each occurs.
        fill_value: a number or an array of one element; by default the smallest element of `a`.
        stream: accepted, and ignored.

    Returns:
        An array of shape `(size,)` with the dtype of `a`; or a tuple of it and those asked for of: uint32 indices of
        shape `(size,)`, uint32 places of the shape of `a`, int32 counts of shape `(size,)`.

    Raises:
        ValueError: if `size` is negative, `fill_value` has more than one element, or `a` is empty and nothing is
            given to fill with.

    Example:
        `mx.unique(mx.array([3, 1, 1, 2]), size=3)`
    """
    check_stream(stream)
    node = strict(a, "unique")
    size = index(size)
    if size < 0:
        raise ValueError(f"[unique] Received negative size {size}.")
    inputs = (node,)
    if fill_value is not None:
        fill = operands.node(fill_value)
        if fill.aval.size != 1:
            raise ValueError(f"[unique] Fill value must have one element, but got shape {_shape(fill.aval.shape)}.")
        inputs = (node, fill)
    elif node.aval.size == 0 and size > 0:
        raise ValueError("[unique] A fill value is required for an empty input with a non-zero size.")
    outputs = [wrap(n) for n in items(apply(_UNIQUE, inputs, (size,)))]
    wanted = (True, return_index, return_inverse, return_counts)
    chosen = tuple(x for x, yes in zip(outputs, wanted, strict=True) if yes)
    return chosen if len(chosen) > 1 else outputs[0]
