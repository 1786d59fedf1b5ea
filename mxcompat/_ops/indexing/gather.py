"""Reading by index: the ops behind `x[...]`, `take`, `take_along_axis` and `slice`.

A read has two steps. It first narrows the sliced axes, with a static slice, or a dynamic one if a start is a runtime
value. Then it gathers the elements that the index arrays select. Indices out of bounds, which are undefined in MLX, are
clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp, lax

from ..arguments import axis_of, require_array, require_axis, require_ints
from ..define import broadcast, op
from ..elementwise.by_bits import by_bits
from .plan import Plan, check_integral, extent, has_arrays, place, shape_of, source_axes
from .room import PREFIX, buffer_read

__all__ = [
    "DYNAMIC_SLICE", "GATHER", "GATHER_AXIS", "SLICE", "along_axis", "check_window", "layout", "locate", "narrow",
    "positions", "read", "slice", "subscript", "take", "take_along_axis", "window_starts", "windows", "with_axis",
    "without_axis",
]  # fmt: skip


def positions(index: Any, n: int) -> Any:
    """Return the indices of a read or write as int32 positions along an axis of size n, counted from the front."""
    signed = index.dtype.kind != "u"
    index = index.astype(np.int32)
    return jnp.where(index < 0, index + n, index) if signed else index


def narrow(x: Any, entries: Sequence[Any], starts: Sequence[Any]) -> Any:
    """Return `x` with every axis that has a slice or a single position cut down to it.

    Args:
        entries: for each axis of `x`, its entry in the plan.
        starts: for each axis of `x`, its start; None if the axis stays whole.
    """
    lows, sizes, steps = windows(x.shape, entries, starts)
    if any(start is not None for start in starts):
        if all(isinstance(low, (int, np.integer)) for low in lows):
            limits = [int(low) + size for low, size in zip(lows, sizes, strict=True)]
            x = lax.slice(x, [int(low) for low in lows], limits, [abs(s) for s in steps])
        else:
            x = lax.dynamic_slice(x, [jnp.asarray(low, np.int32) for low in lows], sizes, allow_negative_indices=False)
            if any(abs(s) != 1 for s in steps):
                x = lax.slice(x, [0] * x.ndim, x.shape, [abs(s) for s in steps])
    backwards = [axis for axis, step in enumerate(steps) if step < 0]
    return lax.rev(x, backwards) if backwards else x


def windows(shape: Sequence[int], entries: Sequence[Any], starts: Sequence[Any]) -> tuple[list, list[int], list[int]]:
    """Return, for each axis, the lowest position that is read, the extent of the positions, and the step."""
    lows: list[Any] = []
    sizes: list[int] = []
    steps: list[int] = []
    for n, entry, start in zip(shape, entries, starts, strict=True):
        size, step = (entry[0], entry[1]) if type(entry) is tuple else (1, 1)
        if start is None:
            start, size, step = 0, n, 1
        if step < 0:
            start = start + (size - 1) * step
        lows.append(start)
        sizes.append(extent(size, step) if size else 0)
        steps.append(step)
    return lows, sizes, steps


def locate(
    shape: tuple[int, ...], plan: Plan, inputs: Sequence[Any], op: str
) -> tuple[list[Any], list[Any], list[Any], bool]:
    """Sort the inputs of a read or write of an array with this shape. `op` is "gather" or "scatter".

    Returns:
        The entry of each axis.
        The start of each axis that has a slice or a single position. An int of a read with index arrays is an index.
        The index arrays as positions, in order.
        True if the plan has index arrays.
    """
    entries = source_axes(plan, len(shape))
    gathered = has_arrays(plan, [np.shape(i) for i in inputs])
    rest: Iterator[Any] = iter(inputs)
    starts: list[Any] = [None] * len(shape)
    indices: list[Any] = []
    for axis, (n, entry) in enumerate(zip(shape, entries, strict=True)):
        if type(entry) is tuple:
            starts[axis] = entry[2] if entry[2] is not None else _unlifted(next(rest))
        elif entry != ":":
            index = next(rest)
            index = positions(index, n) if entry == "a" else _unlifted(index)
            if gathered and (entry == "a" or op == "gather"):
                indices.append(index)
            else:
                starts[axis] = index
    return entries, starts, indices, gathered


def _unlifted(start: Any) -> Any:
    return start if hasattr(start, "aval") else int(start)


def layout(plan: Plan, ndim: int) -> tuple[str, ...]:
    """Return the plan after its slices are taken: ':' for an axis that stays, '@' for an indexed axis, '+' for a new
    axis."""
    entries = ["@" if entry in ("i", "a") else entry if entry == "+" else ":" for entry in plan]
    return (*entries, *[":"] * (ndim - len(entries) + entries.count("+")))


def subscript(layout: tuple[str, ...], indices: Sequence[Any]) -> tuple[Any, ...]:
    """Return the layout as an index for JAX."""
    rest = iter(indices)
    return tuple(next(rest) if e == "@" else None if e == "+" else np.s_[:] for e in layout)


def _read(x: Any, *inputs: Any, plan: Plan) -> Any:
    if plan and plan[0] == "*":
        x, plan = x.reshape(-1), plan[1:]
    shape = shape_of(x.shape, plan, [np.shape(i) for i in inputs], broadcast, "gather")
    if 0 in shape:
        return jnp.zeros(shape, x.dtype)
    entries, starts, indices, gathered = locate(x.shape, plan, inputs, "gather")
    x = narrow(x, entries, starts)
    if gathered:
        index = subscript(layout(plan, x.ndim), indices)
        return x.at[index].get(mode="clip", wrap_negative_indices=False)
    return x.reshape(shape)


def _read_aval(x: Aval, *inputs: Aval, plan: Plan) -> Aval:
    source = x.shape
    if plan and plan[0] == "*":
        source, plan = (x.size,), plan[1:]
    shape = shape_of(source, plan, [i.shape for i in inputs], broadcast, "gather")
    if 0 in source and 0 not in shape:
        raise ValueError(
            "[gather] If the input is empty, either the indices must be empty or the total slice size must be 0."
        )
    return aval(shape, x.dtype)


SLICE = op("slice", by_bits(_read), _read_aval, ("plan",))
"""`x[plan]` for a plan without index arrays. Inputs: x, then the inputs of the plan."""

GATHER = op("gather", by_bits(_read, reads_few=True), _read_aval, ("plan",), indices=1)
"""`x[plan]` with index arrays. If the plan begins with '*', x is flattened first."""


def read(x: Node, plan: Plan, nodes: Sequence[Node]) -> Node:
    """Return the node of `x[plan]`."""
    if not plan:
        return x
    if x.op is PREFIX:
        x = buffer_read(x, plan)
    return apply(GATHER if "a" in plan else SLICE, (x, *nodes), (plan,))


def take(a: array, /, indices: int | array, axis: int | None = None, *, stream: Any = None) -> array:
    """Return the elements of an array at positions along an axis.

    Args:
        a: the array.
        indices: an int, or an array of ints of any shape. Negative ones count from the end, but the int -1 raises.
        axis: the axis; without one, `a` is flattened first.

    Returns:
        An array with the dtype of `a`. The shape of `indices` takes the place of the axis.

    Raises:
        IndexError: if there is no such axis.
        ValueError: if the indices are not integers, if an int is out of range, or for elements of an empty axis.

    Example:
        >>> mx.take(mx.array([[1, 2], [3, 4]]), mx.array([1, 0, 1]), axis=1)
        array([[2, 1, 2],
               [4, 3, 4]], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "take")
    index = None if isinstance(indices, int) else require_array(indices, "take")
    axis = require_axis(axis, "take")
    shape = node.aval.shape
    if axis is None:
        along, size, before = 0, node.aval.size, ("*",) if len(shape) != 1 else ()
    else:
        message = "[take] Received invalid axis {axis} for array with {ndim} dimensions."
        along = axis_of(axis, len(shape), message=message)
        size, before = shape[along], (":",) * along
    if index is None:
        if not node.aval.size:
            raise ValueError("[take] Cannot do a non-empty take from an array with zero elements.")
        # MLX slices from i to i + 1, and a slice from -1 to 0 is empty
        if not -size <= indices < size or indices == -1:
            raise ValueError(f"[squeeze] Cannot squeeze axis {along} with size 0 which is not equal to 1.")
        return wrap(apply(SLICE, (node, place(int(indices) % size)), ((*before, "i"),)))
    if not size and index.aval.size:
        raise ValueError("[take] Cannot do a non-empty take from an empty axis.")
    if index.aval.dtype._kind == "b":
        raise ValueError("[Gather] Boolean indices not supported.")
    check_integral(index.aval, "gather")
    return wrap(apply(GATHER, (node, index), ((*before, "a"),)))


