"""Sorting and searching. NaN sorts last, complex numbers by their real, then their imaginary part; sorts are stable.

A complex number with NaN in either part counts as NaN.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, aval, format_shape, from_numpy, is_known
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp, lax, lazy

from ..arguments import axis_of, flag, integer, require_array, require_text
from ..define import op

__all__ = [
    "argsort", "argsorted", "axis_to_sort", "flat", "indices_aval", "is_float", "is_long", "on_cpu", "one_nan",
    "searchsorted", "sort", "sorted_aval", "sorted_values", "unique",
]  # fmt: skip


def flat(x: Any, axis: int | None) -> tuple[Any, int]:
    """Return the array and the axis; for None, the flattened array."""
    x = jnp.asarray(x)
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def is_float(x: Any) -> bool:
    """Return whether the elements are real floating-point numbers."""
    return jnp.issubdtype(x.dtype, jnp.floating)


def on_cpu() -> bool:
    """Return whether the lowering that runs now is for a CPU."""
    return jax.default_backend() == "cpu"


def is_long(count: Any, least: int) -> bool:
    """Return whether there are enough elements for the special methods on a CPU; a symbolic size never counts as
    long."""
    return is_known((count,)) and count >= least and on_cpu()


def one_nan(x: Any) -> Any:
    """Return the same numbers with every NaN as the positive NaN, since XLA orders NaNs by their signs."""
    return jnp.where(x != x, jnp.asarray(math.nan, x.dtype), x)


def _keys(x: Any) -> Any:
    """Return integers in the order of floating-point numbers, NaN last. On a CPU, XLA sorts them in a fifth of the
    time."""
    return _turned(lax.bitcast_convert_type(one_nan(x), _INTEGERS[x.dtype.itemsize]))


def _turned(bits: Any) -> Any:
    """Return the key for the bits of a number, or the bits for a key."""
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _ordered_parts(x: Any) -> Any:
    """Return complex numbers that XLA sorts in MLX's order. A number with NaN in one part gets NaN in both."""
    return jnp.where(x != x, jnp.asarray(complex(math.nan, math.nan), x.dtype), x)


_INTEGERS = {2: np.int16, 4: np.int32, 8: np.int64}


def sorted_values(x: Any, axis: int | None) -> Any:
    """Return the sorted elements: the lowering of `sort`."""
    x, k = flat(x, axis)
    if x.dtype.kind == "b":
        return lax.sort(x.astype(jnp.uint8), dimension=k) != 0
    if x.dtype.kind == "c":
        return lax.sort((_ordered_parts(lax.stop_gradient(x)), x), dimension=k, num_keys=1)[1]
    return _sorted_by_keys(x, k) if is_float(x) and on_cpu() else lax.sort(x, dimension=k)


@partial(lazy.custom_jvp, nondiff_argnums=(1,))
def _sorted_by_keys(x: Any, axis: int) -> Any:
    return lax.bitcast_convert_type(_turned(lax.sort(_keys(x), dimension=axis)), x.dtype)


