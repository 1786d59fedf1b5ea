"""Joining and splitting: concatenate, stack, split, unstack, repeat, tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.errors import expected, incompatible
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, format_shape, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jax, jnp

from ..arguments import any_integer, axis_of, integer, integers, is_sequence, require_array
from ..creation.filled import CONSTANT
from ..define import op
from ..elementwise.by_bits import by_bits
from ..indexing.room import grown
from .shape import flatten

__all__ = ["concat", "concatenate", "repeat", "section_bounds", "split", "stack", "tile", "tiled_shapes", "unstack"]


def _nodes(arrays: Any, name: str) -> tuple[Node, ...]:
    """Return the nodes of a sequence of arrays. An array counts as the sequence of its rows."""
    if type(arrays) is not list and type(arrays) is not tuple:
        if isinstance(arrays, array) and arrays.ndim:
            arrays = unstack(arrays)
        elif not is_sequence(arrays):
            raise expected(name, "arrays", arrays)
        else:
            arrays = [arrays[k] for k in range(len(arrays))]
    return tuple([a._node if type(a) is array else require_array(a, name) for a in arrays])


def _common(xs: Sequence[Any]) -> list[Any]:
    """Return arrays cast to their promoted dtype."""
    want = reduce(promote, [from_numpy(x.dtype) for x in xs])._numpy  # type: ignore[arg-type, union-attr]
    return [jnp.asarray(x, want) for x in xs]


def _concatenated(*avals: Aval, axis: int) -> Aval:
    first = avals[0]
    k = axis_of(axis, first.ndim, "concatenate")
    total = 0
    for a in avals:
        if a.ndim != first.ndim:
            raise ValueError(
                "[concatenate] All the input arrays must have the same number of dimensions. However, got arrays "
                f"with dimensions {first.ndim} and {a.ndim}."
            )
        if a is not first and not _fits(first.shape, a.shape, k):
            shapes = ", ".join(format_shape(b.shape) for b in avals)
            raise ValueError(
                "[concatenate] All the input array dimensions must match exactly except for the concatenation axis. "
                f"However, the provided shapes are {shapes}, and the concatenation axis is {axis}."
            )
        total += a.shape[k]
    shape = (*first.shape[:k], total, *first.shape[k + 1 :])
    return aval(shape, reduce(promote, [a.dtype for a in avals]))


def _fits(shape: tuple[int, ...], other: tuple[int, ...], axis: int) -> bool:
    return shape[:axis] == other[:axis] and shape[axis + 1 :] == other[axis + 1 :]


def _concatenate(*xs: Any, axis: int) -> Any:
    return jnp.concatenate(_common(xs), axis)


CONCATENATE = op("concatenate", by_bits(_concatenate, slice(None)), _concatenated, ("axis",))


def concatenate(arrays: Sequence[array], /, axis: int | None = 0, *, stream: Any = None) -> array:
    """Join arrays along an existing axis.

    Args:
        arrays: a list or tuple of arrays whose shapes may differ only along `axis`.
        axis: the axis; None joins the flattened arrays.
        stream: accepted, and ignored.

    Returns:
        An array with the promoted dtype of the arrays.

    Raises:
        ValueError: if there are no arrays, or if their shapes do not fit.
        IndexError: if there is no such axis.

    Example:
        >>> mx.concatenate([mx.zeros((2, 2)), mx.ones((2, 3))], axis=1)
        array([[0, 0, 1, 1, 1],
               [0, 0, 1, 1, 1]], dtype=float32)
    """
    check_stream(stream)
    axis = None if axis is None else integer(axis)
    nodes = _nodes(arrays, "concatenate")
    if not nodes:
        raise ValueError("[concatenate] No arrays provided for concatenation")
    if axis is None:
        nodes = tuple([flatten(wrap(n))._node for n in nodes])
        axis = 0
    if len(nodes) == 1:
        return wrap(nodes[0])
    buffer = grown(nodes, axis, CONCATENATE) if nodes[-1].op is CONSTANT else None
    return wrap(apply(CONCATENATE, nodes, (axis,)) if buffer is None else buffer)


def concat(arrays: Sequence[array], /, axis: int | None = 0, *, stream: Any = None) -> array:
    """Join arrays along an existing axis, like `concatenate`.

    Args:
        arrays: a list or tuple of arrays whose shapes may differ only along `axis`.
        axis: the axis; None joins the flattened arrays.
        stream: accepted, and ignored.

    Returns:
        An array with the promoted dtype of the arrays.

    Raises:
        ValueError: if there are no arrays, or if their shapes do not fit.
        IndexError: if there is no such axis.

    Example:
        >>> mx.concat([mx.zeros(2), mx.ones(2)])
        array([0, 0, 1, 1], dtype=float32)
    """
    check_stream(stream)
    return concatenate(arrays, axis)


def _stacked(*avals: Aval, axis: int) -> Aval:
    shape = avals[0].shape
    if any(a.shape != shape for a in avals):
        raise ValueError("[stack] All arrays must have the same shape")
    k = axis_of(axis, len(shape) + 1, "stack")
    return aval((*shape[:k], len(avals), *shape[k:]), reduce(promote, [a.dtype for a in avals]))


def _stack(*xs: Any, axis: int) -> Any:
    return jnp.stack(_common(xs), axis)


STACK = op("stack", by_bits(_stack, slice(None)), _stacked, ("axis",))


def stack(arrays: Sequence[array], /, axis: int | None = 0, *, stream: Any = None) -> array:
    """Join arrays of one shape along a new axis.

    Args:
        arrays: a list or tuple of arrays.
        axis: the place of the new axis in the result.
        stream: accepted, and ignored.

    Returns:
        An array with the promoted dtype of the arrays.

    Raises:
        ValueError: if there are no arrays, or if their shapes differ.
        IndexError: if the axis is out of range for the result.

    Example:
        >>> mx.stack([mx.zeros(3), mx.ones(3)], axis=1)
        array([[0, 1],
               [0, 1],
               [0, 1]], dtype=float32)
    """
    check_stream(stream)
    axis = 0 if axis is None else integer(axis)
    nodes = _nodes(arrays, "stack")
    if not nodes:
        raise ValueError("[stack] No arrays provided for stacking")
    return wrap(apply(STACK, nodes, (axis,)))


def section_bounds(size: int, sections: int | tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the start and the end of each part. Points beyond an end count as the end; negative points count from the
    end."""
    if isinstance(sections, int):
        step = size // sections
        return [(k * step, (k + 1) * step) for k in range(sections)]
    points = [min(max(p + size if p < 0 else p, 0), size) for p in sections]
    return [(low, max(low, high)) for low, high in zip([0, *points], [*points, size], strict=True)]


