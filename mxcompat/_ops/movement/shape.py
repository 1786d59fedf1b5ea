"""Shape ops: the same elements, in the same order, with another shape.

Axes and shapes keep the form that the user gave (`-1`, None, negative axes) until `infer` and `impl` see the array. So
a program compiled with `shapeless=True` adapts to the shape of its input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import aval, format_shape
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp

from ..arguments import any_integer, axis_of, integer, integers, is_sequence, plain, require_array
from ..define import op

__all__ = ["RESHAPE", "expand_dims", "flatten", "reshape", "squeeze", "unflatten"]


def _reshaped(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return `shape` with its -1 replaced by the inferred size."""
    if -1 in shape:
        known = -math.prod(shape)
        if shape.count(-1) > 1:
            raise ValueError("[reshape] Reshape can only infer one dimension.")
        if known == 0:
            raise ValueError("[reshape] Cannot infer the shape of an empty array")
        shape = tuple([size // known if n == -1 else n for n in shape])
    if math.prod(shape) != size or any(n < 0 for n in shape):
        raise ValueError(f"[reshape] Cannot reshape array of size {size} into shape {format_shape(shape)}.")
    return shape


RESHAPE = op(
    "reshape",
    lambda x, shape: jnp.reshape(x, _reshaped(shape, jnp.size(x))),
    lambda a, shape: aval(_reshaped(shape, a.size), a.dtype),
    ("shape",),
)


def reshape(a: array, /, shape: Sequence[int], *, stream: Any = None) -> array:
    """Return the same elements, in row-major order, with another shape.

    Args:
        a: an array.
        shape: the new shape, a sequence of ints. One of them may be -1: it is inferred from the others.
        stream: accepted, and ignored.

    Returns:
        An array of that shape, with the dtype of `a`.

    Raises:
        ValueError: if the sizes differ, or if the -1 cannot be inferred.

    Example:
        >>> mx.reshape(mx.arange(6), (2, -1))
        array([[0, 1, 2],
               [3, 4, 5]], dtype=int32)
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "reshape")
    return wrap(apply(RESHAPE, (x,), (plain(shape),)))


def _flat_range(ndim: int, start: int, end: int) -> tuple[int, int]:
    start = max(0, start + ndim if start < 0 else start)
    end = min(ndim - 1, end + ndim if end < 0 else end)
    if ndim and start > end:
        raise ValueError("[flatten] start_axis must be less than or equal to end_axis")
    return start, end


def _flattened(shape: tuple[int, ...], start: int, end: int) -> tuple[int, ...]:
    if not shape:
        return (1,)
    start, end = _flat_range(len(shape), start, end)
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


FLATTEN = op(
    "flatten",
    lambda x, start, end: jnp.reshape(x, _flattened(jnp.shape(x), start, end)),
    lambda a, start, end: aval(_flattened(a.shape, start, end), a.dtype),
    ("start", "end"),
)


def flatten(a: array, /, start_axis: int = 0, end_axis: int = -1, *, stream: Any = None) -> array:
    """Merge the axes from `start_axis` to `end_axis`, both included, into one.

    Args:
        a: an array. A 0-d array becomes an array of one element.
        start_axis: the first axis to merge. An axis out of range counts as the nearest one.
        end_axis: the last axis to merge.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if `start_axis` comes after `end_axis`.

    Example:
        >>> mx.flatten(mx.zeros((2, 3, 4)), start_axis=1).shape
        (2, 12)
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "flatten")
    return wrap(apply(FLATTEN, (x,), (integer(start_axis), integer(end_axis))))


def _unflattened(shape: tuple[int, ...], axis: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    if not sizes:
        raise ValueError("[unflatten] Shape to unflatten to cannot be empty.")
    k = axis_of(axis, len(shape), message="[unflatten] Invalid axes {place} for array with {ndim} dimensions.")
    if -1 in sizes:
        if sizes.count(-1) > 1:
            raise ValueError("[Unflatten] Can only infer one dimension.")
        known = -math.prod(sizes)
        if known == 0:
            raise ValueError("[Unflatten] Cannot infer a dimension beside one of size 0.")
        sizes = tuple([shape[k] // known if n == -1 else n for n in sizes])
    if math.prod(sizes) != shape[k] or any(n < 0 for n in sizes):
        raise ValueError(
            f"[Unflatten] Cannot unflatten axis {axis} with size {shape[k]} into shape {format_shape(sizes)}."
        )
    return (*shape[:k], *sizes, *shape[k + 1 :])


UNFLATTEN = op(
    "unflatten",
    lambda x, axis, sizes: jnp.reshape(x, _unflattened(jnp.shape(x), axis, sizes)),
    lambda a, axis, sizes: aval(_unflattened(a.shape, axis, sizes), a.dtype),
    ("axis", "sizes"),
)


def unflatten(a: array, /, axis: int, shape: Sequence[int], *, stream: Any = None) -> array:
    """Split one axis into several.

    Args:
        a: an array.
        axis: the axis to split.
        shape: the sizes to split it into; one may be -1 and is inferred.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if the product of the sizes is not the size of the axis.
        IndexError: if there is no such axis.

    Example:
        >>> mx.unflatten(mx.arange(8), 0, (2, -1))
        array([[0, 1, 2, 3],
               [4, 5, 6, 7]], dtype=int32)
    """
    check_stream(stream)
    return wrap(apply(UNFLATTEN, (require_array(a, "unflatten"),), (any_integer(axis), plain(shape))))


def _squeezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    if axes is None:
        return tuple([n for n in shape if n != 1])
    gone = set()
    for axis in axes:
        k = axis_of(axis, len(shape), "squeeze")
        if shape[k] != 1:
            raise ValueError(f"[squeeze] Cannot squeeze axis {axis} with size {shape[k]} which is not equal to 1.")
        gone.add(k)
    if len(gone) < len(axes):
        raise ValueError("[squeeze] Received duplicate axes.")
    return tuple([n for k, n in enumerate(shape) if k not in gone])


SQUEEZE = op(
    "squeeze",
    lambda x, axes: jnp.reshape(x, _squeezed(jnp.shape(x), axes)),
    lambda a, axes: aval(_squeezed(a.shape, axes), a.dtype),
    ("axes",),
)


def squeeze(a: array, /, axis: int | Sequence[int] | None = None, *, stream: Any = None) -> array:
    """Remove axes of size one.

    Args:
        a: an array.
        axis: the axis or axes to remove; None for all axes of size one.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if an axis has another size, or is given twice.
        IndexError: if there is no such axis.

    Example:
        >>> mx.squeeze(mx.zeros((1, 2, 1)), axis=0).shape
        (2, 1)
    """
    check_stream(stream)
    axes = None if axis is None else (axis,) if type(axis) is int else _axes(axis)
    return wrap(apply(SQUEEZE, (require_array(a, "squeeze"),), (axes,)))


def _axes(axis: Any) -> tuple[int, ...]:
    return integers(axis) if is_sequence(axis) else (any_integer(axis),)


def _expanded(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    ndim = len(shape) + len(axes)
    new = {axis_of(axis, ndim, "expand_dims") for axis in axes}
    if len(new) < len(axes):
        raise ValueError("[expand_dims] Received duplicate axes.")
    sizes = iter(shape)
    return tuple([1 if k in new else next(sizes) for k in range(ndim)])


EXPAND_DIMS = op(
    "expand_dims",
    lambda x, axes: jnp.reshape(x, _expanded(jnp.shape(x), axes)),
    lambda a, axes: aval(_expanded(a.shape, axes), a.dtype),
    ("axes",),
)


def expand_dims(a: array, /, axis: int | Sequence[int], *, stream: Any = None) -> array:
    """Insert axes of size one.

    Args:
        a: an array.
        axis: the place of the new axis or axes in the result.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if an axis is given twice.
        IndexError: if an axis is out of range for the result.

    Example:
        >>> mx.expand_dims(mx.arange(3), (0, -1)).shape
        (1, 3, 1)
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "expand_dims")
    axes = (axis,) if type(axis) is int else _axes(axis)
    return wrap(apply(EXPAND_DIMS, (x,), (axes,)))
