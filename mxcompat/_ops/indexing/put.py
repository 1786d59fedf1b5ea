"""The writes that are not plain subscripts: masks, `put_along_axis` and `slice_update`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax

from ..arguments import require_array, require_axis, require_ints
from ..define import broadcast, op
from ..elementwise.by_bits import by_bits
from ..movement.arrange import BROADCAST_TO
from .gather import along_axis, check_window, positions, window_starts, with_axis, without_axis
from .scatter import as_elements, scatter, stretch

__all__ = ["DYNAMIC_UPDATE", "MASKED_SCATTER", "SCATTER_AXIS", "put_along_axis", "slice_update", "update_shape"]


def _masked(x: Any, value: Any, mask: Any) -> Any:
    trailing = x.shape[mask.ndim :]
    rows = mask.size
    value = as_elements(value, x)
    chosen = mask.reshape(rows, *[1] * len(trailing))
    flat = x.reshape(rows, *trailing)
    if value.ndim > len(trailing):
        value = jnp.broadcast_to(value, (value.shape[0], *trailing))
        place = jnp.cumsum(mask.reshape(-1), dtype=np.int32) - 1
        if value.size and flat.size:
            value = value.at[place].get(mode="clip", wrap_negative_indices=False)
    if not flat.size or not value.size:
        return jnp.asarray(x)
    return jnp.where(chosen, value, flat).reshape(x.shape)


def _masked_aval(x: Aval, value: Aval, mask: Aval) -> Aval:
    if mask.ndim > x.ndim:
        raise ValueError("[masked_scatter] The mask cannot have more dimensions than the target.")
    trailing = x.shape[mask.ndim :]
    if value.ndim > len(trailing) + 1:
        raise ValueError(
            "[masked_scatter] Value array shape must be broadcastable with the last "
            f"{len(trailing)} dimensions of the input."
        )
    if x.shape[: mask.ndim] != mask.shape:
        mask_shape, array_shape = (",".join(map(str, s)) for s in (mask.shape, x.shape))
        raise ValueError(
            "[masked_scatter] The boolean mask should have the same shape as the beginning of the indexed array but "
            f"the mask has shape ({mask_shape}) and the array has shape ({array_shape})"
        )
    if value.ndim > len(trailing):
        stretch(value.shape, (value.shape[0], *trailing))
    else:
        stretch((1,) * (len(trailing) + 1 - value.ndim) + value.shape, (mask.size, *trailing))
    return x


MASKED_SCATTER = op("masked_scatter", by_bits(_masked, slice(2)), _masked_aval, indices=2, in_place=True)
"""`x[mask] = value`. The value is the same for all places where the mask is true, or has one row for each, in order."""


def _scatter_axis(x: Any, values: Any, indices: Any, *, axis: int | None) -> Any:
    flat = x.reshape(-1) if axis is None else x
    axis = (axis or 0) % flat.ndim
    values = as_elements(values, x)
    shape = broadcast(indices.shape, values.shape)[-flat.ndim :]
    values = jnp.broadcast_to(values.reshape(values.shape[-flat.ndim :]), shape)
    shape = tuple(n if k != axis else shape[k] for k, n in enumerate(flat.shape))
    values = jnp.broadcast_to(values, shape)
    if not flat.size or not values.size:
        return jnp.asarray(x)
    index = jnp.broadcast_to(positions(indices, flat.shape[axis]), shape)
    grid = [lax.broadcasted_iota(np.int32, shape, k) if k != axis else index for k in range(flat.ndim)]
    return scatter(("@",) * flat.ndim, "set", flat, values, *grid).reshape(x.shape)


def _along_axis_shape(x: Aval, values: Aval, indices: Aval, axis: int | None) -> tuple[int, ...]:
    """Return the shape of the result of `put_along_axis`. Along the other axes all three arrays broadcast to each
    other."""
    shape = (x.size,) if axis is None else x.shape
    along = along_axis("put_along_axis", shape, indices, axis)
    both = broadcast(indices.shape, values.shape)
    for size in both[: len(both) - len(shape)]:
        if size != 1:
            raise ValueError(f"[squeeze] Cannot squeeze axis 0 with size {size} which is not equal to 1.")
    both = both[len(both) - len(shape) :]
    others = broadcast(without_axis(shape, along), without_axis(both, along))
    return x.shape if axis is None else with_axis(others, along, shape[along])


def _scatter_axis_aval(x: Aval, values: Aval, indices: Aval, *, axis: int | None) -> Aval:
    if indices.dtype._kind not in "iu":
        raise RuntimeError("[ScatterAxis::eval_cpu] Cannot scatter with indices type.")
    return x


SCATTER_AXIS = op(
    "scatter_axis", by_bits(_scatter_axis, slice(2)), _scatter_axis_aval, ("axis",), indices=2, in_place=True
)


def put_along_axis(a: array, /, indices: array, values: array, axis: int | None = None, *, stream: Any = None) -> array:
    """Return an array with values written along an axis, at positions that can differ for each place on the other axes.

    Args:
        a: the array. An empty array is returned unchanged, for all other arguments.
        indices: an integer array with as many axes as `a`. `indices` and `values` broadcast to each other. Along the
            other axes they broadcast with `a`.
        values: the values to write, cast to the dtype of `a`.
        axis: the axis; None treats `a` as flat.

    Returns:
        An array with the dtype and the shape of `a`; along the other axes it is larger if `indices` or `values` are.

    Raises:
        IndexError: if there is no such axis.
        ValueError: if the shapes do not fit.

    Example:
        >>> mx.put_along_axis(mx.zeros((2, 3)), mx.array([[0], [2]]), mx.array(1.0), axis=1)
        array([[1, 0, 0],
               [0, 0, 1]], dtype=float32)
    """
    check_stream(stream)
    x, index, value = (require_array(v, "put_along_axis") for v in (a, indices, values))
    axis = require_axis(axis, "put_along_axis")
    if not x.aval.size:  # for an empty array, MLX checks nothing else
        along_axis("put_along_axis", (0,) if axis is None else x.aval.shape, index.aval, axis)
        return wrap(x)
    shape = _along_axis_shape(x.aval, value.aval, index.aval, axis)
    if shape != x.aval.shape:
        x = apply(BROADCAST_TO, (x,), (shape,))
    return wrap(apply(SCATTER_AXIS, (x, value, index), (axis,)))


def update_shape(x: tuple[int, ...], update: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the block that an update covers.

    It is the shape of the update. For leading axes that the update lacks, the block has size 1 if the axis has a start
    and the full size otherwise.
    """
    window = [1 if axis in axes else n for axis, n in enumerate(x)]
    offset = len(x) - len(update)
    for axis in range(offset, len(x)):
        window[axis] = min(x[axis], update[axis - offset])
    return tuple(window)


