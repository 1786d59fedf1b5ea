"""Host rules of sorts, searches, partitions and the median, and their derivatives.

NaN comes last, equal elements keep their order, complex numbers are ordered by their real, then their imaginary part.
One with NaN in either part counts as NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD, QUICK
from mxcompat._graph.policy import PARTITIONED_AXIS, PARTITIONED_SHARE, SORTED_BY_KEYS

from ..define import TABLE
from . import partitioning, statistics  # noqa: F401  # for their records, in TABLE
from .blocks import widened
from .host import as_rows, inexact, narrowed

__all__: list[str] = []

# XLA takes 1.5 to 6 times as long as NumPy for these
QUICK.update(TABLE[name] for name in ("sort", "argsort", "partition", "argpartition", "topk"))


def _flat(x: Any, axis: int | None) -> tuple[Any, int]:
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def _ordered(x: Any, axis: int) -> Any:
    """Return the elements in ascending order."""
    kind = x.dtype.kind
    if kind == "c":
        return np.take_along_axis(x, _order(x, axis), axis)
    if kind == "V":
        return np.sort(x.astype(np.float32), axis).astype(x.dtype)
    return np.sort(x, axis)


def _order(x: Any, axis: int) -> Any:
    """Return the indices that sort the elements in ascending order."""
    if x.dtype.kind == "c":
        x = _ordered_parts(x)
        return np.lexsort((x.imag, x.real), axis)
    if x.dtype.kind == "V" or x.dtype == np.float16:
        x = x.astype(np.float32)
    if x.dtype.itemsize != 4 or x.size < SORTED_BY_KEYS:
        return np.argsort(x, axis, "stable")
    if x.dtype.kind == "f":
        numbers = x + np.float32(0)  # adding 0 turns -0 into 0
        numbers[numbers != numbers] = np.float32(np.nan)  # all NaNs get the same bits
        x = numbers.view(np.int32)
        x ^= (x >> 31) & np.int32(0x7FFFFFFF)
    keys = x.astype(np.int64)
    if x.dtype.kind == "u":
        keys -= 1 << 31  # subtracting 2**31 keeps the order and lets the key fit into 32 signed bits
    keys <<= 32
    keys |= _positions(x, axis)
    keys.sort(axis)
    keys &= 0xFFFFFFFF
    return keys


def _ordered_parts(x: Any) -> Any:
    """Return complex numbers that NumPy sorts in MLX's order. A number with NaN in one part gets NaN in both."""
    return np.where(x == x, x, x.dtype.type(complex(np.nan, np.nan)))


def _positions(x: Any, axis: int) -> Any:
    """Return the indices along an axis, to be broadcast to the shape."""
    return np.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))


@HOST.of(TABLE["sort"])
def _sort(out: Aval, params: tuple, x: Any) -> Any:
    return _ordered(*_flat(x, params[0]))


@HOST.of(TABLE["argsort"])
def _argsort(out: Aval, params: tuple, x: Any) -> Any:
    return _order(*_flat(x, params[0])).astype(np.uint32)


def _partition_order(x: Any, kth: int, axis: int) -> Any:
    n = x.shape[axis]
    if n >= PARTITIONED_AXIS and min(kth + 1, n - kth) <= n * PARTITIONED_SHARE and x.dtype.kind != "c":
        return np.argpartition(widened(x), kth, axis)
    return _order(x, axis)


@HOST.of(TABLE["partition"])
def _partition(out: Aval, params: tuple, x: Any) -> Any:
    kth, axis = params
    x, axis = _flat(x, axis)
    if x.shape[axis] < PARTITIONED_AXIS:
        return _ordered(x, axis)
    return np.take_along_axis(x, _partition_order(x, kth, axis), axis)


@HOST.of(TABLE["argpartition"])
def _argpartition(out: Aval, params: tuple, x: Any) -> Any:
    kth, axis = params
    x, axis = _flat(x, axis)
    return _partition_order(x, kth, axis).astype(np.uint32)


def _last(x: Any, k: int, axis: int) -> Any:
    """Return the last k elements along an axis."""
    return x[(*[slice(None)] * axis, slice(x.shape[axis] - k, None))]


@HOST.of(TABLE["topk"])
def _topk(out: Aval, params: tuple, x: Any) -> Any:
    k, axis = params
    x, axis = _flat(x, axis)
    n = x.shape[axis]
    if k == n:
        return x
    if n >= SORTED_BY_KEYS and 0 < k <= n * PARTITIONED_SHARE and x.dtype.kind != "c":
        x = _last(np.partition(widened(x), n - k, axis), k, axis)
        return narrowed(_ordered(x, axis), out)
    return _last(_ordered(x, axis), k, axis)


def _topk_order(params: tuple, x: Any) -> tuple[Any, Any, int]:
    k, axis = params
    x, axis = _flat(x, axis)
    n = x.shape[axis]
    if k == n:
        return np.broadcast_to(_positions(x, axis), x.shape), x, axis
    return _last(_order(x, axis), k, axis), x, axis


def _sort_order(params: tuple, x: Any) -> tuple[Any, Any, int]:
    x, axis = _flat(x, params[0])
    return _order(x, axis), x, axis


def _partition_of(params: tuple, x: Any) -> tuple[Any, Any, int]:
    x, axis = _flat(x, params[1])
    return _partition_order(x, params[0], axis), x, axis