def _split_avals(a: Aval, sections: int | tuple[int, ...], axis: int) -> tuple[Aval, ...]:
    k = axis_of(axis, a.ndim, "split")
    if isinstance(sections, int):
        if sections <= 0:
            raise ValueError(f"[split] num_splits must be positive and non-zero but got {sections}.")
        if a.shape[k] % sections:
            raise ValueError(
                "Array split does not result in sub arrays with equal size: attempting "
                f"{sections} splits along axis {axis} for shape {format_shape(a.shape)}."
            )
    parts = section_bounds(a.shape[k], sections)
    return tuple([aval((*a.shape[:k], high - low, *a.shape[k + 1 :]), a.dtype) for low, high in parts])


def _split_impl(x: Any, sections: int | tuple[int, ...], axis: int) -> tuple[Any, ...]:
    x = jnp.asarray(x)
    parts = section_bounds(x.shape[axis], sections)
    sizes = [high - low for low, high in parts]
    if sum(sizes) == x.shape[axis]:
        return tuple(jax.lax.split(x, sizes, axis % x.ndim))
    return tuple([jax.lax.slice_in_dim(x, low, high, axis=axis) for low, high in parts])


SPLIT = op("split", by_bits(_split_impl), _split_avals, ("sections", "axis"))


def split(a: array, /, indices_or_sections: int | Sequence[int], axis: int = 0, *, stream: Any = None) -> list[array]:
    """Cut an array into parts along an axis.

    Args:
        a: an array.
        indices_or_sections: the number of parts of equal size, or a sequence of the points to cut at.
        axis: the axis.
        stream: accepted, and ignored.

    Returns:
        A list of arrays with the dtype of `a`.

    Raises:
        ValueError: if the parts would not be equal.
        IndexError: if there is no such axis.

    Example:
        >>> mx.split(mx.arange(6), [1, 3])
        [array([0], dtype=int32), array([1, 2], dtype=int32), array([3, 4, 5], dtype=int32)]
    """
    check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "split")
    sections = integers(indices_or_sections) if is_sequence(indices_or_sections) else integer(indices_or_sections)
    return wrap_all(apply(SPLIT, (x,), (sections, any_integer(axis))))


def _unstack_avals(a: Aval, axis: int) -> tuple[Aval, ...]:
    k = axis_of(axis, a.ndim, "unstack")
    return (aval(a.shape[:k] + a.shape[k + 1 :], a.dtype),) * a.shape[k]


