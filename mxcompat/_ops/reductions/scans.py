"""Scans: running sums, products and extremes along an axis, and differences. Half precision is accumulated in float32.

An exclusive scan is the inclusive one shifted by one place, with the identity at the start.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph import policy
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._jax import jnp, lax, lazy

from ..arguments import axis_of, flag, integer, require_array
from ..define import as_float, op, same
from ..elementwise.casts import astype
from ..examples import example
from .reduce import wide
from .sorting import is_long
from .steps import scan_in_steps

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "logcumsumexp",
]  # fmt: skip


def _summed(dtype: Dtype) -> Dtype:
    return avals.int32 if dtype is avals.bool_ else dtype


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "c":
        return complex(-math.inf, -math.inf)
    return -math.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    if dtype.kind == "c":
        return complex(math.inf, math.inf)
    return math.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


def _record(
    name: str, scan: Callable[..., Any], identity: Callable[[Any], Any], result: Callable[[Dtype], Dtype] = same,
    for_complex: Callable[..., Any] | None = None,
) -> Op:  # fmt: skip
    """Make the record of a scan.

    Args:
        scan: the function `scan(x, axis, reverse)`.
        identity: the function that returns the neutral element for a dtype; -inf or inf where JAX accepts that.
        result: the dtype of the result.
        for_complex: the function for complex numbers, if `scan` does not take these.
    """

    def lower(x: Any, axis: int | None, reverse: bool, inclusive: bool) -> Any:
        x = jnp.asarray(x)
        want = result(avals.from_numpy(x.dtype))  # type: ignore[arg-type]
        # bools run as uint8, because products and extremes of 0 and 1 are 0 or 1
        x = x.astype(jnp.uint8 if want._kind == "b" else want._numpy)
        if axis is None:
            x, axis = x.reshape(-1), 0
        if x.shape[axis] == 0:
            return x.astype(want._numpy)
        of_this = for_complex if x.dtype.kind == "c" and for_complex is not None else scan
        out = of_this(wide(x), axis=axis, reverse=reverse).astype(x.dtype)
        if not inclusive:
            edge = lax.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), jnp.asarray(identity(x.dtype), x.dtype))
            n = x.shape[axis]
            kept = lax.slice_in_dim(out, 1, n, axis=axis) if reverse else lax.slice_in_dim(out, 0, n - 1, axis=axis)
            out = lax.concatenate([kept, edge] if reverse else [edge, kept], axis)
        return out != 0 if want._kind == "b" else out

    def infer(a: Aval, axis: int | None, reverse: bool, inclusive: bool) -> Aval:
        return aval((a.size,) if axis is None else a.shape, result(a.dtype))

    return op(name, lower, infer, ("axis", "reverse", "inclusive"))


def _complex_larger(x: Any, y: Any) -> Any:
    """Return True if x is larger than y in MLX's order of complex numbers."""
    rx, ry = lax.real(x), lax.real(y)
    return (rx > ry) | ((rx == ry) & (lax.imag(x) > lax.imag(y)))


def _kept_nan(x: Any, y: Any, better: Any) -> Any:
    """Return x where it is better than y or NaN, unless y alone is NaN."""
    return jnp.where((x != x) | (better & (y == y)), x, y)


