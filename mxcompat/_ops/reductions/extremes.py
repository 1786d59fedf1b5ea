"""Reductions that choose an element: `max`, `min`, and the indices of these. Equal elements share the gradient."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, aval, uint32
from mxcompat._graph.ir.direction import is_forward
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._jax import jnp, lax, lazy

from ..arguments import INVALID, any_integer, axis_of, flag, require_array
from ..define import op, same
from ..examples import example
from .blocks import found_in_blocks
from .reduce import reduced, reduction_function, reduction_record, size_of
from .sorting import is_float, is_long, on_cpu

__all__ = ["argmax", "argmin", "largest", "max", "min", "minmax", "smallest"]


def _not_empty(name: str) -> Callable[[Aval, tuple[int, ...]], None]:
    def check(a: Aval, axes: tuple[int, ...]) -> None:
        for k in axes:
            if a.shape[k] == 0:
                raise ValueError(f"[{name}] Cannot {name} reduce over axis {k} with size 0.")

    return check


def _first_index(x: Any, axes: tuple[int, ...], worst: float) -> Any:
    """Return the first index, in the order of `axes`, of the largest element (the smallest if `worst` is inf); `axes`
    stay."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    flat = lax.reshape(lax.transpose(x, (*rest, *axes)), (*(x.shape[axis] for axis in rest), size_of(x, axes)))
    return lax.expand_dims(_first_found(jnp.argmax if worst < 0 else jnp.argmin, flat, len(rest)), axes)