def _dynamic_update(x: Any, update: Any, starts: Any, *, axes: tuple[int, ...]) -> Any:
    if not x.ndim:
        return as_elements(update, x)
    update = as_elements(update, x)
    window = update_shape(x.shape, update.shape, [axis % x.ndim for axis in axes])
    update = jnp.broadcast_to(update, window)
    return lax.dynamic_update_slice(x, update, window_starts(starts, axes, x.shape), allow_negative_indices=False)


def _dynamic_update_aval(x: Aval, update: Aval, starts: Aval, *, axes: tuple[int, ...]) -> Aval:
    counted = check_window("slice_update", starts, axes, x.ndim)
    if update.ndim > x.ndim:
        raise ValueError(f"[slice_update] Expected an update of at most {x.ndim} dimensions, got one of {update.ndim}.")
    stretch(update.shape, update_shape(x.shape, update.shape, counted))
    return x


DYNAMIC_UPDATE = op(
    "dynamic_slice_update",
    by_bits(_dynamic_update, slice(2)),
    _dynamic_update_aval,
    ("axes",),
    indices=2,
    in_place=True,
)


def slice_update(a: array, update: array, start_indices: array, axes: Sequence[int], *, stream: Any = None) -> array:
    """Return an array with one block replaced. Another array gives the start of the block.

    Args:
        a: the array.
        update: the block, cast to the dtype of `a`. If it lacks leading axes, it covers these whole, or at one position
            if the axis has a start.
        start_indices: an integer array, the start along each of `axes`. A start is moved if the block would not fit.
        axes: the axes of the starts; along the other axes the block starts at 0.

    Returns:
        An array with the shape and dtype of `a`.

    Raises:
        IndexError: if there is no such axis.
        ValueError: if the block does not fit, if an axis is repeated, or if the starts are not integers.

    Example:
        >>> mx.slice_update(mx.zeros((2, 3)), mx.ones((1, 2)), mx.array([1, 1]), axes=(0, 1))
        array([[0, 0, 0],
               [0, 1, 1]], dtype=float32)
    """
    check_stream(stream)
    x, value, starts = (require_array(v, "slice_update") for v in (a, update, start_indices))
    return wrap(apply(DYNAMIC_UPDATE, (x, value, starts), (require_ints(axes, "slice_update"),)))
