"""Reductions of several elements to one, over any axes. Those that choose an element are in `extremes`.

Half precision is accumulated in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.casting import truth
from mxcompat._array.promotion import summed_dtype
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._jax import jnp, lax, lazy

from ..arguments import INVALID, axes_of, check_axis_types, flag, require_array
from ..define import as_bool, as_float, op
from ..examples import example
from .blocks import folded, reduced_wide

__all__ = [
    "NO_MEAN_AXIS", "accumulator", "all", "any", "count_nonzero", "divided", "logsumexp", "mean", "prod", "reduced",
    "reduction_function", "reduction_record", "size_of", "sum", "sum_of", "wide",
]  # fmt: skip


NO_MEAN_AXIS = "[mean] axis {axis} is out of bounds for array with {ndim} dimensions."


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape after the reduction of `axes`."""
    if keepdims:
        return tuple([1 if k in axes else n for k, n in enumerate(shape)])
    return tuple([n for k, n in enumerate(shape) if k not in axes])


def reduction_record(
    name: str, impl: Callable[..., Any], result: Callable[[Dtype], Dtype], check: Any = None, lazy: bool = False,
    casts: bool = True,
) -> Op:  # fmt: skip
    """Make the record of a reduction, with the params `axes` and `keepdims`.

    Args:
        impl: the function `impl(x, axes, keepdims)`. Its input is cast to the result's dtype, unless that is bool.
        check: the function `check(aval, axes)`, which raises if there is nothing to reduce.
        lazy: whether an empty sequence of axes means no change, not even of the dtype.
        casts: whether the input is cast. If not, `impl` also gets the dtype of the result.
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
            return impl(x, axes, keepdims, want._numpy)
        if want._kind != "b" and x.dtype.kind != "c":
            x = x.astype(want._numpy)
        return impl(x, axes, keepdims)

    return op(name, lower, infer, ("axes", "keepdims"))


def sum_of(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    wider = wide(x)
    return jnp.sum(wider, axis=axes, keepdims=keepdims, dtype=wider.dtype).astype(x.dtype)


def size_of(x: Any, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[k] for k in axes)


def wide(x: Any) -> Any:
    """Return half precision as float32, and other dtypes unchanged."""
    half = x.dtype.itemsize == 2 and jnp.issubdtype(x.dtype, jnp.floating)
    return x.astype(jnp.float32) if half else x


def accumulator(dtype: Any) -> Any:
    """Return the dtype of the accumulator for a result of this dtype."""
    return jnp.float32 if dtype.itemsize == 2 else dtype


def _sum(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    return reduced_wide(jnp.add, x, axes, keepdims, accumulator(dtype)).astype(dtype)


def _prod(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    return reduced_wide(jnp.multiply, x, axes, keepdims, accumulator(dtype)).astype(dtype)


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    return divided(reduced_wide(jnp.add, x, axes, keepdims, accumulator(dtype)), size_of(x, axes)).astype(dtype)


def divided(total: Any, count: int) -> Any:
    size = jnp.asarray(count, total.dtype)
    if total.dtype.kind == "c":
        return total / size
    return total * (jnp.ones((), total.dtype) / size)  # as in MLX


def _logsumexp(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not axes:
        return x
    out = _logsumexp_of(x, axes)
    return (out if keepdims else lax.squeeze(out, axes)).astype(x.dtype)


@partial(lazy.custom_jvp, nondiff_argnums=(1,))
def _logsumexp_of(x: Any, axes: tuple[int, ...]) -> Any:
    largest = wide(_largest(x, axes))
    shift = jnp.where(jnp.isfinite(largest), largest, jnp.zeros((), largest.dtype))
    return lax.log(folded(jnp.add, lambda x, shift: lax.exp(wide(x) - shift), x, (shift,), axes)) + shift


@_logsumexp_of.defjvp
def _logsumexp_jvp(axes: tuple[int, ...], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Use the softmax as the derivative, as in MLX: NaN for all elements if one is infinite."""
    (x,) = primals
    powers = lax.exp(wide(x) - wide(_largest(x, axes)))
    softmax = powers / sum_of(powers, axes, True)
    return _logsumexp_of(x, axes), sum_of(softmax * wide(tangents[0]), axes, True)


def _largest(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the largest element, without a gradient. For complex numbers, its imaginary part decides on which branch
    of the logarithm the result lies; the branch is MLX's."""
    return lax.stop_gradient(jnp.max(x, axis=axes, keepdims=True))


def _of_truth(ufunc: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    result = folded(ufunc, truth, x, (), axes)
    return result if keepdims else lax.squeeze(result, axes)


def _check_logsumexp(a: Aval, axis: Any) -> None:
    check_axis_types(axis)
    if a.size == 0:
        raise ValueError("[logsumexp] Received empty array.")
    if a.ndim == 0 and axis is not None and axis != () and axis != []:
        raise ValueError("[logsumexp] Received non-empty axes for array with 0 dimensions.")


_SUM = reduction_record("sum", _sum, summed_dtype, lazy=True, casts=False)
_PROD = reduction_record("prod", _prod, summed_dtype, lazy=True, casts=False)
_MEAN = reduction_record("mean", _mean, as_float, casts=False)
_LOGSUMEXP = reduction_record("logsumexp", _logsumexp, as_float)
_ALL = reduction_record("all", lambda *args: _of_truth(jnp.logical_and, *args), as_bool)
_ANY = reduction_record("any", lambda *args: _of_truth(jnp.logical_or, *args), as_bool)
_COUNT = op(
    "count_nonzero",
    lambda x, axes, keepdims: jnp.sum(truth(jnp.asarray(x)), axis=axes, keepdims=keepdims, dtype=jnp.int32),
    lambda a, axes, keepdims: aval(reduced(a.shape, axes, keepdims), avals.int32),
    ("axes", "keepdims"),
)


def reduction_function(
    record: Op, summary: str, dtypes: str, raises: str = "", *, guard: Callable[[Aval, Any], None] | None = None,
    message: str = INVALID,
) -> Callable[..., array]:  # fmt: skip
    """Make the public function of a reduction.

    Args:
        summary, dtypes, raises: parts of its docstring.
        guard: the function `guard(aval, axis)`, which raises for inputs that MLX refuses before it checks the axes.
        message: the message of the IndexError for an axis out of range.
    """
    name = record.name

    def function(a: Any, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> array:
        check_stream(stream)
        node = a._node if type(a) is array else require_array(a, name)
        kept = flag(keepdims, name, "keepdims")
        if guard:
            guard(node.aval, axis)
        return wrap(apply(record, (node,), (axes_of(axis, node.aval.ndim, message), kept)))

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

_WIDE = "with the dtype of `a` (int32 or uint32 for narrower integers and bool)"
_FLOAT = "with the dtype of `a` (float32 for integers and bool)"

sum = reduction_function(_SUM, "Return the sum of the elements.", _WIDE)
prod = reduction_function(_PROD, "Return the product of the elements.", _WIDE)
mean = reduction_function(_MEAN, "Return the mean of the elements.", _FLOAT, message=NO_MEAN_AXIS)
logsumexp = reduction_function(
    _LOGSUMEXP,
    "Return the logarithm of the sum of the exponentials.",
    _FLOAT,
    ", or if `a` is empty",
    guard=_check_logsumexp,
)
all = reduction_function(_ALL, "Return whether no element is 0.", "with dtype bool")
any = reduction_function(_ANY, "Return whether some element is not 0.", "with dtype bool")
count_nonzero = reduction_function(_COUNT, "Return the number of elements that are not 0.", "with dtype int32")
