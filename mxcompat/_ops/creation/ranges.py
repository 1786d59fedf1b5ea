"""Ranges: arrays of evenly spaced numbers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import converted
from mxcompat._array.construct import cast_numpy
from mxcompat._array.errors import expected, incompatible
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import SCALAR, Node, apply
from mxcompat._graph.policy import MOST_ENTRIES
from mxcompat._jax import jax, jnp

from ..arguments import any_number, flag, integer, require_dtype
from ..define import op
from ..elementwise.quotient import quotient

__all__ = ["arange", "linspace"]

_MISSING: Any = object()


def _arange_impl(start: Any, step: Any, length: int) -> Any:
    dtype = jnp.result_type(start)
    work = jnp.float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype
    places = jax.lax.iota(jnp.int64 if dtype.itemsize == 8 else jnp.int32, length).astype(work)
    return (jnp.asarray(start, work) + places * jnp.asarray(step, work)).astype(dtype)


ARANGE = op("arange", _arange_impl, lambda start, step, length: aval((length,), start.dtype), ("length",))


def arange(
    bound: Any = _MISSING, /, stop: Any = _MISSING, step: Any = None, dtype: Dtype | None = None, *,
    start: Any = _MISSING, stream: Any = None,
) -> array:  # fmt: skip
    """Return evenly spaced numbers from `start` up to, but without, `stop`: `arange(stop)`, `arange(start, stop,
    step)`.

    Args:
        bound: the first number; or, as the only positional argument, the end.
        stop: the end, which is not included.
        step: the distance between numbers, by default 1; not 0.
        dtype: the dtype. None means float32 if one of the numbers is a float, and otherwise int32, or int64 if int32 is
            too small.
        start: the first number as a keyword, by default 0; it requires `stop`.
        stream: accepted, and ignored.

    Returns:
        An array of one dimension. The distance is `dtype(start + step) - dtype(start)`, which for an integer dtype may
        differ from `step`. float16 and bfloat16 are rounded once for each element; real MLX on a CPU adds up rounded
        steps.

    Raises:
        ValueError: if the step is 0, if the length is infinite or too large, or if the dtype is bool.

    Example:
        >>> mx.arange(1, 7, 2)
        array([1, 3, 5], dtype=int32)
    """
    check_stream(stream)
    if bound is not _MISSING:
        if start is not _MISSING:
            raise incompatible("arange", "Expected one first number, got two.")
        start = bound
    if type(step) is Dtype and dtype is None:  # the call is arange(stop, step, dtype)
        start, stop, step, dtype = _MISSING, start, stop, step
    elif stop is None or (stop is _MISSING and bound is not _MISSING):
        start, stop = _MISSING, start
    if stop is _MISSING:
        raise incompatible("arange", "Expected a number as stop.")
    first = 0 if start is _MISSING else start
    by = 1 if step is None else step
    if type(first) is int and type(stop) is int and type(by) is int and dtype is None and _small(first, stop, by):
        zero_dim, values, length = _INT32, (first, by), (stop - first + by - 1) // by
    else:
        zero_dim, values, length = _general(first, stop, by, dtype, start is _MISSING and step is None)
    inputs = (Node(SCALAR, (), (), zero_dim, 0, values[0]), Node(SCALAR, (), (), zero_dim, 0, values[1]))
    return wrap(apply(ARANGE, inputs, (length,)))


_INT32 = aval((), _d.int32)


def _small(first: int, stop: int, by: int) -> bool:
    """Return True for an ascending range of 32-bit integers, as nearly all ranges are."""
    return by > 0 and -(2**31) <= first <= stop < 2**31 and stop - first < 2**31 and by < 2**31


def _general(first: Any, stop: Any, by: Any, dtype: Dtype | None, stop_only: bool) -> tuple[Aval, tuple[Any, Any], int]:
    """Return the 0-d aval of the dtype, start and step in this dtype, and the length. Raises the errors of `arange`."""
    for number in (first, stop, by):
        if type(number) is not int and type(number) is not float and type(number) is not bool:
            raise expected("arange", "numbers", number)
        if type(number) is int and not -(2**63) <= number < 2**63:
            raise incompatible("arange", "Expected numbers of at most 64 bits.")
    if dtype is None:
        dtype = _natural(first, stop, by, stop_only)
    if require_dtype(dtype, "arange") is _d.bool_:
        raise ValueError("bool not supported for arange.")
    length = _count(first, stop, by)
    if dtype._kind == "i" and dtype.size >= 4 and type(first) is int and type(by) is int:
        return aval((), dtype), (first, by), length
    return aval((), dtype), _in_dtype(first, by if math.isfinite(by) else 0, dtype), length


def _natural(first: Any, stop: Any, by: Any, stop_only: bool) -> Dtype:
    """Return the dtype of a range without a given dtype."""
    if type(first) is float or type(stop) is float or type(by) is float:
        return _d.float32
    if stop_only and type(stop) is bool:
        return _d.bool_
    numbers = (first, stop, by)
    return _d.int32 if all(-(2**31) <= n < 2**31 for n in numbers) else _d.int64


def _count(first: Any, stop: Any, by: Any) -> int:
    """Return the number of elements."""
    whole = type(first) is int and type(stop) is int and type(by) is int
    if not whole and (not (math.isfinite(first) and math.isfinite(stop)) or math.isnan(by)):
        raise ValueError("[arange] Cannot compute length.")
    if by == 0:
        raise ValueError("[arange] step must be nonzero.")
    if whole:
        length = -((first - stop) // by)
    else:
        if math.isinf(by):
            return int((stop - first) * by > 0)
        ratio = (stop - first) / by
        if not math.isfinite(ratio):
            raise ValueError("[arange] Maximum size exceeded.")
        length = math.ceil(ratio)
    if length >= 2**31:
        raise ValueError("[arange] Maximum size exceeded.")
    return max(0, length)


@lru_cache(MOST_ENTRIES, typed=True)
def _in_dtype(first: Any, by: Any, dtype: Dtype) -> tuple[Any, Any]:
    """Return start and step as numbers of the dtype, which wrap and truncate as in MLX."""
    if dtype._kind == "f" and float(by).is_integer() and float(first).is_integer() and abs(first) + abs(by) < 128:
        return float(first) + 0.0, float(by)
    kind = np.int64 if type(first) is not float and type(by) is not float else np.float64
    with np.errstate(all="ignore"):
        low, high = (cast_numpy(np.array([v], kind), dtype) for v in (first, first + by))
        step = high - low
    return tuple([n[0].item() if dtype._kind in "iuc" else float(n[0]) + 0.0 for n in (low, step)])  # type: ignore[return-value]


def _linspace_impl(start: Any, stop: Any, num: int, endpoint: bool, dtype: Dtype) -> Any:
    work = jnp.result_type(start)
    start, stop = jnp.asarray(start, work), jnp.asarray(stop, work)
    if num == 1:
        values = start.reshape(1)
    else:
        t = quotient(jax.lax.iota(jnp.int32, num).astype(work), jnp.asarray(num - 1 if endpoint else num, work))
        values = (1 - t) * start + t * stop
    return converted(values, dtype)


LINSPACE = op(
    "linspace",
    _linspace_impl,
    lambda start, stop, num, endpoint, dtype: aval((num,), dtype),
    ("num", "endpoint", "dtype"),
)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Dtype | None = _d.float32, stream: Any = None
) -> array:
    """Return evenly spaced numbers from `start` to `stop`.

    Args:
        start: the first number.
        stop: the last number, or the first that is left out.
        num: the number of elements.
        endpoint: whether `stop` is one of the numbers.
        dtype: the dtype; None for float32.
        stream: accepted, and ignored.

    Returns:
        An array of shape (num,).

    Raises:
        ValueError: if `num` is negative.

    Example:
        >>> mx.linspace(0, 1, 5)
        array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
    """
    check_stream(stream)
    first, last = any_number(start, "linspace", "start"), any_number(stop, "linspace", "stop")
    count = integer(num)
    flag(endpoint, "linspace", "endpoint")
    dtype = _d.float32 if dtype is None else require_dtype(dtype, "linspace")
    if count < 0:
        raise ValueError(f"[linspace] number of samples, {count}, must be non-negative.")
    work = _d.float64 if dtype is _d.float64 else _d.float32
    inputs = (operands.scalar_node(first, work), operands.scalar_node(last, work))
    return wrap(apply(LINSPACE, inputs, (count, endpoint, dtype)))
