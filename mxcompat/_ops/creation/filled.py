"""Creation functions: arrays made only of a shape, a dtype and a few numbers.

They are ordinary nodes, so XLA folds them into the ops that use them. Numbers that may change from call to call (a fill
value, the start of a range) are inputs; shapes and dtypes are parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._array import operands
from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.construct import cast
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.trace_stack import any_shape
from mxcompat._jax import jnp

from ..arguments import flag, require_array, require_dtype, require_text, shape_of, variadic
from ..define import broadcast, op
from ..examples import example
from ..movement.arrange import broadcast_into

__all__ = [
    "CONSTANT", "FULL", "empty", "empty_like", "full", "full_like", "meshgrid", "ones", "ones_like", "zeros",
    "zeros_like",
]  # fmt: skip

CONSTANT = op(
    "constant",
    lambda out, value: jnp.full(out.shape, value, out.dtype._numpy),
    lambda out, value: out,
    ("out", "value"),
)


def _full_of(name: str, value: int) -> Callable[..., array]:
    """Make the public function `zeros` or `ones`."""

    def function(shape: int | Sequence[int], dtype: Dtype | None = _d.float32, *, stream: Any = None) -> array:
        check_stream(stream)
        if dtype is None:
            dtype = _d.float32
        require_dtype(dtype, "")
        out = aval(shape_of(shape), dtype)
        return wrap(Node(CONSTANT, (out, value), (), out, 0))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return an array of {name}.

Args:
    shape: an int or a sequence of ints.
    dtype: the dtype; None for float32.
    stream: accepted, and ignored.

Returns:
    An array of that shape and dtype.

Raises:
    ValueError: if a size is negative.

Example:
{example(name)}
"""
    return function


zeros = _full_of("zeros", 0)
ones = _full_of("ones", 1)

CONSTANT_LIKE = op(
    "constant_like",
    lambda x, dtype, value: jnp.full(jnp.shape(x), value, dtype._numpy),
    lambda a, dtype, value: aval(a.shape, dtype),
    ("dtype", "value"),
    smooth=slice(0),
    reads=slice(0),
)


