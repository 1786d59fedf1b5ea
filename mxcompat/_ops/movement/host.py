"""Host rules of the ops that only move data; most return views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.policy import COPIED_BYTES
from mxcompat._graph.run.layout import reshaped

from ..define import TABLE
from ..indexing.rows import wide
from . import arrange as _arrange  # noqa: F401  for their records, in TABLE
from . import shape as _shape  # noqa: F401
from . import transposition as _transposition  # noqa: F401
from .diagonals import sum_dtype
from .joining import section_bounds, tiled_shapes
from .pad import widths_by_axis

__all__ = ["as_strided", "distance", "flip", "margin_slices", "roll", "spread", "triangle"]


@HOST.of(*[TABLE[name] for name in ("reshape", "flatten", "unflatten", "squeeze", "expand_dims", "atleast")])
def _reshape(out: Aval, params: tuple, x: Any) -> Any:
    return reshaped(x, out.shape)


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Return `x` broadcast to a shape. The result must not be written to."""
    if x.shape == shape:
        return x
    if math.prod(shape) * x.dtype.itemsize > COPIED_BYTES:
        return np.broadcast_to(x, shape)
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


@HOST.of(TABLE["broadcast_to"])
def _broadcast_to(out: Aval, params: tuple, x: Any) -> Any:
    return spread(x, out.shape)


@HOST.of(TABLE["broadcast_arrays"])
def _broadcast_arrays(out: tuple[Aval, ...], params: tuple, *xs: Any) -> tuple[Any, ...]:
    return tuple([spread(x, a.shape) for x, a in zip(xs, out, strict=True)])


@HOST.of(TABLE["transpose"])
def _transpose(out: Aval, params: tuple, x: Any) -> np.ndarray:
    return x.transpose(params[0])


@HOST.of(TABLE["flip"])
def flip(out: Any, params: tuple, x: Any) -> np.ndarray:
    (axes,) = params
    if axes is None:
        return x[(_BACKWARDS,) * x.ndim + (...,)]
    index = [_ALL] * x.ndim
    for axis in axes:
        index[axis] = _BACKWARDS
    return x[(*index, ...)]


_ALL = slice(None)
_BACKWARDS = slice(None, None, -1)


@HOST.of(TABLE["roll"])
def roll(out: Any, params: tuple, x: Any, *shifts: Any) -> np.ndarray:
    (axes,) = params
    if axes is None:
        return _rolled(x.reshape(-1), shifts[0], 0).reshape(out.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(x, shift, axis)
    return x


def _rolled(x: Any, shift: Any, axis: int) -> np.ndarray:
    size = x.shape[axis]
    cut = -int(shift) % size if size else 0
    if not cut:
        return x
    before = (_ALL,) * (axis % x.ndim)
    return np.concatenate((x[(*before, slice(cut, None))], x[(*before, slice(cut))]), axis)


@HOST.of(TABLE["as_strided"])
def as_strided(out: Any, params: tuple, x: Any) -> np.ndarray:
    shape, strides, offset = params
    if 0 in shape:
        return np.empty(shape, x.dtype)
    x = np.ascontiguousarray(x)
    size = x.itemsize
    return np.ndarray(shape, x.dtype, x, offset * size, [s * size for s in strides])  # type: ignore[arg-type]


@HOST.of(TABLE["concatenate"])
def _concatenate(out: Aval, params: tuple, *xs: Any) -> np.ndarray:
    want, numpy = out.dtype, out.dtype._numpy
    return np.concatenate([x if x.dtype is numpy else converted_on_host(x, want) for x in xs], params[0])


@HOST.of(TABLE["stack"])
def _stack(out: Aval, params: tuple, *xs: Any) -> np.ndarray:
    want = out.dtype
    axis = params[0] % out.ndim
    index = (*(_ALL,) * axis, None)
    return np.concatenate([converted_on_host(x, want)[index] for x in xs], axis)


@HOST.of(TABLE["split"])
def _split(out: Any, params: tuple, x: Any) -> tuple[np.ndarray, ...]:
    sections, axis = params
    before = (_ALL,) * (axis % x.ndim)
    return tuple([x[(*before, slice(low, high))] for low, high in section_bounds(x.shape[axis], sections)])


@HOST.of(TABLE["unstack"])
def _unstack(out: Any, params: tuple, x: Any) -> tuple[np.ndarray, ...]:
    (axis,) = params
    before = (_ALL,) * (axis % x.ndim)
    return tuple([x[(*before, k, ...)] for k in range(x.shape[axis])])


@HOST.of(TABLE["repeat"])
def _repeat(out: Aval, params: tuple, x: Any) -> np.ndarray:
    return x.repeat(*params)


@HOST.of(TABLE["tile"])
def _tile(out: Aval, params: tuple, x: Any) -> np.ndarray:
    shape, counts = tiled_shapes(x.shape, *params)
    result = np.empty([p for n, r in zip(shape, counts, strict=True) for p in (r, n)], x.dtype)
    result[...] = x.reshape([p for n in shape for p in (1, n)])
    return result.reshape(out.shape)


def margin_slices(params: tuple, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the slices of a padded result that hold the array, which has this shape."""
    margins = widths_by_axis(params[0], len(shape))
    return tuple([slice(low, low + n) for n, (low, _) in zip(shape, margins, strict=True)])


@HOST.of(TABLE["pad"])
def _pad(out: Aval, params: tuple, x: Any, value: Any = None) -> np.ndarray:
    widths, mode = params
    if mode != "constant" and x.size:
        return np.pad(x, widths_by_axis(widths, x.ndim), mode) if x.ndim else x
    if value is None:
        result = np.zeros(out.shape, x.dtype)
    else:
        result = np.empty(out.shape, x.dtype)
        result[...] = converted_on_host(value.reshape(-1)[:1], out.dtype)
    result[margin_slices(params, x.shape)] = x
    return result


@HOST.of(TABLE["diagonal"])
def _diagonal(out: Aval, params: tuple, x: Any) -> np.ndarray:
    return x.diagonal(*params)


@HOST.of(TABLE["diag"])
def _diag(out: Aval, params: tuple, x: Any) -> np.ndarray:
    (k,) = params
    result = np.zeros(out.shape, x.dtype)
    if len(x):
        start = k if k >= 0 else -k * len(result)
        result.reshape(-1)[start :: len(result) + 1][: len(x)] = x
    return result


@HOST.of(TABLE["trace"])
def _trace(out: Aval, params: tuple, x: Any) -> Any:
    want = sum_dtype(out.dtype)._numpy
    return wide(x.diagonal(*params)).sum(-1, dtype=None if want.itemsize == 2 else want).astype(want)


def distance(shape: tuple[int, ...]) -> np.ndarray:
    """Return, for each element of a matrix, the number of the diagonal on which it lies."""
    return np.arange(shape[-1], dtype=np.int32) - np.arange(shape[-2], dtype=np.int32)[:, None]


@HOST.of(TABLE["triangle"])
def triangle(out: Any, params: tuple, x: Any) -> np.ndarray:
    k, upper = params
    place = distance(x.shape)
    return np.where(place >= k if upper else place <= k, x, np.zeros((), x.dtype))
