"""Host rules of the ops that make arrays, and the derivatives with respect to their fill values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import CONSTANT, HOST, PULLBACK, PUSHFORWARD

from ..define import TABLE
from ..indexing.rows import wide
from ..movement.host import distance, spread
from ..movement.pullback import linear
from . import filled, ranges, windows  # noqa: F401  # for their records, in TABLE
from . import matrices as _matrices  # noqa: F401  for their records, in TABLE

__all__ = ["row_of"]


@HOST.of(TABLE["constant"], TABLE["constant_like"])
def _constant(out: Aval, params: tuple, *like: Any) -> np.ndarray:
    value = params[1]
    if value == 0:
        return np.zeros(out.shape, out.dtype._numpy)
    result = np.empty(out.shape, out.dtype._numpy)
    result.fill(value)
    return result


CONSTANT.update((TABLE["constant"], TABLE["constant_like"]))


@PULLBACK.of(TABLE["constant_like"])
def _constant_pullback(g: Any, y: Any, params: tuple, needs_grad: tuple, like: Any) -> tuple:
    return (None,)


@PUSHFORWARD.of(TABLE["constant_like"])
def _constant_pushforward(tangents: Any, y: Any, params: tuple, like: Any) -> Any:
    return np.zeros(y.shape, y.dtype)


@HOST.of(TABLE["full"])
def _full(out: Aval, params: tuple, value: Any) -> Any:
    return spread(value, out.shape)


@HOST.of(TABLE["full_like"])
def _full_like(out: Aval, params: tuple, like: Any, value: Any) -> Any:
    return spread(value, out.shape)


@HOST.of(TABLE["meshgrid"])
def _meshgrid(out: tuple[Aval, ...], params: tuple, *xs: Any) -> tuple[Any, ...]:
    pairs = enumerate(zip(xs, out, strict=True))
    return tuple([spread(x.reshape(row_of(k, len(xs), params)), a.shape) for k, (x, a) in pairs])


def row_of(place: int, count: int, params: tuple) -> tuple[int, ...]:
    """Return the shape of the coordinates along one axis of a grid, with -1 for their number."""
    axis = 1 - place if params[1] == "xy" and place < 2 <= count else place
    return tuple([-1 if k == axis else 1 for k in range(count)])


for _name in ("full", "full_like", "meshgrid"):
    PUSHFORWARD[TABLE[_name]] = linear(TABLE[_name])


@PULLBACK.of(TABLE["full"])
def _full_pullback(g: Any, y: Any, params: tuple, needs_grad: tuple, value: Any) -> tuple:
    return (wide(g),)


@PULLBACK.of(TABLE["full_like"])
def _full_like_pullback(g: Any, y: Any, params: tuple, needs_grad: tuple, like: Any, value: Any) -> tuple:
    return None, wide(g)


@PULLBACK.of(TABLE["meshgrid"])
def _meshgrid_pullback(g: tuple, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    found: list[Any] = []
    for k, (one, x) in enumerate(zip(g, xs, strict=True)):
        if one is not None:
            row = row_of(k, len(xs), params)
            others = tuple([axis for axis, n in enumerate(row) if n == 1])
            one = wide(one).sum(others).reshape(x.shape)
        found.append(one)
    return tuple(found)


@HOST.of(TABLE["arange"])
def _arange(out: Aval, params: tuple, start: Any, step: Any) -> np.ndarray:
    kind = out.dtype._numpy
    work = np.dtype(np.float32) if out.dtype._kind == "f" and kind.itemsize == 2 else kind
    places = np.arange(params[0], dtype=np.int64 if kind.itemsize == 8 else np.int32)
    if places.dtype != work:
        places = places.astype(work)
    if step != 1:
        places *= step.astype(work)
    if start != 0:
        places += start.astype(work)
    return places if work == kind else places.astype(kind)


@HOST.of(TABLE["linspace"])
def _linspace(out: Aval, params: tuple, start: Any, stop: Any) -> np.ndarray:
    num, endpoint, dtype = params
    if num == 1:
        return converted_on_host(start.reshape(1), dtype)
    work = start.dtype
    t = np.arange(num, dtype=np.int32).astype(work) / work.type(num - 1 if endpoint else num)
    return converted_on_host((1 - t) * start + t * stop, dtype)


def _window(name: str, shape: Callable[[Any], Any]) -> None:
    def rule(out: Aval, params: tuple) -> np.ndarray:
        (length,) = params
        if length == 1:
            return np.ones(1, np.float32)
        return shape(np.arange(length, dtype=np.float32) / np.float32(length - 1))

    HOST[TABLE[name]] = rule


def _cosine(x: Any, turns: int) -> Any:
    return np.cos(np.float32(2 * math.pi * turns) * x)


_window("bartlett", lambda x: 1 - np.abs(2 * x - 1))
_window("hanning", lambda x: np.sin(np.float32(math.pi) * x) ** 2)
_window("hamming", lambda x: np.float32(0.54) - np.float32(0.46) * _cosine(x, 1))
_window("blackman", lambda x: np.float32(0.42) - np.float32(0.5) * _cosine(x, 1) + np.float32(0.08) * _cosine(x, 2))


@HOST.of(TABLE["eye"])
def _eye(out: Aval, params: tuple) -> np.ndarray:
    return np.eye(*out.shape, params[1], out.dtype._numpy)


@HOST.of(TABLE["tri"])
def _tri(out: Aval, params: tuple) -> np.ndarray:
    return (distance(out.shape) <= params[1]).astype(out.dtype._numpy)