def _unstack_impl(x: Any, axis: int) -> tuple[Any, ...]:
    x = jnp.asarray(x)
    parts = jax.lax.split(x, (1,) * x.shape[axis], axis % x.ndim)
    return tuple([jax.lax.squeeze(p, (axis,)) for p in parts])


UNSTACK = op("unstack", by_bits(_unstack_impl), _unstack_avals, ("axis",))


def unstack(x: array, /, *, axis: int = 0, stream: Any = None) -> tuple[array, ...]:
    """Return the slices of an array along an axis, which is removed.

    Args:
        x: an array.
        axis: the axis.
        stream: accepted, and ignored.

    Returns:
        A tuple of arrays with the dtype of `x`.

    Raises:
        IndexError: if there is no such axis.

    Example:
        >>> mx.unstack(mx.eye(2))
        (array([1, 0], dtype=float32), array([0, 1], dtype=float32))
    """
    check_stream(stream)
    node = apply(UNSTACK, (require_array(x, "unstack"),), (any_integer(axis),))
    return tuple(wrap_all(node))


def _repeated(a: Aval, repeats: int, axis: int | None) -> Aval:
    if axis is None:
        shape, k = (a.size,), 0
    else:
        shape, k = a.shape, axis_of(axis, a.ndim, "repeat")
    if repeats < 0:
        raise ValueError("[repeat] Number of repeats cannot be negative")
    return aval((*shape[:k], shape[k] * repeats, *shape[k + 1 :]), a.dtype)


def _repeat_impl(x: Any, repeats: int, axis: int | None) -> Any:
    x = jnp.asarray(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    k = axis % x.ndim
    shape = x.shape
    wide = jnp.broadcast_to(jnp.expand_dims(x, k + 1), (*shape[: k + 1], repeats, *shape[k + 1 :]))
    return wide.reshape(*shape[:k], shape[k] * repeats, *shape[k + 1 :])


REPEAT = op("repeat", by_bits(_repeat_impl), _repeated, ("repeats", "axis"))


def repeat(array: array, /, repeats: int, axis: int | None = None, *, stream: Any = None) -> array:
    """Repeat each element a number of times.

    Args:
        array: an array.
        repeats: the number of repetitions.
        axis: the axis; None repeats the elements of the flattened array.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of the input.

    Raises:
        ValueError: if `repeats` is negative.
        IndexError: if there is no such axis.

    Example:
        >>> mx.repeat(mx.arange(3), 2)
        array([0, 0, 1, 1, 2, 2], dtype=int32)
    """
    check_stream(stream)
    if getattr(repeats, "ndim", 0):
        raise incompatible("repeat", "Expected one number of repeats for all elements.")
    axis = None if axis is None else any_integer(axis)
    return wrap(apply(REPEAT, (require_array(array, "repeat"),), (integer(repeats), axis)))


def tiled_shapes(shape: tuple[int, ...], reps: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and the repetitions, extended to the same length."""
    ndim = max(len(shape), len(reps))
    return (1,) * (ndim - len(shape)) + shape, (1,) * (ndim - len(reps)) + reps


def _tiled(a: Aval, reps: tuple[int, ...]) -> Aval:
    if any(n < 0 for n in reps):
        raise ValueError("[broadcast_to] Negative dimensions not allowed.")
    return aval(tuple([n * r for n, r in zip(*tiled_shapes(a.shape, reps), strict=True)]), a.dtype)


def _tile_impl(x: Any, reps: tuple[int, ...]) -> Any:
    x = jnp.asarray(x)
    shape, counts = tiled_shapes(x.shape, reps)
    pairs = [p for n, r in zip(shape, counts, strict=True) for p in (r, n)]
    wide = jnp.broadcast_to(x.reshape([p for n in shape for p in (1, n)]), pairs)
    return wide.reshape([math.prod(p) for p in zip(shape, counts, strict=True)])


TILE = op("tile", by_bits(_tile_impl), _tiled, ("reps",))


def tile(a: array, reps: int | Sequence[int], /, *, stream: Any = None) -> array:
    """Repeat a whole array along its axes.

    Args:
        a: an array.
        reps: the number of repetitions along each axis, with the last axis last. There may be more numbers than axes.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if a number is negative.

    Example:
        >>> mx.tile(mx.arange(3), (2, 2))
        array([[0, 1, 2, 0, 1, 2],
               [0, 1, 2, 0, 1, 2]], dtype=int32)
    """
    check_stream(stream)
    counts = integers(reps) if is_sequence(reps) else (integer(reps),)
    return wrap(apply(TILE, (require_array(a, "tile"),), (counts,)))