def _in_pairs(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the scan that combines elements by this associative step."""
    return lambda x, axis, reverse: lax.associative_scan(step, x, reverse=reverse, axis=axis)


def _by_size(scan: Callable[..., Any], pairwise: Callable[..., Any], *, costly: bool = False) -> Callable[..., Any]:
    """Return the scan in the form that XLA runs fastest for the size.

    On a CPU, JAX's own scan computes a window for each element. So a large array is scanned step by step along the
    axis, or recursively over pairs, unless the pairs are `costly` to compile.
    """

    def function(x: Any, axis: int, reverse: bool) -> Any:
        if not is_long(x.size, policy.SEPARATE_ELEMENTS):
            return scan(x, axis=axis, reverse=reverse)
        if costly or _is_across(x, axis) or x.size == x.shape[axis] <= policy.STEPPED_LINE:
            return scan_in_steps(pairwise, x, axis, reverse)
        return lax.associative_scan(pairwise, x, reverse=reverse, axis=axis)

    return function


def _is_across(x: Any, axis: int) -> bool:
    """Return whether there are many elements, and neighbours in memory belong to different lines of the scan."""
    return is_long(x.size, policy.SEPARATE_ELEMENTS) and math.prod(x.shape[axis + 1 :]) >= policy.VECTOR_ELEMENTS


def _linear(scan: Callable[..., Any], plain: Callable[..., Any], pairwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return a linear scan whose derivative is the same scan, step by step or as `plain`.

    The scan over pairs is not used for the derivative, since it takes long to compile.
    """

    @functools.partial(lazy.custom_jvp, nondiff_argnums=(1, 2))
    def function(x: Any, axis: int, reverse: bool) -> Any:
        return scan(x, axis, reverse)

    @function.defjvp
    def _(axis: int, reverse: bool, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        (t,) = tangents
        across = _is_across(t, axis)
        tangent = scan_in_steps(pairwise, t, axis, reverse) if across else plain(t, axis=axis, reverse=reverse)
        return function(*primals, axis, reverse), tangent

    return lambda x, axis, reverse: function(x, axis, reverse)


def _running(scan: Callable[..., Any]) -> Callable[..., Any]:
    """Return a running maximum or minimum whose derivative goes to the latest of equal elements, as in MLX."""

    @functools.partial(lazy.custom_jvp, nondiff_argnums=(1, 2))
    def function(x: Any, axis: int, reverse: bool) -> Any:
        return scan(x, axis, reverse)

    @function.defjvp
    def _(axis: int, reverse: bool, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = function(x, axis, reverse)
        places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        hit = (x == out) | (x != x)
        if reverse:
            latest = _EARLIEST(jnp.where(hit, places, x.shape[axis] - 1), axis, True)
        else:
            latest = _LATEST(jnp.where(hit, places, 0), axis, False)
        return out, jnp.take_along_axis(t, latest, axis=axis, mode="clip")

    return lambda x, axis, reverse: function(x, axis, reverse)


_EARLIEST, _LATEST = _by_size(lazy.lax.cummin, lazy.lax.min), _by_size(lazy.lax.cummax, lazy.lax.max)

_CUMSUM = _record(
    "cumsum", _linear(_by_size(lazy.lax.cumsum, lazy.lax.add), lazy.lax.cumsum, lazy.lax.add), lambda dtype: 0, _summed
)
_CUMPROD = _record("cumprod", _by_size(lazy.lax.cumprod, lazy.lax.mul, costly=True), lambda dtype: 1)
_CUMMAX = _record(
    "cummax", _running(_by_size(lazy.lax.cummax, lazy.lax.max)), _lowest,
    for_complex=_running(_in_pairs(lambda x, y: _kept_nan(x, y, _complex_larger(x, y)))),
)  # fmt: skip
_CUMMIN = _record(
    "cummin", _running(_by_size(lazy.lax.cummin, lazy.lax.min)), _highest,
    for_complex=_running(_in_pairs(lambda x, y: _kept_nan(x, y, _complex_larger(y, x)))),
)  # fmt: skip
_LOGCUMSUMEXP = _record(
    "logcumsumexp", _by_size(lazy.lax.cumlogsumexp, lazy.numpy.logaddexp, costly=True), lambda dtype: -math.inf,
    as_float, _in_pairs(lazy.numpy.logaddexp),
)  # fmt: skip


def _scan(record: Op, a: Any, axis: Any, reverse: bool, inclusive: bool) -> array:
    node = require_array(a, record.name)
    flags = flag(reverse, record.name, "reverse"), flag(inclusive, record.name, "inclusive")
    k = None if axis is None else axis_of(axis, node.aval.ndim, record.name)
    return wrap(apply(record, (node,), (k, *flags)))


_DOC = """Return the running {what} of the elements.

Args:
    a: an array, of any shape.
    axis: the axis to run along; None to run along the flattened array.
    reverse: whether to start from the end.
    inclusive: whether the i-th result includes the i-th element; if not, the first result is {identity}.{dtype}
    stream: accepted, and ignored.

Returns:
    An array with the shape of `a` (1-d if `axis` is None) and {dtypes}.

Raises:
    IndexError: if the axis is out of range.

Example:
{example}
"""
_DTYPE_LINE = "\n    dtype: the dtype to convert the elements to first."


def _plain(record: Op, what: str, identity: str, dtypes: str) -> Callable[..., array]:
    def function(
        a: array, /, axis: int | None = None, *, reverse: bool = False, inclusive: bool = True, stream: Any = None
    ) -> array:
        check_stream(stream)
        return _scan(record, a, axis, reverse, inclusive)

    return _described(function, record, what, identity, dtypes, "")


def _typed(record: Op, what: str, identity: str, dtypes: str) -> Callable[..., array]:
    def function(
        a: array, /, axis: int | None = None, *, reverse: bool = False, inclusive: bool = True,
        dtype: Dtype | None = None, stream: Any = None,
    ) -> array:  # fmt: skip
        check_stream(stream)
        return _scan(record, a if dtype is None else astype(a, dtype), axis, reverse, inclusive)

    return _described(function, record, what, identity, dtypes, _DTYPE_LINE)


def _described(function: Any, record: Op, what: str, identity: str, dtypes: str, dtype: str) -> Any:
    function.__name__ = function.__qualname__ = record.name
    words = {"what": what, "identity": identity, "dtypes": dtypes, "dtype": dtype}
    function.__doc__ = _DOC.format(example=example(record.name), **words)
    return function


cumsum = _typed(_CUMSUM, "sum", "0", "the dtype of `a` (int32 for bool)")
cumprod = _typed(_CUMPROD, "product", "1", "the dtype of `a`")
cummax = _plain(_CUMMAX, "maximum", "the lowest value of the dtype", "the dtype of `a`")
cummin = _plain(_CUMMIN, "minimum", "the highest value of the dtype", "the dtype of `a`")
logcumsumexp = _plain(_LOGCUMSUMEXP, "`logsumexp`", "-inf", "the dtype of `a` (float32 for integers and bool)")

cumulative_prod = cumprod
cumulative_sum = cumsum


def _diff(x: Any, n: int, axis: int) -> Any:
    x = jnp.asarray(x)
    for _ in range(min(n, x.shape[axis])):
        size = x.shape[axis]
        if size == 0:
            break
        later, earlier = lax.slice_in_dim(x, 1, size, axis=axis), lax.slice_in_dim(x, 0, size - 1, axis=axis)
        x = later ^ earlier if x.dtype.kind == "b" else later - earlier
    return x


def _diff_aval(a: Aval, n: int, axis: int) -> Aval:
    return aval((*a.shape[:axis], max(a.shape[axis] - n, 0), *a.shape[axis + 1 :]), a.dtype)


_DIFF = op("diff", _diff, _diff_aval, ("n", "axis"))


def diff(a: array, /, n: int = 1, axis: int = -1, *, stream: Any = None) -> array:
    """Return the differences of neighbouring elements.

    Args:
        a: an array with at least one axis.
        n: the number of times to take differences.
        axis: the axis along which elements are neighbours.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a` and `n` elements fewer along the axis.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if `n` is negative.

    Example:
        >>> mx.diff(mx.array([1, 4, 9]))
        array([3, 5], dtype=int32)
    """
    check_stream(stream)
    node = require_array(a, "diff")
    n, k = integer(n), axis_of(axis, node.aval.ndim, message="[diff] Axis is out of bounds for the array.")
    if n < 0:
        raise ValueError("[diff] Order `n` must be non-negative.")
    return wrap(apply(_DIFF, (node,), (n, k)))
