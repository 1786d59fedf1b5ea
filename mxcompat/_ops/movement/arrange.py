"""Ops that arrange elements: broadcasting, flips, shifts, strided views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.errors import bad_cast, incompatible
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, format_shape
from mxcompat._graph.ir.aval import int32 as _int32
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.trace_stack import any_shape, innermost_trace
from mxcompat._jax import jax, jnp

from ..arguments import any_integer, axis_of, integer, integers, is_sequence, plain, require_array, variadic
from ..define import broadcast, op
from ..elementwise.by_bits import by_bits
from ..examples import example
from .pad import pad
from .shape import reshape

__all__ = [
    "BROADCAST_TO", "as_strided", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_into",
    "broadcast_shapes", "broadcast_to", "flip", "roll",
]  # fmt: skip


def broadcast_into(a: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` if an array of shape `a` broadcasts to it. Raises MLX's ValueError otherwise."""
    if broadcast(a, shape) != shape:
        raise ValueError(f"Cannot broadcast array of shape {format_shape(a)} into shape {format_shape(shape)}.")
    return shape


def _broadcast_to_aval(a: Aval, shape: tuple[int, ...]) -> Aval:
    if any(n < 0 for n in shape):
        raise ValueError("[broadcast_to] Negative dimensions not allowed.")
    return aval(broadcast_into(a.shape, shape), a.dtype)


BROADCAST_TO = op("broadcast_to", lambda x, shape: jnp.broadcast_to(x, shape), _broadcast_to_aval, ("shape",))


def broadcast_to(a: Any, /, shape: Sequence[int], *, stream: Any = None) -> array:
    """Repeat an array along new axes and along axes of size one, up to a shape.

    Args:
        a: an array or a number.
        shape: the shape of the result, a sequence of ints.
        stream: accepted, and ignored.

    Returns:
        An array of that shape, with the dtype of `a`.

    Raises:
        ValueError: if `a` does not broadcast to it.

    Example:
        >>> mx.broadcast_to(mx.arange(3), (2, 3))
        array([[0, 1, 2],
               [0, 1, 2]], dtype=int32)
    """
    check_stream(stream)
    node = apply(BROADCAST_TO, (operands.node(a),), (plain(shape),))
    if not node.trace and any_shape():
        node.trace = innermost_trace()  # the shape may be that of a transform's argument
    return wrap(node)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that several shapes broadcast to.

    Args:
        *shapes: sequences of integers, at least one.

    Returns:
        A tuple of integers.

    Raises:
        ValueError: if no shape is given, or if the shapes do not broadcast.

    Example:
        >>> mx.broadcast_shapes((1, 2), (3, 1))
        (3, 2)
    """
    if not shapes:
        raise ValueError("[broadcast_shapes] Must provide at least one shape.")
    plain_shapes: list[tuple[int, ...]] = []
    for shape in shapes:
        try:
            plain_shapes.append(plain(shape))
        except TypeError:
            if not plain_shapes:
                raise bad_cast("a shape is a sequence of ints") from None
            message = "[broadcast_shapes] Expects a sequence of shapes (tuple or list of ints)."
            raise ValueError(message) from None
    return broadcast(*plain_shapes)


def _broadcast_all(*avals: Aval) -> tuple[Aval, ...]:
    shape = broadcast(*[a.shape for a in avals])
    return tuple([aval(shape, a.dtype) for a in avals])


BROADCAST_ARRAYS = op("broadcast_arrays", lambda *xs: tuple(jnp.broadcast_arrays(*xs)), _broadcast_all)


def broadcast_arrays(*arrays: array, stream: Any = None) -> list[array]:
    """Broadcast arrays against each other.

    Args:
        *arrays: arrays.
        stream: accepted, and ignored.

    Returns:
        A list of arrays with one shape, each with its own dtype.

    Raises:
        ValueError: if their shapes do not fit.

    Example:
        >>> mx.broadcast_arrays(mx.zeros((2, 1)), mx.arange(3))
        [array([[0, 0, 0],
               [0, 0, 0]], dtype=float32), array([[0, 1, 2],
               [0, 1, 2]], dtype=int32)]
    """
    check_stream(stream)
    nodes = variadic(arrays, "broadcast_arrays")
    return wrap_all(apply(BROADCAST_ARRAYS, tuple(nodes))) if nodes else []


def _padded(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    if len(shape) >= ndim:
        return shape
    if ndim < 3:
        return (1,) * (ndim - len(shape)) + shape
    return {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[len(shape)]


ATLEAST = op(
    "atleast",
    lambda x, ndim: jnp.reshape(x, _padded(jnp.shape(x), ndim)),
    lambda a, ndim: aval(_padded(a.shape, ndim), a.dtype),
    ("ndim",),
)


def _atleast_function(ndim: int, how: str) -> Any:
    name = f"atleast_{ndim}d"

    def function(*arys: array, stream: Any = None) -> array | list[array]:
        check_stream(stream)
        out = [wrap(apply(ATLEAST, (n,), (ndim,))) for n in variadic(arys, name)]
        return out[0] if len(out) == 1 else out

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Give arrays at least {ndim} dimension{"s" if ndim > 1 else ""}.

Args:
    *arys: arrays. {how}
    stream: accepted, and ignored.

Returns:
    An array if there is one argument, else a list of arrays.

Example:
{example(name)}
"""
    return function


