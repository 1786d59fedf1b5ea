"""Maximum and average pooling over one, two and three spatial axes, channels last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import gt
from typing import Any, ClassVar

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat.nn.layers.base import Module

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]


def _tiles(x: mx.array, window: Sequence[int]) -> mx.array:
    """Return adjacent windows as (N, count, window, count, window, ..., C), by a reshape. Elements that do not fill a
    window are cut off."""
    used, shape = _tiling(x.shape, tuple(window))
    return (x[used] if used else x).reshape(shape)


@lru_cache
def _tiling(shape: tuple[int, ...], window: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """Return the slices that cut off incomplete windows (none if all are complete), and the shape with axes for the
    windows."""
    batch, *sizes, channels = shape
    counts = [size // k for size, k in zip(sizes, window, strict=True)]
    whole = [n * k for n, k in zip(counts, window, strict=True)]
    used = (slice(None), *map(slice, whole)) if whole != sizes else ()
    return used, (batch, *itertools.chain.from_iterable(zip(counts, window, strict=True)), channels)


def _slices(x: mx.array, counts: list[int], window: list[int], strides: list[int]) -> mx.array:
    """Return a stack with one strided slice for each position in the window."""
    places = []
    for offsets in itertools.product(*map(range, window)):
        cut = (slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, counts, strides, strict=True))
        places.append(x[(slice(None), *cut)])
    batch, *_, channels = x.shape
    stacked = mx.stack(places, axis=len(window) + 1)
    return stacked.reshape(batch, *counts, *window, channels)


def _strided(x: mx.array, counts: list[int], window: list[int], strides: list[int]) -> mx.array:
    batch, *_, channels = x.shape
    steps = [math.prod(x.shape[axis + 1 :]) for axis in range(x.ndim)]
    moves = [step * s for step, s in zip(steps[1:-1], strides, strict=True)]
    return mx.as_strided(x, (batch, *counts, *window, channels), (steps[0], *moves, *steps[1:-1], steps[-1]))


def _sliding_windows(x: mx.array, window_shape: list[int], window_strides: list[int]) -> mx.array:
    """Return all windows of (N, *spatial, C), as (N, *counts, *window_shape, C)."""
    if x.ndim < 3:
        raise ValueError(
            "To extract sliding windows at least 1 spatial dimension (3 total) is needed "
            f"but the input only has {x.ndim} dimensions."
        )
    spatial = x.shape[1:-1]
    if not len(spatial) == len(window_shape) == len(window_strides):
        raise ValueError(
            "To extract sliding windows the window shapes and strides must have the same number of spatial "
            f"dimensions as the signal but the signal has {len(spatial)} dims and the window shape has "
            f"{len(window_shape)} and strides have {len(window_strides)}."
        )
    counts = [(size - k) // s + 1 for size, k, s in zip(spatial, window_shape, window_strides, strict=True)]
    if min(counts) < 0:
        raise ValueError("[as_strided] Negative dimensions not allowed.")
    if 0 in counts:
        batch, *_, channels = x.shape
        return mx.zeros((batch, *counts, *window_shape, channels), dtype=x.dtype)
    if window_shape == window_strides:
        count = len(counts)
        order = (0, *range(1, 2 * count, 2), *range(2, 2 * count + 1, 2), 2 * count + 1)
        return _tiles(x, window_shape).transpose(*order)
    if math.prod(window_shape) <= policy.MOST_SLICES:
        return _slices(x, counts, window_shape, window_strides)
    return _strided(x, counts, window_shape, window_strides)


_OVER_ANY_AXES = (mx.max, mx.mean)


class _Pool(Module):
    """Base class of pooling. It pads the input, cuts windows, and reduces each by ``pooling_function(windows, axes)``.

    The axes are negative.
    """

    def __init__(
        self,
        pooling_function: Callable[..., mx.array],
        kernel_size: list[int],
        stride: list[int],
        padding: list[tuple[int, int]],
        padding_value: float,
    ) -> None:
        super().__init__()
        layer = type(self).__name__
        for name, values in {"kernel_size": kernel_size, "stride": stride}.items():
            if min(values) <= 0:
                raise ValueError(f"[{layer}] '{name}' must be positive but got {tuple(values)}.")
        margins = tuple(before for before, _ in padding)
        if min(margins) < 0:
            raise ValueError(f"[{layer}] 'padding' must be non-negative but got {margins}.")
        self._pooling_function, self._padding_value = pooling_function, padding_value
        self._kernel_size, self._stride, self._padding = kernel_size, stride, padding
        self._axes = tuple(range(-len(kernel_size) - 1, -1))

    def _extra_repr(self) -> str:
        margins = tuple(before for before, _ in self._padding)
        return f"kernel_size={tuple(self._kernel_size)}, stride={tuple(self._stride)}, padding={margins}"

    def __call__(self, x: mx.array) -> mx.array:
        margins = self._padding
        if any(before > 0 for before, _ in margins):
            x = mx.pad(x, [(0, 0), *margins, (0, 0)], constant_values=self._padding_value)
        window, reduce = self._kernel_size, self._pooling_function
        if self._mx_side_by_side(x):
            # adjacent windows need no transpose before the reduction
            return reduce(_tiles(x, window), tuple(range(2, 2 * len(window) + 1, 2)))
        return reduce(_sliding_windows(x, window, self._stride), self._axes)

    def _mx_side_by_side(self, x: mx.array) -> bool:
        """Return True if windows are adjacent, and the reduction accepts other axes."""
        window = self._kernel_size
        return (
            self._pooling_function in _OVER_ANY_AXES
            and window == self._stride
            and x.ndim == len(window) + 2
            and not any(map(gt, window, x.shape[1:-1]))
        )


class _PoolOver(_Pool):
    """Base class of pooling over ``_mx_count`` spatial axes. A setting may be one number for all axes."""

    _mx_count: ClassVar[int]

    def __init__(
        self,
        pooling_function: Callable[..., mx.array],
        padding_value: float,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
    ) -> None:
        window = self._mx_per_axis("kernel_size", kernel_size)
        steps = window if stride is None else self._mx_per_axis("stride", stride)
        margins = [(margin, margin) for margin in self._mx_per_axis("padding", padding)]
        super().__init__(pooling_function, window, steps, margins, padding_value)

    def _mx_per_axis(self, name: str, value: Any) -> list[int]:
        if isinstance(value, (tuple, list)) and len(value) == self._mx_count:
            return list(value)
        if isinstance(value, int):
            return [value] * self._mx_count
        form = f"an integer or a tuple containing {self._mx_count} integer{'s' if self._mx_count > 1 else ''}"
        raise ValueError(f"[{type(self).__name__}] '{name}' must be {form}")


class _Pool1d(_PoolOver):
    _mx_count = 1


class _Pool2d(_PoolOver):
    _mx_count = 2


class _Pool3d(_PoolOver):
    _mx_count = 3


class MaxPool1d(_Pool1d):
    """A layer that returns the largest value of each window: (N, L, C) to (N, L', C).

    Args:
        kernel_size: size of the window.
        stride: step between windows; default ``kernel_size``.
        padding: the number of ``-inf`` to add on both sides.

    Raises:
        ValueError: for a setting that is not an integer (or a 1-tuple) in range; at call time, for an input with other
            axes.

    Example:
        >>> nn.MaxPool1d(2)(mx.array([[[1.0], [2.0], [3.0], [5.0]]]))
        array([[[2],
                [5]]], dtype=float32)
    """

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ) -> None:
        super().__init__(mx.max, -math.inf, kernel_size, stride, padding)


class AvgPool1d(_Pool1d):
    """A layer that returns the mean of each window, including padding: (N, L, C) to (N, L', C).

    Args:
        kernel_size: size of the window.
        stride: step between windows; default ``kernel_size``.
        padding: the number of zeros to add on both sides.

    Raises:
        ValueError: for a setting that is not an integer (or a 1-tuple) in range; at call time, for an input with other
            axes.

    Example:
        >>> nn.AvgPool1d(2)(mx.array([[[1.0], [2.0], [3.0], [5.0]]]))
        array([[[1.5],
                [4]]], dtype=float32)
    """

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ) -> None:
        super().__init__(mx.mean, 0, kernel_size, stride, padding)


class MaxPool2d(_Pool2d):
    """A layer that returns the largest value of each window: (N, H, W, C) to (N, H', W', C).

    Args:
        kernel_size: size of the window, an integer or a pair.
        stride: step between windows; default ``kernel_size``.
        padding: the number of ``-inf`` to add on both sides of each axis.

    Raises:
        ValueError: for a setting that is not an integer (or a pair) in range; at call time, for an input with other
            axes.

    Example:
        >>> nn.MaxPool2d(2, stride=1)(mx.ones((1, 8, 8, 3))).shape
        (1, 7, 7, 3)
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ) -> None:
        super().__init__(mx.max, -math.inf, kernel_size, stride, padding)


class AvgPool2d(_Pool2d):
    """A layer that returns the mean of each window, including padding: (N, H, W, C) to (N, H', W', C).

    Args:
        kernel_size: size of the window, an integer or a pair.
        stride: step between windows; default ``kernel_size``.
        padding: the number of zeros to add on both sides of each axis.

    Raises:
        ValueError: for a setting that is not an integer (or a pair) in range; at call time, for an input with other
            axes.

    Example:
        >>> nn.AvgPool2d(2, stride=1)(mx.ones((1, 8, 8, 3))).shape
        (1, 7, 7, 3)
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ) -> None:
        super().__init__(mx.mean, 0, kernel_size, stride, padding)


class MaxPool3d(_Pool3d):
    """A layer that returns the largest value of each window: (N, D, H, W, C) to (N, D', H', W', C).

    Args:
        kernel_size: size of the window, an integer or a triple.
        stride: step between windows; default ``kernel_size``.
        padding: the number of ``-inf`` to add on both sides of each axis.

    Raises:
        ValueError: for a setting that is not an integer (or a triple) in range; at call time, for an input with other
            axes.

    Example:
        >>> nn.MaxPool3d(2)(mx.ones((1, 4, 4, 4, 3))).shape
        (1, 2, 2, 2, 3)
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ) -> None:
        super().__init__(mx.max, -math.inf, kernel_size, stride, padding)


class AvgPool3d(_Pool3d):
    """A layer that returns the mean of each window, including padding: (N, D, H, W, C) to (N, D', H', W', C).

    Args:
        kernel_size: size of the window, an integer or a triple.
        stride: step between windows; default ``kernel_size``.
        padding: the number of zeros to add on both sides of each axis.

    Raises:
        ValueError: for a setting that is not an integer (or a triple) in range; at call time, for an input with other
            axes.

    Example:
        >>> nn.AvgPool3d(2)(mx.ones((1, 4, 4, 4, 3))).shape
        (1, 2, 2, 2, 3)
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ) -> None:
        super().__init__(mx.mean, 0, kernel_size, stride, padding)
