"""Reductions: ops that take several elements to one, over any axes.

Half precision is accumulated in float32. Equal elements share the gradient of `max` and `min`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mxcompat._array.array import array, wrap
from mxcompat._array.casting import truth
from mxcompat._array.devices import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op

from ..arguments import INVALID, axes_of, axis_of, require_array
from ..define import as_bool, as_float, op, same
from ..examples import example
from .blocks import summed

__all__ = [
    "NO_MEAN_AXIS", "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "mean_of", "min",
    "minmax", "prod", "reduced", "reduction_record", "size_of", "sum", "sum_of", "wide",
]  # fmt: skip


NO_MEAN_AXIS = "[mean] axis {axis} is out of bounds for array with {ndim} dimensions."


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape that is left when `axes` are reduced."""
    if keepdims:
        return tuple([1 if k in axes else n for k, n in enumerate(shape)])
    return tuple([n for k, n in enumerate(shape) if k not in axes])


def _accumulated(dtype: Dtype) -> Dtype:
    if dtype.kind in "bi" and dtype.size < 4:
        return avals.int32
    return avals.uint32 if dtype.kind == "u" and dtype.size < 4 else dtype


def reduction_record(
    name: str, impl: Callable[..., Any], result: Callable[[Dtype], Dtype], check: Any = None, lazy: bool = False,
    casts: bool = True,
) -> Op:  # fmt: skip
    """A record of a reduction, with `axes` and `keepdims`.

    `impl(x, axes, keepdims)` is given its input cast to the result's dtype, unless that is bool. `check(aval, axes)`
    raises if there is nothing to reduce. With `lazy`, no axes means no change, not even of dtype. Without `casts`,
    `impl` is given its input as it is, and the dtype of the result.
    """

    def infer(a: Aval, axes: tuple[int, ...], keepdims: bool) -> Aval:
        if check:
            check(a, axes)
        return aval(reduced(a.shape, axes, keepdims), a.dtype if lazy and not axes else result(a.dtype))

    def lower(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        x = jnp.asarray(x)
        if lazy and not axes:
            return x
        want = result(avals.from_numpy(x.dtype))  # type: ignore[arg-type]
        if not casts:
            return impl(x, axes, keepdims, want.numpy)
        if want.kind != "b" and x.dtype.kind != "c":
            x = x.astype(want.numpy)
        return impl(x, axes, keepdims)

    return op(name, lower, infer, ("axes", "keepdims"))


def _not_empty(name: str) -> Callable[[Aval, tuple[int, ...]], None]:
    def check(a: Aval, axes: tuple[int, ...]) -> None:
        for k in axes:
            if a.shape[k] == 0:
                raise ValueError(f"[{name}] Cannot {name} reduce over axis {k} with size 0.")

    return check


def _first_place(x: Any, axes: tuple[int, ...], worst: float) -> Any:
    """Where, in the order of `axes`, the largest element (the smallest if `worst` is inf) first is; `axes` stay."""
    search = lax.argmax if worst < 0 else lax.argmin
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    flat = lax.reshape(lax.transpose(x, (*rest, *axes)), (*(x.shape[axis] for axis in rest), size_of(x, axes)))
    return lax.expand_dims(search(flat, len(rest), jnp.int32), axes)


def _places(x: Any, axes: tuple[int, ...]) -> Any:
    """The places of the elements, counted in the order of `axes`."""
    place = jnp.zeros((1,) * x.ndim, jnp.int32)
    for axis in axes:
        place = place * x.shape[axis] + lax.broadcasted_iota(
            jnp.int32, tuple(n if k == axis else 1 for k, n in enumerate(x.shape)), axis
        )
    return place


def _extreme(reduce: Callable[..., Any], worst: float) -> Callable[..., Any]:
    """`jnp.max` or `jnp.min`, for complex numbers too: by the real part, then the imaginary part."""

    @partial(jax.custom_jvp, nondiff_argnums=(1, 2))
    def real(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        return reduce(x, axis=axis, keepdims=keepdims)

    @real.defjvp
    def real_jvp(axes: tuple[int, ...], keepdims: bool, primals: Any, tangents: Any) -> Any:
        x = primals[0]
        found = reduce(x, axis=axes, keepdims=True)
        equal = (x == found).astype(x.dtype)
        count = jnp.sum(equal, axis=axes, keepdims=True, dtype=x.dtype)
        # XLA may compute x twice and round differently (a product and a sum as one operation or as two), so that no
        # element equals the one found. Then the place where it was found counts; to search for it takes long.
        lost = (count == 0) & (found == found)
        nowhere = jnp.full(found.shape, -1, jnp.int32)
        place = lax.cond(jnp.any(lost), lambda: jnp.where(lost, _first_place(x, axes, worst), -1), lambda: nowhere)
        share = jnp.where(lost, (_places(x, axes) == place).astype(x.dtype), equal / count)
        out = found if keepdims else lax.squeeze(found, axes)
        return out, jnp.sum(share * tangents[0], axis=axes, keepdims=keepdims, dtype=x.dtype)

    def impl(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if x.dtype.kind != "c":
            chosen = real if jnp.issubdtype(x.dtype, jnp.floating) else reduce
            return chosen(x, axis=axes, keepdims=keepdims)
        re, im = lax.real(x), lax.imag(x)
        first = reduce(re, axis=axes, keepdims=True)
        second = reduce(jnp.where(re == first, im, jnp.asarray(worst, im.dtype)), axis=axes, keepdims=True)
        nan = jnp.any(x != x, axis=axes, keepdims=True)
        out = lax.complex(jnp.where(nan, math.nan, first), jnp.where(nan, 0.0, second))
        return out if keepdims else lax.squeeze(out, axes)

    return impl


def sum_of(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    wider = wide(x)
    return jnp.sum(wider, axis=axes, keepdims=keepdims, dtype=wider.dtype).astype(x.dtype)


def _prod(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    wider = wide(x)
    return jnp.prod(wider, axis=axes, keepdims=keepdims, dtype=wider.dtype).astype(x.dtype)


def size_of(x: Any, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[k] for k in axes)


def wide(x: Any) -> Any:
    """Half precision as float32, anything else as it is."""
    half = x.dtype.itemsize == 2 and jnp.issubdtype(x.dtype, jnp.floating)
    return x.astype(jnp.float32) if half else x


def mean_of(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return _divided(sum_of(wide(x), axes, keepdims), size_of(x, axes)).astype(x.dtype)


def _accumulator(dtype: Any) -> Any:
    """What to add up in for a result of this dtype."""
    return jnp.float32 if dtype.itemsize == 2 else dtype


def _sum(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    return summed(x, axes, keepdims, _accumulator(dtype)).astype(dtype)


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    return _divided(summed(x, axes, keepdims, _accumulator(dtype)), size_of(x, axes)).astype(dtype)


def _divided(total: Any, count: int) -> Any:
    size = jnp.asarray(count, total.dtype)
    if total.dtype.kind == "c":
        return total / size
    return total * (jnp.ones((), total.dtype) / size)  # as MLX has it


def _logsumexp(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not axes:
        return x
    wider = wide(x)
    sizes = lax.real(wider) if wider.dtype.kind == "c" else wider
    largest = lax.stop_gradient(jnp.max(sizes, axis=axes, keepdims=True))
    shift = jnp.where(jnp.isfinite(largest), largest, jnp.zeros((), largest.dtype)).astype(wider.dtype)
    out = lax.log(sum_of(lax.exp(wider - shift), axes, True)) + shift
    return (out if keepdims else lax.squeeze(out, axes)).astype(x.dtype)


def _check_logsumexp(a: Aval, axis: Any) -> None:
    if a.size == 0:
        raise ValueError("[logsumexp] Received empty array.")
    if a.ndim == 0 and axis is not None and axis != () and axis != []:
        raise ValueError("[logsumexp] Received non-empty axes for array with 0 dimensions.")


_SUM = reduction_record("sum", _sum, _accumulated, lazy=True, casts=False)
_PROD = reduction_record("prod", _prod, _accumulated, lazy=True)
_MAX = reduction_record("max", _extreme(jnp.max, -math.inf), same, _not_empty("max"), lazy=True)
_MIN = reduction_record("min", _extreme(jnp.min, math.inf), same, _not_empty("min"), lazy=True)
_MEAN = reduction_record("mean", _mean, as_float, casts=False)
_LOGSUMEXP = reduction_record("logsumexp", _logsumexp, as_float)
_ALL = reduction_record("all", lambda x, axes, keepdims: jnp.all(truth(x), axis=axes, keepdims=keepdims), as_bool)
_ANY = reduction_record("any", lambda x, axes, keepdims: jnp.any(truth(x), axis=axes, keepdims=keepdims), as_bool)


def _reduction(
    record: Op, summary: str, dtypes: str, raises: str = "", *, guard: Callable[[Aval, Any], None] | None = None,
    message: str = INVALID,
) -> Callable[..., array]:  # fmt: skip
    """The public function of a reduction.

    Args:
        summary, dtypes, raises: parts of its docstring.
        guard: `guard(aval, axis)` raises for what MLX refuses before it looks at the axes.
        message: of the IndexError for an axis out of range.
    """
    name = record.name

    def function(a: Any, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
        check_stream(stream)
        node = a._node if type(a) is array else require_array(a, name)
        if guard:
            guard(node.aval, axis)
        return wrap(apply(record, (node,), (axes_of(axis, node.aval.ndim, message), bool(keepdims))))

    function.__name__ = function.__qualname__ = name
    function.op = record  # type: ignore[attr-defined]
    function.__doc__ = _DOC.format(name=name, example=example(name), summary=summary, dtypes=dtypes, raises=raises)
    return function


_DOC = """{summary}

Args:
    a: an array, of any shape.
    axis: the axis or axes to reduce; None for all of them, an empty sequence for none.
    keepdims: whether to keep reduced axes, with size 1.
    stream: accepted, and ignored.

Returns:
    An array without the reduced axes, {dtypes}.

Raises:
    IndexError: if an axis is out of range.
    ValueError: if an axis is named twice{raises}.

Example:
{example}
"""

_OWN = "of the dtype of `a`"
_WIDE = "of the dtype of `a`; int32 or uint32 instead of narrower integers and bool"
_FLOAT = "of the dtype of `a`, float32 instead of an integer or bool"
_EMPTY = ", or if a reduced axis has size 0"

sum = _reduction(_SUM, "The sum of the elements.", _WIDE)
prod = _reduction(_PROD, "The product of the elements.", _WIDE)
max = _reduction(_MAX, "The largest element; NaN if there is one.", _OWN, _EMPTY)
min = _reduction(_MIN, "The smallest element; NaN if there is one.", _OWN, _EMPTY)
mean = _reduction(_MEAN, "The mean of the elements.", _FLOAT, message=NO_MEAN_AXIS)
logsumexp = _reduction(_LOGSUMEXP, "The logarithm of the sum of the exponentials.", _FLOAT, ", or if `a` is empty",
                       guard=_check_logsumexp)  # fmt: skip
all = _reduction(_ALL, "Whether no element is 0.", "of bools")
any = _reduction(_ANY, "Whether some element is not 0.", "of bools")


def minmax(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> tuple[array, array]:
    """The smallest and the largest element.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        `(min(a, axis, keepdims), max(a, axis, keepdims))`

    Example:
        >>> mx.minmax(mx.array([3, 1, 2]))
        (array(1, dtype=int32), array(3, dtype=int32))
    """
    check_stream(stream)
    require_array(a, "minmax")
    return min(a, axis, keepdims), max(a, axis, keepdims)


def _count(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return jnp.sum(truth(jnp.asarray(x)), axis=axes, keepdims=keepdims, dtype=jnp.int32)


_COUNT = op("count_nonzero", _count, lambda a, axes, keepdims: aval(reduced(a.shape, axes, keepdims), avals.int32),
            ("axes", "keepdims"))  # fmt: skip


def count_nonzero(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
    """How many elements are not 0.

    Args:
        a: an array, of any shape.
        axis: the axis or axes to reduce; None for all of them.
        keepdims: whether to keep reduced axes, with size 1.
        stream: accepted, and ignored.

    Returns:
        An int32 array without the reduced axes.

    Example:
        >>> mx.count_nonzero(mx.array([[0, 1], [2, 3]]), axis=0)
        array([1, 2], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "count_nonzero")
    return wrap(apply(_COUNT, (node,), (axes_of(axis, node.aval.ndim), bool(keepdims))))


def _arg_extreme(find: Callable[..., Any], reduce: Callable[..., Any]) -> Callable[..., Any]:
    def impl(x: Any, axis: int | None, keepdims: bool) -> Any:
        x = jnp.asarray(x)
        shape = x.shape
        if axis is None:
            x = x.reshape(-1)
        k = axis or 0
        if x.dtype.kind == "c":
            re, im = lax.real(x), lax.imag(x)
            best = re == reduce(re, axis=k, keepdims=True)
            im = jnp.where(best, im, -reduce(jnp.asarray([-math.inf, math.inf], im.dtype)))
            x = jnp.where(x != x, jnp.asarray(math.nan, im.dtype), im)
        x = x.astype(jnp.uint8) if x.dtype.kind == "b" else x
        if x.shape[k] >= _LONG and jax.default_backend() == "cpu":
            out = _in_two_passes(find, reduce, x, k).astype(jnp.uint32)
        else:
            out = find(x, axis=k).astype(jnp.uint32)
        if not keepdims:
            return out
        return out.reshape(tuple([1 if axis is None or j == axis else n for j, n in enumerate(shape)]))

    return impl


_LONG = 1 << 12
"""The size from which on a CPU searches in two passes, a fifth of the time of XLA's argmax."""


def _in_two_passes(find: Callable[..., Any], reduce: Callable[..., Any], x: Any, axis: int) -> Any:
    """The first place of the largest (smallest) element: the value first, then where it is.

    XLA may compute x twice and round differently, so that no element is the one found: then it has to be searched for.
    """
    n = x.shape[axis]
    x = lax.stop_gradient(x)
    places = lax.broadcasted_iota(jnp.int32, x.shape, axis)

    def first(hit: Any) -> Any:
        return jnp.min(jnp.where(hit, places, n), axis=axis)

    found = first(x == reduce(x, axis=axis, keepdims=True))
    if jnp.issubdtype(x.dtype, jnp.floating):
        nan = first(x != x)
        found = jnp.where(nan < n, nan, found)
    return lax.cond(jnp.max(found, initial=0) < n, lambda x: found, lambda x: find(x, axis=axis).astype(jnp.int32), x)


def _arg_infer(name: str) -> Callable[..., Aval]:
    def infer(a: Aval, axis: int | None, keepdims: bool) -> Aval:
        axes = tuple(range(a.ndim)) if axis is None else (axis,)
        return aval(reduced(a.shape, axes, keepdims), avals.uint32)

    return infer


_PARAMS = ("axis", "keepdims")
_ARGMAX = op("argmax", _arg_extreme(jnp.argmax, jnp.max), _arg_infer("argmax"), _PARAMS)
_ARGMIN = op("argmin", _arg_extreme(jnp.argmin, jnp.min), _arg_infer("argmin"), _PARAMS)


def _argument(record: Op, which: str) -> Callable[..., array]:
    name = record.name

    def function(a: array, /, axis: int | None = None, keepdims: bool = False, *, stream: Any = None) -> array:
        check_stream(stream)
        node = require_array(a, name)
        axis = None if axis is None else index(axis)
        if node.aval.size == 0:
            raise ValueError(f"[{name}] Cannot {name} reduce zero size array.")
        k = None if axis is None else axis_of(axis, node.aval.ndim, message=INVALID)
        return wrap(apply(record, (node,), (k, bool(keepdims))))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The index of the {which} element: the first, if several are equal; of the first NaN, if any.

Args:
    a: an array, of any shape.
    axis: the axis to search along; None to search the flattened array.
    keepdims: whether to keep reduced axes, with size 1.
    stream: accepted, and ignored.

Returns:
    A uint32 array without the axis searched.

Raises:
    IndexError: if the axis is out of range.
    ValueError: if `a` is empty.

Example:
{example(name)}
"""
    return function


argmax = _argument(_ARGMAX, "largest")
argmin = _argument(_ARGMIN, "smallest")