atleast_1d = _atleast_function(1, "A 0-d one becomes an array of one element.")
atleast_2d = _atleast_function(2, "New axes come first.")
atleast_3d = _atleast_function(3, "Shape (N,) becomes (1, N, 1), shape (M, N) becomes (M, N, 1).")


def _flip_axes(ndim: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(ndim))
    return tuple(sorted({axis_of(axis, ndim, "flip") for axis in axes}))


def _flip_aval(a: Aval, axes: tuple[int, ...] | None) -> Aval:
    _flip_axes(a.ndim, axes)
    return a


def _flipped(x: Any, axes: Any) -> Any:
    return jax.lax.rev(jnp.asarray(x), _flip_axes(jnp.ndim(x), axes))


FLIP = op("flip", by_bits(_flipped), _flip_aval, ("axes",))


def flip(a: array, /, axis: int | Sequence[int] | None = None, *, stream: Any = None) -> array:
    """Reverse the order of the elements along axes.

    Args:
        a: an array.
        axis: the axis or axes; None for all.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and dtype of `a`.

    Raises:
        IndexError: if there is no such axis.

    Example:
        >>> mx.flip(mx.arange(6).reshape(2, 3), axis=1)
        array([[2, 1, 0],
               [5, 4, 3]], dtype=int32)
    """
    check_stream(stream)
    axes = None if axis is None else integers(axis) if is_sequence(axis) else (integer(axis),)
    return wrap(apply(FLIP, (require_array(a, "flip"),), (axes,)))