def _indices(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the flat index of each element along `axes`, counted in the order of `axes`."""
    index = jnp.zeros((1,) * x.ndim, jnp.int32)
    for axis in axes:
        index = index * x.shape[axis] + lax.broadcasted_iota(
            jnp.int32, tuple(n if k == axis else 1 for k, n in enumerate(x.shape)), axis
        )
    return index


def _extreme(reduce: Callable[..., Any], worst: float) -> Callable[..., Any]:
    """Return the implementation of `max` or `min`. Complex numbers are compared by their real part, then the imaginary
    part."""

    @partial(lazy.custom_jvp, nondiff_argnums=(1, 2))
    def real(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        return reduce(x, axis=axis, keepdims=keepdims)

    @real.defjvp
    def real_jvp(axes: tuple[int, ...], keepdims: bool, primals: Any, tangents: Any) -> Any:
        x = primals[0]
        extreme = reduce(x, axis=axes, keepdims=True)
        out = extreme if keepdims else lax.squeeze(extreme, axes)
        # in forward mode, the first of equal elements has the tangent; in reverse mode, equal elements share
        if is_forward():
            chosen = _indices(x, axes) == _first_index(x, axes, worst)
            moved = jnp.where(chosen, tangents[0], jnp.zeros((), x.dtype))
            return out, jnp.sum(moved, axis=axes, keepdims=keepdims, dtype=x.dtype)
        equal = (x == extreme).astype(x.dtype)
        count = jnp.sum(equal, axis=axes, keepdims=True, dtype=x.dtype)
        # If XLA computes x twice with different rounding, no element equals the extreme. Then search for its index.
        lost = (count == 0) & (extreme == extreme)
        nowhere = jnp.full(extreme.shape, -1, jnp.int32)
        some = jnp.any(count == 0)
        index = lax.cond(some, lambda: jnp.where(lost, _first_index(x, axes, worst), -1), lambda: nowhere)
        share = jnp.where(lost, (_indices(x, axes) == index).astype(x.dtype), equal / count)
        share = jnp.where(extreme == extreme, share, extreme)  # XLA gives 0 for 0 / 0 here
        return out, jnp.sum(share * tangents[0], axis=axes, keepdims=keepdims, dtype=x.dtype)

    def impl(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if x.dtype.kind == "c":
            return of_complex(x, axes, keepdims)
        chosen = real if jnp.issubdtype(x.dtype, jnp.floating) else reduce
        return chosen(x, axis=axes, keepdims=keepdims)

    @partial(lazy.custom_jvp, nondiff_argnums=(1, 2))
    def of_complex(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        extreme, _ = _extreme_of_complex(x, axes, worst)
        return extreme if keepdims else lax.squeeze(extreme, axes)

    @of_complex.defjvp
    def complex_jvp(axes: tuple[int, ...], keepdims: bool, primals: Any, tangents: Any) -> Any:
        out = of_complex(*primals, axes, keepdims)
        x = lax.stop_gradient(primals[0])  # JAX cannot differentiate the search of `_extreme_of_complex` a second time
        extreme, index = _extreme_of_complex(x, axes, worst)
        share = (_indices(x, axes) == index).astype(x.dtype)
        if not is_forward():
            equal = (x == extreme).astype(x.dtype)
            count = jnp.sum(equal, axis=axes, keepdims=True)
            # equal elements share, as real numbers do
            share = jnp.where(count == 0, share, equal / jnp.where(count == 0, 1, count))
            share = jnp.where(extreme == extreme, share, math.nan)
        return out, jnp.sum(share * tangents[0], axis=axes, keepdims=keepdims)

    return impl


def _extreme_of_complex(x: Any, axes: tuple[int, ...], worst: float) -> tuple[Any, Any]:
    """Return the largest complex number along `axes`, and its index in the order of these axes, which are kept with
    size 1. If `worst` is inf, return the smallest. Both come from one pass, since XLA may compute x twice, with
    different rounding."""
    if size_of(x, axes) == 1:
        return x, jnp.zeros(
            tuple(1 if k in axes else n for k, n in enumerate(x.shape)), jnp.int32
        )  # for a single element, MLX keeps a part that is not NaN

    def better(a: Any, b: Any) -> Any:
        (re, im, index), (other, imaginary, behind) = a, b
        above = lax.gt if worst < 0 else lax.lt
        first = above(re, other) | ((re == other) & (above(im, imaginary) | ((im == imaginary) & (index < behind))))
        return tuple(lax.select(first, p, q) for p, q in zip(a, b, strict=True))

    re, im = lax.real(x), lax.imag(x)
    indices = jnp.broadcast_to(_indices(x, axes), x.shape)
    none = jnp.asarray(worst, re.dtype)
    last = jnp.asarray(size_of(x, axes), jnp.int32)
    re, im, index = (
        lax.expand_dims(kept, axes) for kept in lax.reduce((re, im, indices), (none, none, last), better, axes)
    )
    nan = jnp.any(x != x, axis=axes, keepdims=True)
    index = jnp.where(nan, jnp.min(jnp.where(x != x, indices, last), axis=axes, keepdims=True), index)
    return lax.complex(jnp.where(nan, math.nan, re), jnp.where(nan, 0.0, im)), index


largest = _extreme(lazy.numpy.max, -math.inf)
smallest = _extreme(lazy.numpy.min, math.inf)
"""`(x, axes, keepdims)`, on JAX arrays, with MLX's derivatives at ties."""

_MAX = reduction_record("max", largest, same, _not_empty("max"), lazy=True)
_MIN = reduction_record("min", smallest, same, _not_empty("min"), lazy=True)

_OWN = "with the dtype of `a`"
_EMPTY = ", or if a reduced axis has size 0"

max = reduction_function(_MAX, "Return the largest element; NaN if one is NaN.", _OWN, _EMPTY)
min = reduction_function(_MIN, "Return the smallest element; NaN if one is NaN.", _OWN, _EMPTY)


def minmax(a: array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> tuple[array, array]:
    """Return the smallest and the largest element.

    Args:
        a, axis, keepdims, stream: as for `min`.

    Returns:
        `(min(a, axis, keepdims), max(a, axis, keepdims))`

    Raises:
        IndexError: if an axis is out of range.
        ValueError: if an axis is named twice, or if a reduced axis has size 0.

    Example:
        >>> mx.minmax(mx.array([3, 1, 2]))
        (array(1, dtype=int32), array(3, dtype=int32))
    """
    check_stream(stream)
    require_array(a, "minmax")
    return min(a, axis, keepdims), max(a, axis, keepdims)


def _arg_extreme(
    find: Callable[..., Any], reduce: Callable[..., Any], beyond: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    better = _after(beyond)
    worst = -math.inf if beyond is operator.gt else math.inf

    def impl(x: Any, axis: int | None, keepdims: bool) -> Any:
        x = jnp.asarray(x)
        shape = x.shape
        if axis is None:
            x = x.reshape(-1)
        k = axis or 0
        x = lax.stop_gradient(x)
        search = partial(_searched, find, reduce)
        if x.dtype.kind == "c":
            out = lax.squeeze(_extreme_of_complex(x, (k,), worst)[1], (k,))
        elif is_long(x.size, policy.HUGE_ELEMENTS):
            out = found_in_blocks(search, better, x, k)
        else:
            out = search(x, k)
        out = out.astype(jnp.uint32)
        if not keepdims:
            return out
        return out.reshape(tuple([1 if axis is None or j == axis else n for j, n in enumerate(shape)]))

    return impl


def _after(beyond: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that tells if the later of two elements replaces the best one so far. The first NaN beats all
    others."""
    return lambda value, best: beyond(value, best) | ((value != value) & (best == best))


def _searched(find: Callable[..., Any], reduce: Callable[..., Any], x: Any, axis: int) -> Any:
    x = x.astype(jnp.uint8) if x.dtype.kind == "b" else x
    if is_long(x.shape[axis], policy.MANY_ELEMENTS):
        return _in_two_passes(find, reduce, x, axis)
    return _first_found(find, x, axis)


def _first_found(find: Callable[..., Any], x: Any, axis: int) -> Any:
    """Return the result of `jnp.argmax` or `jnp.argmin`, or the first of several NaNs.

    Where elements are compared in any order, as on a GPU, those functions may find any of the NaNs.
    """
    index = find(x, axis=axis).astype(jnp.int32)
    if on_cpu() or not is_float(x):
        return index
    nan = x != x
    return jnp.where(jnp.any(nan, axis), jnp.argmax(nan, axis).astype(jnp.int32), index)


def _in_two_passes(find: Callable[..., Any], reduce: Callable[..., Any], x: Any, axis: int) -> Any:
    """Return the first index of the largest (smallest) element, after a first pass that finds its value.

    XLA may compute x twice and round differently, so that no element equals the value. Then the element must be
    searched for.
    """
    n = x.shape[axis]
    indices = lax.broadcasted_iota(jnp.int32, x.shape, axis)

    def first(hit: Any) -> Any:
        return jnp.min(jnp.where(hit, indices, n), axis=axis)

    index = first(x == reduce(x, axis=axis, keepdims=True))
    if is_float(x):
        nan = first(x != x)
        index = jnp.where(nan < n, nan, index)
    return lax.cond(jnp.max(index, initial=0) < n, lambda x: index, lambda x: _first_found(find, x, axis), x)


def _arg_infer(a: Aval, axis: int | None, keepdims: bool) -> Aval:
    axes = tuple(range(a.ndim)) if axis is None else (axis,)
    return aval(reduced(a.shape, axes, keepdims), uint32)


_PARAMS = ("axis", "keepdims")
_ARGMAX = op("argmax", _arg_extreme(lazy.numpy.argmax, lazy.numpy.max, operator.gt), _arg_infer, _PARAMS)
_ARGMIN = op("argmin", _arg_extreme(lazy.numpy.argmin, lazy.numpy.min, operator.lt), _arg_infer, _PARAMS)


def _argument(record: Op, which: str) -> Callable[..., array]:
    name = record.name

    def function(a: array, /, axis: int | None = None, keepdims: bool = False, *, stream: Any = None) -> array:
        check_stream(stream)
        node = require_array(a, name)
        axis, kept = None if axis is None else any_integer(axis), flag(keepdims, name, "keepdims")
        if node.aval.size == 0:
            raise ValueError(f"[{name}] Cannot {name} reduce zero size array.")
        k = None if axis is None else axis_of(axis, node.aval.ndim, message=INVALID)
        return wrap(apply(record, (node,), (k, kept)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return the index of the {which} element: the first of equal ones, or the first NaN.

Args:
    a: an array, of any shape.
    axis: the axis to search along; None to search the flattened array.
    keepdims: whether to keep reduced axes, with size 1.
    stream: accepted, and ignored.

Returns:
    A uint32 array without the searched axis.

Raises:
    IndexError: if the axis is out of range.
    ValueError: if `a` is empty.

Example:
{example(name)}
"""
    return function


argmax = _argument(_ARGMAX, "largest")
argmin = _argument(_ARGMIN, "smallest")
