"""Manipulation functions of the standard, and functions that take elements from arrays."""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat import core as mx
from mxcompat.core import array

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: array) -> list[array]:
    """Broadcast arrays to their common shape."""
    return list(mx.broadcast_arrays(*arrays)) if arrays else []


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape to which these shapes broadcast."""
    return tuple(mx.broadcast_shapes(*shapes)) if shapes else ()


def broadcast_to(x: array, /, shape: tuple[int, ...]) -> array:
    """Broadcast an array to a shape: repeat it along axes of size one and along new first axes."""
    return mx.broadcast_to(x, shape)


def concat(arrays: Sequence[array], /, *, axis: int | None = 0) -> array:
    """Join arrays along an axis. If the axis is None, flatten them first."""
    dtype = mx.result_type(*arrays)
    cast = [x.astype(dtype) for x in arrays]
    return mx.concatenate([x.reshape(-1) for x in cast]) if axis is None else mx.concatenate(cast, axis)


def expand_dims(x: array, /, axis: Axes = 0) -> array:
    """Insert an axis of size one."""
    return mx.expand_dims(x, axis)


def flip(x: array, /, *, axis: Axes | None = None) -> array:
    """Reverse the elements along axes, or along all axes if `axis` is None."""
    return mx.flip(x, axis)


def moveaxis(x: array, source: Axes, destination: Axes, /) -> array:
    """Move axes to other positions."""
    if isinstance(source, int) and isinstance(destination, int):
        return mx.moveaxis(x, source, destination)
    moved = [k % x.ndim for k in ((source,) if isinstance(source, int) else source)]
    order = [k for k in range(x.ndim) if k not in moved]
    places = [k % x.ndim for k in ((destination,) if isinstance(destination, int) else destination)]
    for place, k in sorted(zip(places, moved, strict=True)):
        order.insert(place, k)
    return mx.transpose(x, order)


def permute_dims(x: array, /, axes: tuple[int, ...]) -> array:
    """Permute the axes of an array."""
    return mx.transpose(x, axes)


def repeat(x: array, repeats: int | array, /, *, axis: int | None = None) -> array:
    """Repeat each entry along an axis, or each element if `axis` is None. `repeats` may be an array with a number for
    each entry, which is evaluated."""
    if not isinstance(repeats, array):
        return mx.repeat(x, repeats, axis)
    if axis is None:
        x, axis = x.reshape(-1), 0
    size = x.shape[axis]
    times = mx.broadcast_to(repeats, (size,)).tolist()
    places = [k for k, n in enumerate(times) for _ in range(n)]
    return mx.take(x, mx.array(places, mx.int32), axis)


def reshape(x: array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> array:
    """Reshape an array.

    Raises:
        ValueError: if `copy` is False, because it is not known whether a copy will be made.
    """
    if copy is False:
        raise ValueError("[reshape] An array that shares its data cannot be promised.")
    return mx.reshape(x, shape)


def roll(x: array, /, shift: Axes, *, axis: Axes | None = None) -> array:
    """Roll the elements along axes: those that leave at one end enter at the other."""
    return mx.roll(x, shift, axis)


def squeeze(x: array, /, axis: Axes) -> array:
    """Remove axes of size one."""
    return mx.squeeze(x, axis)


def stack(arrays: Sequence[array], /, *, axis: int = 0) -> array:
    """Stack arrays along a new axis."""
    dtype = mx.result_type(*arrays)
    return mx.stack([x.astype(dtype) for x in arrays], axis)


def take(x: array, indices: array, /, *, axis: int | None = None) -> array:
    """Take the entries at these indices along an axis, which may be omitted for a vector."""
    return mx.take(x, indices, 0 if axis is None else axis)


def take_along_axis(x: array, indices: array, /, *, axis: int = -1) -> array:
    """Take one element for each index, from the same position in all other axes."""
    shape = list(mx.broadcast_shapes(_without(x.shape, axis), _without(indices.shape, axis)))
    place = axis % x.ndim

    def spread(a: array) -> array:
        return mx.broadcast_to(a, (*shape[:place], a.shape[axis], *shape[place:]))

    return mx.take_along_axis(spread(x), spread(indices), axis)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    sizes = list(shape)
    del sizes[axis]
    return tuple(sizes)


def tile(x: array, repetitions: tuple[int, ...], /) -> array:
    """Repeat the array this many times along each axis."""
    return mx.tile(x, repetitions)


def unstack(x: array, /, *, axis: int = 0) -> tuple[array, ...]:
    """Split an array into its entries along an axis."""
    return tuple(mx.moveaxis(x, axis, 0))