@_sorted_by_keys.defjvp
def _(axis: int, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    order = argsorted(x, axis).astype(jnp.int32)
    return tuple(jnp.take_along_axis(v, order, axis=axis, mode="clip") for v in (x, t))  # type: ignore[return-value]


def argsorted(x: Any, axis: int | None) -> Any:
    """Return the sorting indices: the lowering of `argsort`."""
    x, k = flat(x, axis)
    keys = lax.stop_gradient(x.astype(jnp.uint8) if x.dtype.kind == "b" else x)
    if keys.dtype.itemsize <= 4 and on_cpu():
        # the key of a number and its index form one integer, so all integers differ
        if is_float(keys):
            keys = keys.astype(jnp.float32)
            keys = _keys(jnp.where(keys == 0, jnp.asarray(0, keys.dtype), keys))  # zeros of both signs get the same key
        places = lax.broadcasted_iota(jnp.int64, x.shape, k)
        low = 1 << 31 if keys.dtype == jnp.uint32 else 0  # subtracting this makes the key a signed number of 32 bits
        both = lax.sort(((keys.astype(jnp.int64) - low) << 32) + places, dimension=k, is_stable=False)
        return both.astype(jnp.uint32)
    if keys.dtype.kind == "c":
        keys = _ordered_parts(keys)
    places = lax.broadcasted_iota(jnp.uint32, x.shape, k)
    return lax.sort((keys, places), dimension=k, num_keys=1)[1]


def axis_to_sort(name: str, axis: Any, ndim: int) -> int | None:
    """Return the axis, counted from the start. Raises MLX's error for a bad axis."""
    return None if axis is None else axis_of(axis, ndim, name)


def sorted_aval(a: Aval, axis: int | None) -> Aval:
    """Return the aval of the result of `sort`."""
    return a if axis is not None else aval((a.size,), a.dtype)


def indices_aval(a: Aval, axis: int | None) -> Aval:
    """Return the aval of the result of `argsort`."""
    return aval(a.shape if axis is not None else (a.size,), avals.uint32)


_SORT = op("sort", sorted_values, sorted_aval, ("axis",))
_ARGSORT = op("argsort", argsorted, indices_aval, ("axis",))


def sort(a: array, /, axis: int | None = -1, *, stream: Any = None) -> array:
    """Return the elements in ascending order.

    Args:
        a: an array.
        axis: the axis to sort along; None to sort the flattened array.
        stream: accepted, and ignored.

    Returns:
        An array with the shape (1-d if `axis` is None) and the dtype of `a`.

    Raises:
        IndexError: if the axis is out of range.

    Example:
        >>> mx.sort(mx.array([3, 1, 2]))
        array([1, 2, 3], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "sort")
    return wrap(apply(_SORT, (node,), (axis_to_sort("sort", axis, node.aval.ndim),)))


def argsort(a: array, /, axis: int | None = -1, *, stream: Any = None) -> array:
    """Return the indices that put the elements in ascending order. Equal elements keep their order.

    Args:
        a: an array.
        axis: the axis to sort along; None to sort the flattened array.
        stream: accepted, and ignored.

    Returns:
        A uint32 array with the shape of `a` (1-d if `axis` is None).

    Raises:
        IndexError: if the axis is out of range.

    Example:
        >>> mx.argsort(mx.array([3, 1, 2]))
        array([1, 2, 0], dtype=uint32)
    """
    check_stream(stream)
    node = require_array(a, "argsort")
    return wrap(apply(_ARGSORT, (node,), (axis_to_sort("argsort", axis, node.aval.ndim),)))


def _searchsorted(ordered: Any, values: Any, side: str) -> Any:
    dtype = promote(from_numpy(ordered.dtype), from_numpy(values.dtype))._numpy  # type: ignore[arg-type]
    ordered, values = (jnp.asarray(x, jnp.uint8 if dtype.kind == "b" else dtype) for x in (ordered, values))
    if dtype.kind == "c":
        ordered, values = _ordered_parts(ordered), _ordered_parts(values)
    return jnp.searchsorted(ordered, values, side=side).astype(jnp.uint32)


_SEARCHSORTED = op("searchsorted", _searchsorted, lambda a, v, side: aval(v.shape, avals.uint32), ("side",))


def searchsorted(sorted_sequence: array, values: array, /, side: str = "left", *, stream: Any = None) -> array:
    """Return the indices at which values can be inserted into a sorted array so that it stays sorted.

    Args:
        sorted_sequence: a 1-d array in ascending order.
        values: an array, of any shape.
        side: "left" for the first such index, "right" for the last.
        stream: accepted, and ignored.

    Returns:
        A uint32 array with the shape of `values`.

    Raises:
        ValueError: if `sorted_sequence` is not 1-d, or if `side` is neither "left" nor "right".

    Example:
        >>> mx.searchsorted(mx.array([1, 3, 5]), mx.array([2, 6]))
        array([1, 3], dtype=uint32)
    """
    check_stream(stream)
    nodes = require_array(sorted_sequence, "searchsorted"), require_array(values, "searchsorted")
    if require_text(side, "searchsorted", "side") not in ("left", "right"):
        raise ValueError(f"[searchsorted] Invalid side '{side}'. Expected 'left' or 'right'.")
    ndim = nodes[0].aval.ndim
    if ndim != 1:
        raise ValueError(f"[searchsorted] The sorted sequence must be 1-D but has {ndim} dimensions.")
    return wrap(apply(_SEARCHSORTED, nodes, (side,)))


def _unique(x: Any, *fill: Any, size: int) -> tuple[Any, Any, Any, Any]:
    x = jnp.asarray(x)
    flat = x.reshape(-1)
    n = flat.shape[0]
    order = argsorted(flat, 0)
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
    """Return a given number of distinct elements, in ascending order.

    Args:
        a: an array, of any shape. Every NaN counts as distinct.
        size: the number of elements to return. If there are more distinct elements, the largest are left out; if there
            are fewer, `fill_value` fills the rest.
        return_index: whether to return the first place of each in the flattened array.
        return_inverse: whether to return the index of each element of `a` in the distinct elements.
        return_counts: whether to return the number of occurrences of each.
        fill_value: a number or an array of one element; by default the smallest element of `a`.
        stream: accepted, and ignored.

    Returns:
        An array of shape `(size,)` with the dtype of `a`. With a `return_` flag, a tuple of this array and, for each
        flag: uint32 indices of shape `(size,)`, uint32 indices with the shape of `a`, int32 counts of shape `(size,)`.

    Raises:
        ValueError: if `size` is negative, if `fill_value` has more than one element, or if `a` is empty and there is no
            `fill_value`.

    Example:
        >>> mx.unique(mx.array([3, 1, 1, 2]), size=3)
        array([1, 2, 3], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "unique")
    size = integer(size)
    flags = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    returned = (True, *[flag(value, "unique", name) for name, value in flags.items()])
    if size < 0:
        raise ValueError(f"[unique] Received negative size {size}.")
    inputs = (node,)
    if fill_value is not None:
        fill = operands.node(fill_value)
        if fill.aval.size != 1:
            raise ValueError(
                f"[unique] Fill value must have one element, but got shape {format_shape(fill.aval.shape)}."
            )
        inputs = (node, fill)
    elif node.aval.size == 0 and size > 0:
        raise ValueError("[unique] A fill value is required for an empty input with a non-zero size.")
    outputs = wrap_all(apply(_UNIQUE, inputs, (size,)))
    chosen = tuple(x for x, yes in zip(outputs, returned, strict=True) if yes)
    return chosen if len(chosen) > 1 else outputs[0]
