"""Rules of the ops that fill arrays, and the derivatives with respect to the fill values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, CONSTANT, HOST, PULLBACK, PUSHFORWARD

from ..batching import aligned, batched_elementwise, reshaped
from ..define import TABLE
from ..indexing.rows import wide
from ..movement.linear import linear
from ..movement.spread import spread

__all__: list[str] = []


CONSTANT.update((TABLE["constant"], TABLE["constant_like"]))


@HOST.of(TABLE["constant"], TABLE["constant_like"])
def _constant(out: Aval, params: tuple, *like: Any) -> np.ndarray:
    value = params[1]
    if value == 0:
        return np.zeros(out.shape, out.dtype._numpy)
    result = np.empty(out.shape, out.dtype._numpy)
    result.fill(value)
    return result


@PULLBACK.of(TABLE["constant_like"])
def _constant_back(g: Any, y: Any, params: tuple, needs_grad: tuple, like: Any) -> tuple:
    return (None,)


@PUSHFORWARD.of(TABLE["constant_like"])
def _constant_forth(tangents: Any, y: Any, params: tuple, like: Any) -> Any:
    return np.zeros(y.shape, y.dtype)


BATCH[TABLE["constant_like"]] = batched_elementwise


@HOST.of(TABLE["full"])
def _full(out: Aval, params: tuple, value: Any) -> Any:
    return spread(value, out.shape)


PUSHFORWARD[TABLE["full"]] = linear(TABLE["full"])


@PULLBACK.of(TABLE["full"])
def _full_back(g: Any, y: Any, params: tuple, needs_grad: tuple, value: Any) -> tuple:
    return (wide(g),)


@BATCH.of(TABLE["full"])
def _full_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (shape,) = params
    return apply(op, aligned(inputs, batched, len(shape)), ((size, *shape),))


@HOST.of(TABLE["full_like"])
def _full_like(out: Aval, params: tuple, like: Any, value: Any) -> Any:
    return spread(value, out.shape)


PUSHFORWARD[TABLE["full_like"]] = linear(TABLE["full_like"])


@PULLBACK.of(TABLE["full_like"])
def _full_like_back(g: Any, y: Any, params: tuple, needs_grad: tuple, like: Any, value: Any) -> tuple:
    return None, wide(g)


BATCH[TABLE["full_like"]] = batched_elementwise


@HOST.of(TABLE["meshgrid"])
def _meshgrid(out: tuple[Aval, ...], params: tuple, *xs: Any) -> tuple[Any, ...]:
    pairs = enumerate(zip(xs, out, strict=True))
    return tuple([spread(x.reshape(_row_of(k, len(xs), params)), a.shape) for k, (x, a) in pairs])


def _row_of(place: int, count: int, params: tuple) -> tuple[int, ...]:
    """Return the shape of the coordinates along one axis of a grid, with -1 for their number."""
    axis = 1 - place if params[1] == "xy" and place < 2 <= count else place
    return tuple([-1 if k == axis else 1 for k in range(count)])


PUSHFORWARD[TABLE["meshgrid"]] = linear(TABLE["meshgrid"])


@PULLBACK.of(TABLE["meshgrid"])
def _meshgrid_back(g: tuple, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    cotangents: list[Any] = []
    for k, (one, x) in enumerate(zip(g, xs, strict=True)):
        if one is not None:
            row = _row_of(k, len(xs), params)
            others = tuple([axis for axis, n in enumerate(row) if n == 1])
            one = wide(one).sum(others).reshape(x.shape)
        cotangents.append(one)
    return tuple(cotangents)


@BATCH.of(TABLE["meshgrid"])
def _meshgrid_batched(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    if params[0]:
        return None  # "sparse" results have a batch axis only if their input is batched
    rows = []
    for k, (x, on) in enumerate(zip(inputs, batched, strict=True)):
        n = x.aval.size // size if on else x.aval.size
        row = [n if m == -1 else 1 for m in _row_of(k, len(inputs), params)]
        rows.append(reshaped(x, size, *row) if on else reshaped(x, *row))
    return apply(TABLE["broadcast_arrays"], tuple(rows))
