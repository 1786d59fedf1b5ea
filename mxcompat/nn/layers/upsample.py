"""Upsampling and resampling of spatial axes, channels last.

Every mode is a sum of taps along one axis at a time. Tap ``t`` of output element ``i`` reads input element
``index_t(i)`` with weight ``weight_t(i)``. The modes differ only in their taps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["Upsample"]

# The input index and the weight for each output element; both have shape (M,).
Tap = tuple[mx.array, mx.array]
TapsFn = Callable[[int, float, bool], list[Tap]]


def _positions(size: int, scale: float, align_corners: bool) -> mx.array:
    """Return the position in the input of each of the ``int(scale * size)`` output elements."""
    count = int(scale * size)
    places = mx.arange(count, dtype=mx.float32)
    if align_corners:
        return places * ((size - 1) / max(count - 1, 1))
    step = 1 / scale
    return places * step - ((count - 1) * step - size + 1) / 2


def _nearest_indices(size: int, scale: float) -> mx.array:
    count = int(scale * size)
    places = mx.arange(count, dtype=mx.float32)
    ratio = size / count
    places = mx.round((places + 0.5) * ratio - 0.5) if count > size else places * ratio
    return places.astype(mx.uint32)


def _linear_taps(size: int, scale: float, align_corners: bool) -> list[Tap]:
    at = mx.clip(_positions(size, scale, align_corners), 0, size - 1)
    left, right = mx.floor(at), mx.ceil(at)
    share = at - left
    return [(left.astype(mx.uint32), 1 - share), (right.astype(mx.uint32), share)]


def _cubic_kernel(distance: mx.array, a: float) -> mx.array:
    """Evaluate Keys' cubic convolution kernel at a non-negative distance."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = (((distance - 5) * distance + 8) * distance - 4) * a
    return mx.where(distance <= 1, near, mx.where(distance < 2, far, 0))


def _cubic_taps(size: int, scale: float, align_corners: bool) -> list[Tap]:
    at = _positions(size, scale, align_corners)
    base = mx.floor(at)
    taps = []
    for offset in (-1, 0, 1, 2):
        place = base + offset
        weight = _cubic_kernel(mx.abs(at - place), -0.75)
        taps.append((mx.clip(place, 0, size - 1).astype(mx.uint32), weight))
    return taps


def _antialiased_taps(
    size: int, scale: float, align_corners: bool, kernel: Callable[[mx.array], mx.array], radius: int
) -> list[Tap]:
    """Return the taps of a kernel that is widened when shrinking. The weights within the input sum to one."""
    at = _positions(size, scale, align_corners)
    width = max(1 / scale, 1.0)
    reach = math.ceil(radius * width)
    base = mx.floor(at)
    places, weights = [], []
    for offset in range(-reach + 1, reach + 1):
        place = base + offset
        inside = mx.logical_and(place >= 0, place < size)
        weights.append(mx.where(inside, kernel(mx.abs(at - place) / width), 0))
        places.append(mx.clip(place, 0, size - 1).astype(mx.uint32))
    total = sum(weights[1:], weights[0])
    return [(place, weight / total) for place, weight in zip(places, weights, strict=True)]


def _linear_aa_taps(size: int, scale: float, align_corners: bool) -> list[Tap]:
    return _antialiased_taps(size, scale, align_corners, lambda d: mx.maximum(1 - d, 0), 1)


def _cubic_aa_taps(size: int, scale: float, align_corners: bool) -> list[Tap]:
    return _antialiased_taps(size, scale, align_corners, lambda d: _cubic_kernel(d, -0.5), 2)


def _validate_antialias_align_corners(align_corners: bool, antialias: bool) -> None:
    if antialias and align_corners:
        raise ValueError(
            "[Upsample] antialias=True with align_corners=True is not supported. "
            "Use align_corners=False for antialiased interpolation."
        )


def _check_scales(x: mx.array, scale_factor: tuple) -> None:
    if x.ndim - 2 != len(scale_factor):
        raise ValueError("A scale needs to be provided for each spatial dimension")


