"""Rules of sorts, searches and `unique`.

NaN comes last, equal elements keep their order, complex numbers are ordered by their real, then their imaginary part.
One with NaN in either part counts as NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD, QUICK
from mxcompat._graph.policy import MANY_ROWS

from ..define import TABLE
from .axes import along_axis
from .blocks import widened

__all__ = ["flattened", "order_of", "ordered", "positions", "register_choice"]

# XLA takes 1.5 to 6 times as long
QUICK.update((TABLE["sort"], TABLE["argsort"]))


@HOST.of(TABLE["sort"])
def _sort(out: Aval, params: tuple, x: Any) -> Any:
    return ordered(*flattened(x, params[0]))


def flattened(x: Any, axis: int | None) -> tuple[Any, int]:
    """Return an array and an axis of it: the flat array if the axis is None."""
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def ordered(x: Any, axis: int) -> Any:
    """Return the elements in ascending order."""
    kind = x.dtype.kind
    if kind == "c":
        return np.take_along_axis(x, order_of(x, axis), axis)
    if kind == "V":
        return np.sort(x.astype(np.float32), axis).astype(x.dtype)
    return np.sort(x, axis)


def order_of(x: Any, axis: int) -> Any:
    """Return the indices that sort the elements in ascending order."""
    if x.dtype.kind == "c":
        x = _ordered_parts(x)
        return np.lexsort((x.imag, x.real), axis)
    if x.dtype.kind == "V" or x.dtype == np.float16:
        x = x.astype(np.float32)
    if x.dtype.itemsize != 4 or x.size < MANY_ROWS:
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
    keys |= positions(x, axis)
    keys.sort(axis)
    keys &= 0xFFFFFFFF
    return keys


def _ordered_parts(x: Any) -> Any:
    """Return complex numbers that NumPy sorts in MLX's order. A number with NaN in one part gets NaN in both."""
    return np.where(x == x, x, x.dtype.type(complex(np.nan, np.nan)))


def positions(x: Any, axis: int) -> Any:
    """Return the indices along an axis, to be broadcast to the shape."""
    return np.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))


def register_choice(name: str, choose: Any) -> None:
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


def _sort_order(params: tuple, x: Any) -> tuple[Any, Any, int]:
    x, axis = flattened(x, params[0])
    return order_of(x, axis), x, axis


register_choice("sort", _sort_order)
BATCH[TABLE["sort"]] = along_axis(0)


@HOST.of(TABLE["argsort"])
def _argsort(out: Aval, params: tuple, x: Any) -> Any:
    return order_of(*flattened(x, params[0])).astype(np.uint32)


BATCH[TABLE["argsort"]] = along_axis(0)


@HOST.of(TABLE["searchsorted"])
def _searchsorted(out: Aval, params: tuple, line: Any, values: Any) -> Any:
    dtype = promote(from_numpy(line.dtype), from_numpy(values.dtype))._numpy  # type: ignore[arg-type]
    line, values = (widened(x.astype(dtype, copy=False)) for x in (line, values))
    if dtype.kind == "c":
        line, values = _ordered_parts(line), _ordered_parts(values)
    return np.searchsorted(line, values, params[0]).astype(np.uint32)


@BATCH.of(TABLE["searchsorted"])
def _searchsorted_batched(op: Op, params: tuple, inputs: tuple, batched: Any, size: int) -> Node | None:
    """Batch a search for several values in one row. There is no rule for a search in several rows."""
    return None if batched[0] else apply(op, inputs, params)


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


def _distinct(x: Any, size: int) -> tuple[Any, Any, Any]:
    """Return the indices that sort the elements, the index of the first of each group of equal elements, and the number
    of each sorted element's group."""
    order = order_of(x, 0)
    line = x[order]
    fresh = np.ones(x.size, bool)
    np.not_equal(line[1:], line[:-1], fresh[1:])
    return order, order[fresh][:size], np.add.accumulate(fresh, 0, np.int64) - 1


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
