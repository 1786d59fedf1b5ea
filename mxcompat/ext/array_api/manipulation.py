"""Manipulation functions of the standard, and what takes elements from arrays."""

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
    """The arrays, all of the shape that they have together."""
    return list(mx.broadcast_arrays(*arrays)) if arrays else []


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    return tuple(mx.broadcast_shapes(*shapes)) if shapes else ()


def broadcast_to(x: array, /, shape: tuple[int, ...]) -> array:
    """The array, repeated along axes of size one, and new ones in front, to this shape."""
    return mx.broadcast_to(x, shape)


def concat(arrays: Sequence[array], /, *, axis: int | None = 0) -> array:
    """The arrays one after the other along an axis; flattened first, if that is None."""
    dtype = mx.result_type(*arrays)
    cast = [x.astype(dtype) for x in arrays]
    return mx.concatenate([x.reshape(-1) for x in cast]) if axis is None else mx.concatenate(cast, axis)


def expand_dims(x: array, /, axis: Axes = 0) -> array:
    """The array with an axis of size one more."""
    return mx.expand_dims(x, axis)


def flip(x: array, /, *, axis: Axes | None = None) -> array:
    """The elements in reverse order along axes; along all, if that is None."""
    return mx.flip(x, axis)


def moveaxis(x: array, source: Axes, destination: Axes, /) -> array:
    """The array with axes at other places."""
    if isinstance(source, int) and isinstance(destination, int):
        return mx.moveaxis(x, source, destination)
    moved = [k % x.ndim for k in ((source,) if isinstance(source, int) else source)]
    order = [k for k in range(x.ndim) if k not in moved]
    places = [k % x.ndim for k in ((destination,) if isinstance(destination, int) else destination)]
    for place, k in sorted(zip(places, moved, strict=True)):
        order.insert(place, k)
    return mx.transpose(x, order)


def permute_dims(x: array, /, axes: tuple[int, ...]) -> array:
    """The array with its axes in this order."""
    return mx.transpose(x, axes)


def repeat(x: array, repeats: int | array, /, *, axis: int | None = None) -> array:
    """Each entry along an axis (each element, if that is None) so many times; as often as an array says, which is
    evaluated."""
    if not isinstance(repeats, array):
        return mx.repeat(x, repeats, axis)
    if axis is None:
        x, axis = x.reshape(-1), 0
    size = x.shape[axis]
    times = mx.broadcast_to(repeats, (size,)).tolist()
    places = [k for k, n in enumerate(times) for _ in range(n)]
    return mx.take(x, mx.array(places, mx.int32), axis)


def reshape(x: array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> array:
    """The elements in another shape.

    Raises:
        ValueError: if `copy` is False: it is not known whether there is to be one.
    """
    if copy is False:
        raise ValueError("[reshape] An array that shares its data cannot be promised.")
    return mx.reshape(x, shape)


def roll(x: array, /, shift: Axes, *, axis: Axes | None = None) -> array:
    """The elements moved along axes, those that leave at one end come in at the other."""
    return mx.roll(x, shift, axis)


def squeeze(x: array, /, axis: Axes) -> array:
    """The array without axes of size one."""
    return mx.squeeze(x, axis)


def stack(arrays: Sequence[array], /, *, axis: int = 0) -> array:
    """The arrays along a new axis."""
    dtype = mx.result_type(*arrays)
    return mx.stack([x.astype(dtype) for x in arrays], axis)


def take(x: array, indices: array, /, *, axis: int | None = None) -> array:
    """The entries at these places along an axis, which may be left out for a vector."""
    return mx.take(x, indices, 0 if axis is None else axis)


def take_along_axis(x: array, indices: array, /, *, axis: int = -1) -> array:
    """For each place of `indices`, the element at that place but along the axis, where it says."""
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
    """The array so many times along each axis."""
    return mx.tile(x, repetitions)


def unstack(x: array, /, *, axis: int = 0) -> tuple[array, ...]:
    """The entries along an axis."""
    return tuple(mx.moveaxis(x, axis, 0))