def _derivatives(name: str, choose: Any) -> None:
    """Register the rules of an op that chooses elements.

    `choose(params, x)` returns the chosen indices, the array that they index, and the axis.
    """

    def pullback(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
        indices, line, axis = choose(params, x)
        c = np.zeros(line.shape, g.dtype)
        np.put_along_axis(c, indices, g, axis)
        return (c.reshape(x.shape),)

    def pushforward(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
        indices, line, axis = choose(params, x)
        return np.take_along_axis(tangents[0].reshape(line.shape), indices, axis)

    PULLBACK[TABLE[name]] = pullback
    PUSHFORWARD[TABLE[name]] = pushforward


_derivatives("sort", _sort_order)
_derivatives("partition", _partition_of)
_derivatives("topk", _topk_order)


def _halved(x: Any) -> Any:
    """Return x / 2. Each part of a complex number is halved on its own, because a product with an infinite part would
    be NaN."""
    if x.dtype.kind != "c":
        return x * np.float32(0.5)
    half = np.asarray(x).copy()
    half.real *= 0.5
    half.imag *= 0.5
    return half


@HOST.of(TABLE["median"])
def _median(out: Aval, params: tuple, x: Any) -> Any:
    rows = as_rows(inexact(x), params[0])
    line = _ordered(rows, -1)
    n = rows.shape[-1]
    middle = line[..., n // 2]
    if not n % 2:
        middle = _halved(line[..., n // 2 - 1] + middle)
    nan = np.logical_or.reduce(rows != rows, -1)
    return narrowed(np.where(nan, middle.dtype.type(np.nan), middle), out).reshape(out.shape)


def _middle(rows: Any) -> tuple[Any, Any]:
    """Return the indices of the one or two elements that the median uses, and the weight of each; 0 if there is a
    NaN."""
    n = rows.shape[-1]
    indices = _order(rows, -1)[..., (n - 1) // 2 : n // 2 + 1]
    nan = np.logical_or.reduce(rows != rows, -1, keepdims=True)
    return indices, np.where(nan, np.float32(0), np.float32(1 / indices.shape[-1]))


@PULLBACK.of(TABLE["median"])
def _median_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    axes, _ = params
    rows = as_rows(x, axes)
    indices, share = _middle(rows)
    g = widened(g).reshape(*rows.shape[:-1], 1)
    c = np.zeros(rows.shape, g.dtype)
    np.put_along_axis(c, indices, share * g, -1)
    kept = [k for k in range(x.ndim) if k not in axes]
    back = np.argsort([*kept, *axes])
    return (c.reshape([x.shape[k] for k in (*kept, *axes)]).transpose(back),)


@PUSHFORWARD.of(TABLE["median"])
def _median_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    indices, share = _middle(as_rows(x, params[0]))
    moving = np.take_along_axis(as_rows(widened(tangents[0]), params[0]), indices, -1)
    return np.add.reduce(share * moving, -1).reshape(y.shape)


@HOST.of(TABLE["searchsorted"])
def _searchsorted(out: Aval, params: tuple, line: Any, values: Any) -> Any:
    dtype = promote(from_numpy(line.dtype), from_numpy(values.dtype))._numpy  # type: ignore[arg-type]
    line, values = (widened(x.astype(dtype, copy=False)) for x in (line, values))
    if dtype.kind == "c":
        line, values = _ordered_parts(line), _ordered_parts(values)
    return np.searchsorted(line, values, params[0]).astype(np.uint32)


def _distinct(x: Any, size: int) -> tuple[Any, Any, Any]:
    """Return the indices that sort the elements, the index of the first of each group of equal elements, and the number
    of each sorted element's group."""
    order = _order(x, 0)
    line = x[order]
    fresh = np.ones(x.size, bool)
    np.not_equal(line[1:], line[:-1], fresh[1:])
    return order, order[fresh][:size], np.add.accumulate(fresh, 0, np.int64) - 1


@HOST.of(TABLE["unique"])
def _unique(out: tuple[Aval, ...], params: tuple, x: Any, *fill: Any) -> Any:
    (size,) = params
    flat = x.reshape(-1)
    order, first, rank = _distinct(flat, size)
    if fill:
        padding = converted_on_host(fill[0], out[0].dtype).reshape(())
    else:
        padding = flat[order[0]] if flat.size else 0
    values, indices = np.full(size, padding, x.dtype), np.full(size, order[0] if flat.size else 0, np.uint32)
    values[: len(first)] = flat[first]
    indices[: len(first)] = first
    inverse = np.empty(flat.size, np.uint32)
    inverse[order] = np.minimum(rank, max(size - 1, 0))
    counts = np.bincount(rank[rank < size], minlength=size).astype(np.int32)
    return values, indices, inverse.reshape(x.shape), counts


@PULLBACK.of(TABLE["unique"])
def _unique_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any, *fill: Any) -> Any:
    if g[0] is None:
        return (None,) * (1 + len(fill))
    flat = x.reshape(-1)
    order, first, _ = _distinct(flat, *params)
    g = widened(g[0])
    rest = np.add.reduce(g[len(first) :])
    c = np.zeros(flat.size, g.dtype)
    c[first] = g[: len(first)]
    if fill:
        return c.reshape(x.shape), rest.reshape(fill[0].shape)
    if flat.size:
        c[order[0]] += rest
    return (c.reshape(x.shape),)


@PUSHFORWARD.of(TABLE["unique"])
def _unique_forth(tangents: Any, y: Any, params: tuple, x: Any, *fill: Any) -> Any:
    (size,) = params
    flat = x.reshape(-1)
    order, first, _ = _distinct(flat, size)
    t = np.zeros_like(flat) if tangents[0] is None else tangents[0].reshape(-1)
    if fill:
        padding = np.zeros((), t.dtype) if tangents[1] is None else tangents[1].astype(t.dtype).reshape(())
    else:
        padding = t[order[0]] if flat.size else np.zeros((), t.dtype)
    out = np.full(size, padding)
    out[: len(first)] = t[first]
    return out, None, None, None
