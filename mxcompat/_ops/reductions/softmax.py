"""Softmax, over any axes."""

from __future__ import annotations

from functools import partial
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax, lazy

from ..arguments import axes_of, check_axis_types, flag, require_array
from ..define import as_float, op
from .reduce import wide

__all__ = ["SOFTMAX", "softmax"]


def _softmax(x: Any, axes: tuple[int, ...], precise: bool) -> Any:
    x = jnp.asarray(x)
    want = _softmax_aval(aval(x.shape, from_numpy(x.dtype)), axes, precise).dtype._numpy  # type: ignore[arg-type]
    if not x.size:
        return x
    x = wide(x.astype(as_float(from_numpy(x.dtype))._numpy))  # type: ignore[arg-type]
    return _normalized(x, axes).astype(want)


@partial(lazy.custom_jvp, nondiff_argnums=(1,))
def _normalized(x: Any, axes: tuple[int, ...]) -> Any:
    largest = jnp.max(lax.real(x) if x.dtype.kind == "c" else x, axis=axes, keepdims=True)
    powers = lax.exp(x - largest)
    return powers / jnp.sum(powers, axis=axes, keepdims=True)


@_normalized.defjvp
def _normalized_jvp(axes: tuple[int, ...], primals: Any, tangents: Any) -> tuple[Any, Any]:
    y = _normalized(primals[0], axes)
    weighted = y * tangents[0]
    return y, weighted - y * jnp.sum(weighted, axis=axes, keepdims=True)


def _softmax_aval(a: Aval, axes: tuple[int, ...], precise: bool) -> Aval:
    # MLX's softmax of integers is a float only along the last axis, and axes of size 1 before it
    trailing = bool(axes) and axes == tuple(range(a.ndim - len(axes), a.ndim))
    floats = a.size and trailing and all(a.shape[k] == 1 for k in axes[:-1])
    return aval(a.shape, as_float(a.dtype)) if floats else a


SOFTMAX = op("softmax", _softmax, _softmax_aval, ("axes", "precise"))


def softmax(a: array, /, axis: Any = None, *, precise: bool = False, stream: Any = None) -> array:
    """Return exp(a) / sum(exp(a)), without overflow.

    Args:
        a: an array, of any shape.
        axis: the axis or axes along which the result sums to 1; None for all axes.
        precise: accepted; half precision is always computed in float32.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and the dtype of `a`; float32 for integers and bools if `axis` is only the last axis.

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or if `a` has no axes.

    Example:
        >>> mx.softmax(mx.array([[0.0, 0.0], [-1.0, 1.0]]), axis=-1)
        array([[0.5, 0.5],
               [0.119203, 0.880797]], dtype=float32)
    """
    check_stream(stream)
    node = require_array(a, "softmax")
    precise = flag(precise, "softmax", "precise")
    check_axis_types(axis)
    if node.aval.ndim == 0 and axis is not None and axis != () and axis != []:
        raise ValueError("[softmax] Received non-empty axes for array with 0 dimensions.")
    axes = axes_of(axis, node.aval.ndim) if node.aval.size else ()
    return wrap(apply(SOFTMAX, (node,), (axes, precise)))
