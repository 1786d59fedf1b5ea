"""`linalg.norm` and `linalg.cross`: vector and matrix norms of every order, and the cross product."""

from __future__ import annotations

import math
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.errors import incompatible
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, complex64, float32, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import INVALID, any_integer, any_number, axis_of, flag, integer, integers, is_sequence, require_array
from ..define import as_float, broadcast, op
from ..reductions.extremes import largest, smallest
from .common import INEXACT, check_matrix
from .decompositions import singular_values

__all__ = ["CROSS", "NORM", "cross", "is_spectral", "norm"]


def _infer(a: Aval, order: float | str | None, axes: tuple[int, ...], keepdims: bool) -> Aval:
    dtype = as_float(a.dtype)
    if is_spectral(order, axes):
        check_matrix("svd", a, INEXACT)
    if dtype is complex64 and (order in (None, "nuc") or (order == 2 and len(axes) == 1)):
        dtype = float32
    if isinstance(order, float) and math.isinf(order):
        for axis in axes:
            if not a.shape[axis]:
                kind = "max" if order > 0 or (len(axes) == 2 and axis == axes[1]) else "min"
                raise ValueError(f"[{kind}] Cannot {kind} reduce over axis {axis} with size 0.")
    if keepdims:
        shape = tuple(1 if k in axes else n for k, n in enumerate(a.shape))
    else:
        shape = tuple(n for k, n in enumerate(a.shape) if k not in axes)
    return aval(shape, dtype)


def is_spectral(order: float | str | None, axes: tuple[int, ...]) -> bool:
    """Return True for a norm that is computed from the singular values."""
    return len(axes) == 2 and order in ("nuc", 2.0, -2.0)


def _norm(a: Any, order: float | str | None, axes: tuple[int, ...], keepdims: bool) -> Any:
    want = _infer(aval(a.shape, from_numpy(a.dtype)), order, axes, keepdims).dtype._numpy  # type: ignore[arg-type]
    x = jnp.asarray(a, as_float(from_numpy(a.dtype))._numpy)  # type: ignore[arg-type]
    if x.dtype.itemsize == 2:
        x = x.astype(jnp.float32)
    if is_spectral(order, axes):
        s = singular_values(jnp.moveaxis(x, axes, (-2, -1)))
        out = s.sum(-1) if order == "nuc" else s.max(-1) if order == 2 else s.min(-1)
        out = jnp.expand_dims(out, axes) if keepdims else out
    elif order is None or (order == 2 and len(axes) == 1):
        squares = jnp.square(x.real) + jnp.square(x.imag) if jnp.iscomplexobj(x) else jnp.square(x)
        out = jnp.sqrt(squares.sum(axes, keepdims=keepdims))
    elif len(axes) == 2:
        out = _induced(_absolute(x), order, axes, keepdims)  # type: ignore[arg-type]
    else:
        out = _vector(_absolute(x), order, axes[0], keepdims)  # type: ignore[arg-type]
    return out.astype(want)


def _absolute(x: Any) -> Any:
    """Return the absolute values. Unlike that of `jnp.abs`, the derivative at 0 is 0."""
    return jnp.abs(x) if jnp.iscomplexobj(x) else x * jax.lax.stop_gradient(jnp.sign(x))


def _vector(x: Any, order: float, axis: int, keepdims: bool) -> Any:
    """Return the norm of vectors, given their absolute values."""
    if math.isinf(order):
        return (largest if order > 0 else smallest)(x, (axis,), keepdims)
    if order == 0:
        return (x != 0).sum(axis, keepdims=keepdims)
    if order == 1:
        return x.sum(axis, keepdims=keepdims)
    total = (x ** x.dtype.type(order)).sum(axis, keepdims=keepdims)
    return total ** x.dtype.type(1 / order)