def along_axis(name: str, shape: tuple[int, ...], indices: Aval, axis: int | None) -> int:
    """Return `axis` counted from the front, after the checks that MLX makes for reads and writes along an axis."""
    ndim = len(shape)
    along = axis_of(axis or 0, ndim, name)
    if indices.ndim != ndim:
        raise ValueError(f"[{name}] Indices of dimension {indices.ndim} does not match array of dimension {ndim}.")
    return along


def _gather_axis(x: Any, indices: Any, *, axis: int | None) -> Any:
    x = x.reshape(-1) if axis is None else x
    along = (axis or 0) % x.ndim
    n, count = x.shape[along], indices.shape[along]
    index = positions(indices, n)
    others = broadcast(without_axis(x.shape, along), without_axis(index.shape, along))
    x = jnp.broadcast_to(x, with_axis(others, along, n))
    index = jnp.broadcast_to(index, with_axis(others, along, count))
    if 0 in x.shape or 0 in index.shape:
        return jnp.zeros(index.shape, x.dtype)
    return jnp.take_along_axis(x, index, along, mode="clip")


def _gather_axis_aval(x: Aval, indices: Aval, *, axis: int | None) -> Aval:
    shape = (x.size,) if axis is None else x.shape
    along = along_axis("take_along_axis", shape, indices, axis)
    others = broadcast(without_axis(shape, along), without_axis(indices.shape, along))
    if indices.dtype._kind not in "iu":
        raise RuntimeError("[GatherAxis::eval_cpu] Cannot gather with indices type.")
    return aval(with_axis(others, along, indices.shape[along]), x.dtype)


