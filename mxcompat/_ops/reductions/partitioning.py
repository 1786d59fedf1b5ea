"""Partitions, and the largest elements. NaN counts as the largest.

If one side of the partition has few elements, only those are sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, aval, format_shape
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._jax import jax, jnp, lax

from ..arguments import any_integer, integer, require_array
from ..define import op
from ..examples import example
from .sorting import (
    argsorted,
    axis_to_sort,
    flat,
    indices_aval,
    is_float,
    on_cpu,
    one_nan,
    sorted_aval,
    sorted_values,
)

__all__ = ["argpartition", "partition", "topk"]


def _suits(x: Any, kth: int, axis: int) -> bool:
    """Return True if the partition needs only the few elements of its shorter side."""
    n = x.shape[axis]
    few = n >= policy.MANY_ELEMENTS and min(kth + 1, n - kth) <= n * policy.PARTITIONED_SHARE
    return few and is_float(x) and x.dtype.itemsize <= 4 and on_cpu()


def _argpartitioned(x: Any, kth: int, axis: int | None) -> Any:
    x, axis = flat(x, axis)
    if not _suits(x, kth, axis):
        return argsorted(x, axis)
    rows = lax.stop_gradient(jnp.moveaxis(x, axis, -1)).astype(jnp.float32)
    n = rows.shape[-1]
    if kth + 1 <= n - kth:
        few = kth + 1
        chosen = lax.top_k(-one_nan(rows), few)[1]  # `top_k` treats a negative NaN as the smallest
        slots = 0
    else:
        few = n - kth
        chosen = jnp.flip(lax.top_k(one_nan(rows), few)[1], -1)
        slots = kth
    places = _exchanged(chosen.reshape(-1, few), slots, n)
    return jnp.moveaxis(places.reshape(rows.shape).astype(jnp.uint32), -1, axis)


def _exchanged(chosen: Any, start: int, n: int) -> Any:
    """Return, for each row of `chosen`, a permutation of the numbers below n, in which the chosen ones are contiguous
    from `start` on.

    Each number that they displace moves to the index of a chosen one. All other numbers stay.
    """

    def row(chosen: Any) -> Any:
        few = chosen.shape[0]
        inside = (chosen >= start) & (chosen < start + few)
        stays = jnp.zeros(few, bool).at[jnp.where(inside, chosen - start, few)].set(True, mode="drop")
        leaving = start + jnp.argsort(stays)  # the displaced numbers come first
        vacant = chosen[jnp.argsort(inside)]  # the indices outside of the range come first
        to = jnp.where(jnp.arange(few) < few - jnp.sum(inside), vacant, n)
        places = jnp.arange(n, dtype=jnp.int32).at[to].set(leaving.astype(jnp.int32), mode="drop")
        return lax.dynamic_update_slice(places, chosen, (start,))

    return jax.vmap(row)(chosen)


def _partitioned(x: Any, kth: int, axis: int | None) -> Any:
    x, axis = flat(x, axis)
    if not _suits(x, kth, axis):
        return sorted_values(x, axis)
    return jnp.take_along_axis(x, _argpartitioned(x, kth, axis).astype(jnp.int32), axis=axis, mode="clip")


_PARTITION = op("partition", _partitioned, lambda a, kth, axis: sorted_aval(a, axis), ("kth", "axis"))
_ARGPARTITION = op("argpartition", _argpartitioned, lambda a, kth, axis: indices_aval(a, axis), ("kth", "axis"))


def _place(name: str, node: Node, kth: int, axis: Any, gap: str) -> tuple[int, int | None]:
    """Return the index to partition at, counted from the start, and the axis."""
    k = axis_to_sort(name, axis, node.aval.ndim)
    size = node.aval.size if k is None else node.aval.shape[k]
    kth = integer(kth)
    if not -size <= kth < size:
        shape = (node.aval.size,) if k is None else node.aval.shape
        place = 0 if k is None else any_integer(axis)
        raise ValueError(
            f"[{name}] Received invalid kth {kth}{gap}along axis {place} for array with shape: {format_shape(shape)}"
        )
    return kth % size, k


def _partitioner(record: Op, gap: str, summary: str, result: str) -> Callable[..., array]:
    """Make the public function of a partition. `gap` is the text after a bad kth in MLX's message."""
    name = record.name

    def function(a: array, /, kth: int, axis: int | None = -1, *, stream: Any = None) -> array:
        check_stream(stream)
        node = require_array(a, name)
        return wrap(apply(record, (node,), _place(name, node, kth, axis, gap)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

Args:
    a: an array.
    kth: the index to partition at.
    axis: the axis to partition along; None to partition the flattened array.
    stream: accepted, and ignored.

Returns:
    {result}

Raises:
    IndexError: if the axis is out of range.
    ValueError: if `kth` is out of range.

Example:
{example(name)}
"""
    return function


partition = _partitioner(
    _PARTITION, "",
    "Return the elements with the kth at its sorted place, no larger one before it, and no smaller one after it.",
    "An array with the shape (1-d if `axis` is None) and the dtype of `a`.",
)  # fmt: skip
argpartition = _partitioner(
    _ARGPARTITION, " ",
    "Return the indices that partition an array: see `partition`.",
    "A uint32 array with the shape of `a` (1-d if `axis` is None).",
)  # fmt: skip


def _topk(x: Any, k: int, axis: int | None) -> Any:
    x, axis = flat(x, axis)
    if k == x.shape[axis]:
        return x
    if x.dtype.kind == "c" or k == 0:
        return lax.slice_in_dim(sorted_values(x, axis), x.shape[axis] - k, None, axis=axis)
    rows = jnp.moveaxis(x.astype(jnp.uint8) if x.dtype.kind == "b" else x, axis, -1)
    if is_float(rows):
        rows = one_nan(rows)  # `top_k` distinguishes the signs of NaNs
    # `top_k` prefers the earlier of equal elements: with both flips, the later ones are chosen, in their order
    out = jnp.moveaxis(jnp.flip(lax.top_k(jnp.flip(rows, -1), k)[0], -1), -1, axis)
    return out != 0 if x.dtype.kind == "b" else out


def _topk_aval(a: Aval, k: int, axis: int | None) -> Aval:
    if axis is None:
        return aval((k,), a.dtype)
    return aval((*a.shape[:axis], k, *a.shape[axis + 1 :]), a.dtype)


_TOPK = op("topk", _topk, _topk_aval, ("k", "axis"))


def topk(a: array, /, k: int, axis: int | None = -1, *, stream: Any = None) -> array:
    """Return the `k` largest elements.

    Args:
        a: an array.
        k: the number of elements.
        axis: the axis to choose along; None to choose from the flattened array.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a` and size `k` along the axis. The order of the elements is not specified.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `k` is negative or larger than the axis.

    Example:
        >>> mx.topk(mx.array([3, 1, 2, 0]), 2)
        array([2, 3], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "topk")
    shape = node.aval.shape
    place = axis_to_sort("topk", axis, node.aval.ndim)
    size = node.aval.size if place is None else shape[place]
    k = integer(k)
    if not 0 <= k <= size:
        at = 0 if axis is None else any_integer(axis)
        of = format_shape((size,) if place is None else shape)
        raise ValueError(f"[topk] Received invalid k={k} along axis {at} for array with shape: {of}")
    return wrap(apply(_TOPK, (node,), (k, place)))