def _rolled(x: Any, *shifts: Any, axes: tuple[int, ...] | None) -> Any:
    x = jnp.asarray(x)
    if axes is None:
        return _rolled(x.reshape(-1), *shifts, axes=(0,)).reshape(x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        size = x.shape[axis]
        if size == 0:
            continue
        if isinstance(shift, np.generic):
            cut = -int(shift) % size
            parts = jax.lax.split(x, (cut, size - cut), axis)
            x = jnp.concatenate([parts[1], parts[0]], axis)
        else:  # for a shift that is a runtime value, read a window of the array concatenated with itself
            start = jnp.mod(-shift.astype(jnp.int32), size)
            x = jax.lax.dynamic_slice_in_dim(jnp.concatenate([x, x], axis), start, size, axis)
    return x


def _roll_aval(a: Aval, *shifts: Aval, axes: tuple[int, ...] | None) -> Aval:
    for axis in axes or ():
        axis_of(axis, a.ndim, message="[roll] Invalid axis {axis} for array with {ndim} dimensions.")
    return a


ROLL = op("roll", by_bits(_rolled), _roll_aval, ("axes",))


def roll(
    a: array, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None, *, stream: Any = None
) -> array:
    """Shift elements along axes. Elements that leave at one end come back at the other.

    Args:
        a: an array.
        shift: the number of places to shift towards higher indices. A sequence has one number for each axis; for a
            single axis, or for None, their sum counts.
        axis: the axis or axes; None shifts the flattened array and restores its shape.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and dtype of `a`.

    Raises:
        ValueError: if there are fewer shifts than axes.
        IndexError: if there is no such axis.

    Example:
        >>> mx.roll(mx.arange(6).reshape(2, 3), 1, axis=1)
        array([[2, 0, 1],
               [5, 3, 4]], dtype=int32)
    """
    check_stream(stream)
    x = require_array(a, "roll")
    several = is_sequence(shift)
    if axis is not None and is_sequence(axis):
        axes: tuple[int, ...] | None = integers(axis)
        shifts = integers(shift) if several else (integer(shift),) * len(axes)  # type: ignore[arg-type]
        if len(shifts) < len(axes):  # type: ignore[arg-type]
            raise ValueError(
                f"[roll] At least one shift value per axis is required, {len(shifts)} provided for {len(axes)} axes."  # type: ignore[arg-type]
            )
        shifts = shifts[: len(axes)]  # type: ignore[arg-type]
    else:
        axes = None if axis is None else (any_integer(axis),)  # type: ignore[arg-type]
        shifts = (sum(integers(shift)) if several else integer(shift),)
    numbers = tuple([operands.scalar_node(n, _int32) for n in shifts])
    return wrap(apply(ROLL, (x, *numbers), (axes,)))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    flat = jnp.reshape(x, -1)
    if strides == _row_major(shape):
        return flat[offset : offset + int(np.prod(shape, dtype=np.int64))].reshape(shape)
    kind = jnp.int32 if flat.size < 2**31 else jnp.int64
    places = jnp.full(shape, offset, kind)
    for axis, stride in enumerate(strides):
        if shape:
            places += jax.lax.broadcasted_iota(kind, shape, axis) * kind(stride)
    return flat.at[places].get(mode="promise_in_bounds")


def _strided_aval(a: Aval, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Aval:
    if any(n < 0 for n in shape):
        raise ValueError("[as_strided] Negative dimensions not allowed.")
    if len(shape) != len(strides):
        raise ValueError(
            f"[as_strided] Expected one stride per axis, got {format_shape(strides)} for shape {format_shape(shape)}."
        )
    low, high = _reached(shape, strides, offset)
    if low < 0 or high >= a.size:
        raise IndexError(f"[as_strided] The view reaches elements {low} to {high} of an array of size {a.size}.")
    return aval(shape, a.dtype)


def _reached(shape: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, int]:
    """Return the lowest and the highest index of a view; 0 and -1 if the view is empty."""
    if any(n <= 0 for n in shape):
        return 0, -1
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=False)]
    return offset + sum(min(r, 0) for r in reach), offset + sum(max(r, 0) for r in reach)


AS_STRIDED = op("as_strided", by_bits(_strided), _strided_aval, ("shape", "strides", "offset"))


def as_strided(
    a: array, /, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None, offset: int = 0, *,
    stream: Any = None,
) -> array:  # fmt: skip
    """Return the elements at regular strides of an array, which counts as row-major.

    Args:
        a: an array.
        shape: the shape of the result; None for that of `a`.
        strides: for each axis of the result, the distance between neighbours in elements of `a`; None for row-major.
        offset: the element of `a` at which the result starts.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`. It is a copy: later changes of `a` do not affect it.

    Raises:
        IndexError: if a row, along the last axis, reaches before the start of `a` or begins after its end. Real MLX
            reads unrelated memory there. Elements of a row after the end of `a` are 0, so the last window of a signal
            may exceed the signal.

    Example:
        >>> mx.as_strided(mx.arange(6), (4, 3), (1, 1))
        array([[0, 1, 2],
               [1, 2, 3],
               [2, 3, 4],
               [3, 4, 5]], dtype=int32)
    """
    check_stream(stream)
    x = require_array(a, "as_strided")
    sizes = x.aval.shape if shape is None else plain(shape)
    steps = _row_major(sizes) if strides is None else plain(strides, any_integer)
    start, size = any_integer(offset), x.aval.size
    if not 0 <= start < 2**64:
        raise incompatible("as_strided", f"offset must not be negative, got {start}.")
    missing = _reached(sizes, steps, start)[1] + 1 - size
    if missing > 0 and _reached((*sizes[:-1], 1), steps, start)[1] < size:
        x = pad(reshape(a, (size,)), (0, missing))._node
    return wrap(apply(AS_STRIDED, (x,), (sizes, steps, start)))
