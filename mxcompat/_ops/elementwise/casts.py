"""Ops that change how an array is interpreted but not its values: dtype casts, bit casts, graph annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.casting import converted
from mxcompat._array.errors import bad_cast, expected
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp, lax

from ..arguments import flag, is_sequence, require_array, require_dtype, variadic
from ..define import op

__all__ = ["ASTYPE", "STOP_GRADIENT", "VIEW", "astype", "cast_node", "contiguous", "depends", "stop_gradient", "view"]


ASTYPE = op("astype", converted, lambda a, dtype: aval(a.shape, dtype), ("dtype",))


def astype(a: Any, /, dtype: Dtype, *, stream: Any = None) -> array:
    """Return the array with its elements converted to another dtype.

    Args:
        a: an array, of any shape.
        dtype: the dtype to convert to. Floats are truncated towards 0; complex numbers lose their imaginary part.
        stream: accepted, and ignored.

    Returns:
        An array with the shape of `a` and the given dtype.

    Raises:
        TypeError: if `a` is not an array or `dtype` is not a Dtype.

    Example:
        >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
        array([1, -1], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "astype")
    require_dtype(dtype, "astype")
    return wrap(cast_node(node, dtype))


def cast_node(node: Node, dtype: Dtype) -> Node:
    """Return a node cast to this dtype."""
    return node if node.aval.dtype is dtype else apply(ASTYPE, (node,), (dtype,))


def _view_aval(a: Aval, dtype: Dtype) -> Aval:
    if a.dtype.size == dtype.size:
        return aval(a.shape, dtype)
    if a.ndim == 0:
        raise ValueError("[view] Changing the type of a scalar is only allowed for types with the same size.")
    width = a.shape[-1] * a.dtype.size
    if width % dtype.size:
        raise ValueError(
            "[view] When viewing as a larger dtype, the size in bytes of the last axis must be a multiple of the "
            "requested type size."
        )
    return aval((*a.shape[:-1], width // dtype.size), dtype)


def _view(x: Any, dtype: Dtype) -> Any:
    x = jnp.asarray(x)
    shape = x.shape
    if x.dtype.kind == "c":
        x = jnp.stack([lax.real(x), lax.imag(x)], axis=-1)
    else:
        x = (x.astype(np.uint8) if x.dtype.kind == "b" else x)[..., None]
    atom = np.dtype(np.float32) if dtype._kind == "c" else np.dtype(np.uint8) if dtype._kind == "b" else dtype._numpy
    old, new = x.dtype.itemsize, atom.itemsize
    lead = shape[:-1]
    width = x.shape[-1] * old * (shape[-1] if shape else 1)  # bytes of the last axis
    # `jax.vmap` needs the extra leading axis: a bitcast fails there unless a reshape has put the mapped axis first.
    x = x.reshape(1, *lead, width // old if old >= new else width // new, *([new // old] if old < new else []))
    if old > new:  # without the barrier, XLA merges this bitcast with one that widens, and gets a wrong shape
        x = lax.optimization_barrier(x)
    x = lax.bitcast_convert_type(x, atom).reshape(*lead, width // dtype.size, dtype.size // new)
    if dtype._kind == "c":  # without the barrier, XLA overwrites the real and imaginary part too early
        x = lax.optimization_barrier(lax.complex(x[..., 0], x[..., 1]))
    else:
        x = x[..., 0] != 0 if dtype._kind == "b" else x[..., 0]
    return x if shape else x.reshape(())


VIEW = op("view", _view, _view_aval, ("dtype",), indices=0)


def view(a: Any, dtype: Dtype, stream: Any = None) -> array:
    """Return the bits of an array, interpreted as another dtype. The result has no derivative.

    Args:
        a: an array or a number, of any shape.
        dtype: the dtype of the result. If its size differs, the size of the last axis changes.
        stream: accepted, and ignored.

    Returns:
        An array with the given dtype.

    Raises:
        ValueError: if the last axis does not hold a whole number of elements of the dtype; when it is differentiated,
            unless the result passes through `stop_gradient`.

    Example:
        >>> mx.view(mx.array([1.0]), mx.uint32)
        array([1065353216], dtype=uint32)
    """
    check_stream(stream)
    require_dtype(dtype, "view")
    node = operands.node(a)
    return wrap(node if node.aval.dtype is dtype else apply(VIEW, (node,), (dtype,)))


STOP_GRADIENT = op("stop_gradient", lambda x: lax.stop_gradient(jnp.asarray(x)), lambda a: a, smooth=slice(0))


def stop_gradient(a: array, /, *, stream: Any = None) -> array:
    """Return the same values, with a derivative of zero.

    Args:
        a: an array, of any shape.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and dtype of `a`.

    Example:
        >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
        array(3, dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(STOP_GRADIENT, (require_array(a, "stop_gradient"),)))


_CONTIGUOUS = op("contiguous", lambda x: jnp.asarray(x), lambda a: a)


def contiguous(a: array, /, allow_col_major: bool = False, *, stream: Any = None) -> array:
    """Return the same array. Arrays have no strides here, so they are always contiguous.

    Args:
        a: an array, of any shape.
        allow_col_major: accepted, and ignored.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and dtype of `a`.

    Example:
        >>> mx.contiguous(mx.array([[1, 2], [3, 4]]).T)
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    check_stream(stream)
    flag(allow_col_major, "contiguous", "allow_col_major")
    return wrap(apply(_CONTIGUOUS, (require_array(a, "contiguous"),)))


def _depend(*inputs: Any, count: int) -> tuple[Any, ...]:
    return tuple(lax.optimization_barrier([jnp.asarray(x) for x in inputs])[:count])


_DEPENDS = op("depends", _depend, lambda *avals, count: avals[:count], ("count",))


def depends(inputs: array | Sequence[array], dependencies: array | Sequence[array]) -> array | list[array]:
    """Return the inputs, such that they are evaluated no earlier than the dependencies.

    Args:
        inputs: an array, or a sequence of them.
        dependencies: an array, or a sequence of them. The evaluation of the result also evaluates them.

    Returns:
        The inputs: an array if one was given, else a list of arrays.

    Raises:
        RuntimeError: if an argument is neither an array nor a sequence of arrays (TypeError: if it is None).

    Example:
        >>> x, logged = mx.array([1, 2]), mx.array([3])
        >>> mx.depends(x, [logged])
        array([1, 2], dtype=int32)
    """
    first, rest = ([x] if isinstance(x, array) else x for x in (inputs, dependencies))
    if first is None or rest is None:
        raise expected("depends", "arrays", None)
    if not (is_sequence(first) and is_sequence(rest)):
        raise bad_cast("depends takes arrays, and sequences of them")
    nodes = variadic([*first, *rest], "depends")
    out = wrap_all(apply(_DEPENDS, tuple(nodes), (len(first),)))
    return out[0] if isinstance(inputs, array) else out