def _induced(x: Any, order: float, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the largest or smallest sum of a column (order 1, -1) or row (order inf, -inf), given the absolute
    values."""
    along, across = (axes[1], axes[0]) if math.isinf(order) else axes
    sums = x.sum(along, keepdims=True)
    out = (largest if order > 0 else smallest)(sums, (across,), True)
    return out if keepdims else out.squeeze(axes)


NORM = op("linalg_norm", _norm, _infer, ("order", "axes", "keepdims"))


def norm(a: array, /, ord: Any = None, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
    """Return the norm of vectors or matrices.

    Args:
        a: an array of any dtype.
        ord: the order. None: the square root of the sum of squares. For vectors: any number; `inf` and `-inf` are the
            largest and the smallest absolute value, 0 is the number of nonzero elements. For matrices: "fro" is the
            same as None. "nuc" is the sum of the singular values; 2 and -2 are the largest and the smallest singular
            value. 1 and -1 are the largest and the smallest sum of the absolute values of a column; `inf` and `-inf`
            are those of a row.
        axis: one axis for vector norms, two axes for matrix norms. The default is all axes.
        keepdims: whether to keep the axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        The norms, with the dtype of `a` (float32 for integers). For complex numbers the dtype is float32 if the norm
        needs only sums of squares or singular values, and complex64 otherwise.

    Raises:
        ValueError: if the order does not fit the number of axes.
        IndexError: if an axis is out of range.
        RuntimeError: at evaluation, for a norm of singular values of a matrix with a NaN.

    Example:
        >>> mx.linalg.norm(mx.array([3.0, 4.0]))
        array(5, dtype=float32)
    """
    check_stream(stream)
    node = require_array(a, "norm")
    ndim = node.aval.ndim
    kept = flag(keepdims, "norm", "keepdims")
    axes = _axes(axis, ndim)
    order = _order(ord)
    if isinstance(order, str):
        if len(axes) != 2:
            raise ValueError(
                f"[linalg::norm] Norm '{order}' only supported for matrices, but received {len(axes)} axis/axes."
            )
        if order not in ("fro", "f", "nuc"):
            raise ValueError(f"[linalg::norm] Invalid ord value '{order}' for matrix norm.")
        order = None if order != "nuc" else order
    elif (len(axes) > 2 and (order is not None or axis is not None)) or (order is not None and not axes):
        raise ValueError("[linalg::norm] Received too many axes for norm.")
    elif order is not None and len(axes) == 2 and abs(order) not in (1, 2, math.inf):
        raise ValueError(f"[linalg::norm] Invalid ord {order:g} for matrix norm.")
    where = "[moveaxis] " if is_spectral(order, axes) else ""
    axes = tuple([axis_of(k, ndim, message=where + INVALID) for k in axes])
    if len(set(axes)) < len(axes):
        raise ValueError("Duplicate axes detected in reduction.")
    return wrap(apply(NORM, (node,), (order, axes, kept)))


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    try:
        return integers(axis) if is_sequence(axis) else (integer(axis),)
    except TypeError:
        raise incompatible("norm", f"axis must be None, an int or a list of ints, not {axis!r}.") from None


def _order(ord: Any) -> float | str | None:
    if ord is None or isinstance(ord, str):
        return ord
    return any_number(ord, "norm", "ord")


def _cross_shapes(a: Aval, b: Aval, axis: int) -> tuple[int, ...]:
    shapes = []
    for x in (a, b):
        shape = list(x.shape)
        shape[axis] = 3
        shapes.append(tuple(shape))
    return broadcast(*shapes)


def _cross_infer(a: Aval, b: Aval, axis: int) -> Aval:
    for x in (a, b):
        axis_of(axis, x.ndim, "linalg::cross")
        if x.shape[axis] not in (2, 3):
            raise ValueError("[linalg::cross] The specified axis must have size 2 or 3.")
    shape = _cross_shapes(a, b, axis)
    for x in (a, b):
        if x.shape[axis] == 2:
            two = list(shape)
            two[axis] = 2
            broadcast(x.shape, tuple(two))  # MLX pads with zeros after this check
    return aval(shape, promote(a.dtype, b.dtype))


def _cross(a: Any, b: Any, axis: int) -> Any:
    avals = [aval(x.shape, from_numpy(x.dtype)) for x in (a, b)]  # type: ignore[arg-type]
    shape = _cross_shapes(avals[0], avals[1], axis)
    want = promote(avals[0].dtype, avals[1].dtype)._numpy

    def rows(x: Any) -> list[Any]:
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, 3 - x.shape[axis])
        x = jnp.broadcast_to(jnp.pad(jnp.asarray(x, want), padding), shape)
        return [jnp.take(x, k, axis=axis) for k in range(3)]

    (a0, a1, a2), (b0, b1, b2) = rows(a), rows(b)
    minus = jnp.logical_xor if want == jnp.bool_ else jnp.subtract
    return jnp.stack([minus(a1 * b2, a2 * b1), minus(a2 * b0, a0 * b2), minus(a0 * b1, a1 * b0)], axis).astype(want)


CROSS = op("linalg_cross", _cross, _cross_infer, ("axis",))


def cross(a: array, b: array, axis: int = -1, *, stream: Any = None) -> array:
    """Return the cross product along an axis.

    Args:
        a: an array of any dtype, with size 2 or 3 along the axis. A missing third component is 0.
        b: an array like `a`. The operands broadcast against each other.
        axis: the axis.
        stream: accepted, and ignored.

    Returns:
        The products, with size 3 along the axis and the promoted dtype of the operands.

    Raises:
        ValueError: for any other size along the axis, or if the shapes do not fit.
        IndexError: if the axis is out of range.

    Example:
        >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
        array([0, 0, 1], dtype=int32)
    """
    check_stream(stream)
    return wrap(apply(CROSS, (require_array(a, "cross"), require_array(b, "cross")), (any_integer(axis),)))