def _full_like_of(name: str, value: int) -> Callable[..., array]:
    """Make the public function `zeros_like` or `ones_like`."""

    def function(a: array, /, dtype: Dtype | None = None, *, stream: Any = None) -> array:
        check_stream(stream)
        x = require_array(a, name)
        dtype = x.aval.dtype if dtype is None else require_dtype(dtype, name)
        if x.trace and not any_shape():  # the result must not depend on a transform's argument
            out = aval(x.aval.shape, dtype)
            return wrap(Node(CONSTANT, (out, value), (), out, 0))
        return wrap(apply(CONSTANT_LIKE, (x,), (dtype, value)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return an array of {name.removesuffix("_like")} with the shape of another.

Args:
    a: an array.
    dtype: the dtype; None for that of `a`.
    stream: accepted, and ignored.

Returns:
    An array with the shape of `a`.

Example:
{example(name)}
"""
    return function


zeros_like = _full_like_of("zeros_like", 0)
ones_like = _full_like_of("ones_like", 1)

empty = zeros  # the array API's names; MLX's `empty` fills with zeros, too
empty_like = zeros_like


FULL = op(
    "full",
    lambda value, shape: jnp.broadcast_to(value, shape),
    lambda v, shape: aval(broadcast_into(v.shape, shape), v.dtype),
    ("shape",),
)


def full(shape: int | Sequence[int], vals: Any, dtype: Dtype | None = None, *, stream: Any = None) -> array:
    """Return an array filled with a value.

    Args:
        shape: an int or a sequence of ints.
        vals: a number, or an array that broadcasts to the shape.
        dtype: the dtype for a number. It is promoted as in an operation of the number and an array of this dtype: 1.5
            and an integer dtype give a float. For complex64, a float becomes float32. The dtype of an array does not
            change.
        stream: accepted, and ignored.

    Returns:
        An array of that shape.

    Raises:
        ValueError: if a size is negative, or if the value does not fit the dtype or does not broadcast.

    Example:
        >>> mx.full((2, 2), 7.0)
        array([[7, 7],
               [7, 7]], dtype=float32)
    """
    check_stream(stream)
    if dtype is not None:
        require_dtype(dtype, "full")
    if dtype is _d.complex64 and isinstance(vals, float):
        dtype = _d.float32
    return wrap(apply(FULL, (operands.node(vals, dtype),), (shape_of(shape),)))


FULL_LIKE = op(
    "full_like",
    lambda x, value: jnp.broadcast_to(value, broadcast(jnp.shape(x), jnp.shape(value))),
    lambda a, v: aval(broadcast(a.shape, v.shape), v.dtype),
    smooth=slice(1, None),
    reads=slice(1, None),
)


def full_like(a: array, /, vals: Any, dtype: Dtype | None = None, *, stream: Any = None) -> array:
    """Return an array with the shape of another, filled with a value.

    Args:
        a: an array.
        vals: a number, or an array that broadcasts with `a`.
        dtype: the dtype; None for that of `a`.
        stream: accepted, and ignored.

    Returns:
        An array with the broadcast shape of `a` and `vals`.

    Raises:
        ValueError: if the value does not fit the dtype or does not broadcast.

    Example:
        >>> mx.full_like(mx.zeros((2, 2)), 7.0)
        array([[7, 7],
               [7, 7]], dtype=float32)
    """
    check_stream(stream)
    x = require_array(a, "full_like")
    want = x.aval.dtype if dtype is None else require_dtype(dtype, "full_like")
    value = cast(operands.node(vals, want), want)
    if x.trace and not any_shape():
        return wrap(apply(FULL, (value,), (broadcast(x.aval.shape, value.aval.shape),)))
    return wrap(apply(FULL_LIKE, (x, value)))


def _grid_shape(avals: Sequence[Aval], place: int, sparse: bool, indexing: str) -> tuple[int, ...]:
    sizes = [a.size if k == place or not sparse else 1 for k, a in enumerate(avals)]
    if indexing == "xy" and len(sizes) > 1:
        sizes[0], sizes[1] = sizes[1], sizes[0]
    return tuple(sizes)


def _grid_avals(*avals: Aval, sparse: bool, indexing: str) -> tuple[Aval, ...]:
    return tuple([aval(_grid_shape(avals, k, sparse, indexing), a.dtype) for k, a in enumerate(avals)])


def _grid_impl(*xs: Any, sparse: bool, indexing: str) -> tuple[Any, ...]:
    xs = tuple([jnp.ravel(x) for x in xs])
    out = []
    for k, x in enumerate(xs):
        row = jnp.reshape(x, _grid_shape(xs, k, True, indexing))
        out.append(jnp.broadcast_to(row, _grid_shape(xs, k, sparse, indexing)))
    return tuple(out)


MESHGRID = op("meshgrid", _grid_impl, _grid_avals, ("sparse", "indexing"))


def meshgrid(
    *arrays: array, sparse: bool | None = False, indexing: str | None = "xy", stream: Any = None
) -> tuple[array, ...]:
    """Return the coordinates of a grid, from the coordinates along each of its axes.

    Args:
        *arrays: arrays of one dimension, one for each axis; others are flattened.
        sparse: whether the results have size 1 along the axes on which they are constant.
        indexing: "xy": the first array runs along the second axis of the results. "ij": along the first.
        stream: accepted, and ignored.

    Returns:
        A tuple of arrays, one for each argument and with its dtype.

    Raises:
        ValueError: if `indexing` is neither "xy" nor "ij".

    Example:
        >>> mx.meshgrid(mx.arange(3), mx.arange(2), sparse=True)
        (array([[0, 1, 2]], dtype=int32), array([[0],
               [1]], dtype=int32))
    """
    check_stream(stream)
    flag(sparse, "meshgrid", "sparse")
    require_text(indexing, "meshgrid", "indexing")
    nodes = variadic(arrays, "meshgrid")
    if indexing not in ("xy", "ij"):
        raise ValueError("[meshgrid] Invalid indexing value. Valid values are 'xy' and 'ij'.")
    if not nodes:
        return ()
    return tuple(wrap_all(apply(MESHGRID, tuple(nodes), (sparse, indexing))))