def upsample_nearest(x: mx.array, scale_factor: tuple) -> mx.array:
    """Upsample by repeating the nearest value.

    Args:
        x: (N, *spatial, C).
        scale_factor: one factor per spatial axis.

    Returns:
        (N, *scaled, C), dtype of ``x``.

    Raises:
        ValueError: if the number of factors differs from the number of spatial axes.
    """
    _check_scales(x, scale_factor)
    if all(float(scale).is_integer() for scale in scale_factor):
        times = [int(scale) for scale in scale_factor]
        batch, *spatial, channels = x.shape
        apart = [n for size in spatial for n in (size, 1)]
        repeated = [n for size, count in zip(spatial, times, strict=True) for n in (size, count)]
        scaled = [size * count for size, count in zip(spatial, times, strict=True)]
        x = mx.broadcast_to(x.reshape(batch, *apart, channels), (batch, *repeated, channels))
        return x.reshape(batch, *scaled, channels)
    for axis, scale in enumerate(scale_factor, 1):
        x = mx.take(x, _nearest_indices(x.shape[axis], scale), axis=axis)
    return x


def _interpolate(x: mx.array, scale_factor: tuple, taps_fn: TapsFn, align_corners: bool) -> mx.array:
    _check_scales(x, scale_factor)
    for axis, scale in enumerate(scale_factor, 1):
        broadcast = [1] * x.ndim
        broadcast[axis] = -1
        terms = [
            mx.take(x, place, axis=axis) * weight.reshape(broadcast)
            for place, weight in taps_fn(x.shape[axis], scale, align_corners)
        ]
        x = sum(terms[1:], terms[0])
    return x


def upsample_linear(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False) -> mx.array:
    """Interpolate linearly along each spatial axis.

    Args:
        x: (N, *spatial, C).
        scale_factor: one factor per spatial axis.
        align_corners: whether the outermost elements of input and output coincide.
        antialias: whether to average over the area of an output element when shrinking.

    Returns:
        (N, *scaled, C), float32 at least.

    Raises:
        ValueError: if the number of factors differs from the number of spatial axes, or if both options are set.
    """
    _validate_antialias_align_corners(align_corners, antialias)
    return _interpolate(x, scale_factor, _linear_aa_taps if antialias else _linear_taps, align_corners)


def upsample_cubic(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False) -> mx.array:
    """Interpolate with cubic convolution along each spatial axis; arguments as for ``upsample_linear``."""
    _validate_antialias_align_corners(align_corners, antialias)
    return _interpolate(x, scale_factor, _cubic_aa_taps if antialias else _cubic_taps, align_corners)


class Upsample(Module):
    """A layer that scales the spatial axes of (N, *spatial, C).

    Args:
        scale_factor: one factor for all spatial axes or a tuple with one for each; sizes are rounded down.
        mode: ``"nearest"``, ``"linear"`` or ``"cubic"``.
        align_corners: for linear and cubic, whether the outermost elements of input and output coincide.
        antialias: for linear and cubic, whether to smooth when shrinking.

    Raises:
        ValueError: for an unknown mode, or options that exclude each other; at call time, for an input without spatial
            axes or with another number of them.

    Example:
        >>> nn.Upsample(2, mode="linear")(mx.ones((1, 4, 4, 3))).shape
        (1, 8, 8, 3)
    """

    def __init__(
        self,
        scale_factor: float | tuple,
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        if mode not in ("nearest", "linear", "cubic"):
            raise ValueError(f"[Upsample] Got unsupported upsampling algorithm: {mode}")
        if antialias and mode == "nearest":
            raise ValueError("[Upsample] Antialiasing is not supported for nearest neighbor upsampling")
        _validate_antialias_align_corners(align_corners, antialias)
        if isinstance(scale_factor, (list, tuple)):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self) -> str:
        text = f"scale_factor={self.scale_factor}, mode={self.mode!r}, align_corners={self.align_corners}"
        return f"{text}, antialias={self.antialias}" if self.antialias else text

    def __call__(self, x: mx.array) -> mx.array:
        count = x.ndim - 2
        if count <= 0:
            raise ValueError(
                "[Upsample] The input should have at least 1 spatial dimension which means "
                f"it should be at least 3D but {x.ndim}D was provided"
            )
        scales = self.scale_factor
        if not isinstance(scales, tuple):
            scales = (scales,) * count
        elif len(scales) != count:
            raise ValueError(
                "[Upsample] One scale per spatial dimension is required but "
                f"scale_factor={scales} and the number of spatial dimensions were {count}"
            )
        if self.mode == "nearest":
            return upsample_nearest(x, scales)
        interpolate = upsample_linear if self.mode == "linear" else upsample_cubic
        return interpolate(x, scales, self.align_corners, self.antialias)