def without_axis(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Return a shape without one of its axes."""
    return (*shape[:axis], *shape[axis + 1 :])


def with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """Return a shape with one more axis of this size."""
    return (*shape[:axis], size, *shape[axis:])


GATHER_AXIS = op("gather_axis", by_bits(_gather_axis, reads_few=True), _gather_axis_aval, ("axis",), indices=1)


def take_along_axis(a: array, /, indices: array, axis: int | None = -1, *, stream: Any = None) -> array:
    """Return elements along an axis at positions that can differ for each place on the other axes.

    Args:
        a: the array.
        indices: an integer array with as many axes as `a`; the axes other than `axis` broadcast against those of `a`.
        axis: the axis; None flattens `a` first.

    Returns:
        An array with the dtype of `a`, whose size along the axis is that of `indices`.

    Raises:
        IndexError: if there is no such axis.
        ValueError: if the shapes do not fit.

    Example:
        >>> x = mx.array([[3, 1, 2]])
        >>> mx.take_along_axis(x, mx.argsort(x, axis=1), axis=1)
        array([[1, 2, 3]], dtype=int32)
    """
    check_stream(stream)
    x, index = require_array(a, "take_along_axis"), require_array(indices, "take_along_axis")
    axis = require_axis(axis, "take_along_axis")
    return wrap(apply(GATHER_AXIS, (x, index), (axis,)))


def check_window(name: str, starts: Aval, axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Return the axes of a slice with array starts, counted from the front, after the checks that MLX makes."""
    if starts.size > ndim:
        raise ValueError(f"[{name}] Invalid number of starting positions for array with dimension {ndim}.")
    if starts.ndim > 1:
        raise ValueError(
            f"[{name}] array of starting indices must be zero or one dimensional but has dimension {starts.ndim}."
        )
    if starts.size != len(axes):
        raise ValueError(
            f"[{name}] Number of starting indices {starts.size} does not match number of axes {len(axes)}."
        )
    if starts.dtype._kind not in "iu":
        raise ValueError(f"[{name}] Start indices must be integers, got type {starts.dtype._label}.")
    message = "[{name}] Invalid axis {axis} for array with dimension {ndim}."
    counted = tuple([axis_of(axis, ndim, name, message) for axis in axes])
    if len(set(counted)) != len(counted):
        raise ValueError(f"[{name}] Repeat axes not allowed.")
    return counted


def window_starts(starts: Any, axes: Sequence[int], shape: Sequence[int]) -> list[Any]:
    """Return the start of a slice with array starts along each axis of an array with this shape."""
    starts = starts.reshape(-1)
    out: list[Any] = [np.int32(0)] * len(shape)
    for k, axis in enumerate(axes):
        out[axis % len(shape)] = positions(starts[k], shape[axis])
    return out


def _dynamic_slice(x: Any, starts: Any, *, axes: tuple[int, ...], size: tuple[int, ...]) -> Any:
    if not x.ndim:
        return x
    return lax.dynamic_slice(x, window_starts(starts, axes, x.shape), size, allow_negative_indices=False)


def _dynamic_slice_aval(x: Aval, starts: Aval, *, axes: tuple[int, ...], size: tuple[int, ...]) -> Aval:
    check_window("slice", starts, axes, x.ndim)
    if len(size) != x.ndim:
        raise ValueError(f"[slice] Invalid slice size for array with {x.ndim} dimensions.")
    if any(s > n or s < 0 for s, n in zip(size, x.shape, strict=True)):
        shown, shape = (",".join(map(str, s)) for s in (size, x.shape))
        raise ValueError(f"[slice] Invalid slice size ({shown}) for array with shape ({shape}).")
    return aval(size, x.dtype)


DYNAMIC_SLICE = op("dynamic_slice", by_bits(_dynamic_slice), _dynamic_slice_aval, ("axes", "size"), indices=1)


def slice(
    a: array, start_indices: array, axes: Sequence[int], slice_size: Sequence[int], *, stream: Any = None
) -> array:
    """Return a block of an array. Another array gives the start of the block.

    Args:
        a: the array.
        start_indices: an integer array, the start along each of `axes`. A start is moved if the block would not fit.
        axes: the axes of the starts; along the other axes the block starts at 0.
        slice_size: the shape of the block, one size for every axis of `a`.

    Returns:
        The block, with the dtype of `a`.

    Raises:
        IndexError: if there is no such axis.
        ValueError: if the sizes do not fit, if an axis is repeated, or if the starts are not integers.

    Example:
        >>> mx.slice(mx.arange(8).reshape(2, 4), mx.array(1), axes=(1,), slice_size=(2, 2))
        array([[1, 2],
               [5, 6]], dtype=int32)
    """
    check_stream(stream)
    x, starts = require_array(a, "slice"), require_array(start_indices, "slice")
    return wrap(apply(DYNAMIC_SLICE, (x, starts), (require_ints(axes, "slice"), require_ints(slice_size, "slice"))))
