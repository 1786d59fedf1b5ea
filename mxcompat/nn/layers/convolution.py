"""Convolutions over one, two and three spatial axes, channels last, and the base class shared with transposed
convolutions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import mxcompat.core as mx
from mxcompat.nn.layers._walk import read
from mxcompat.nn.layers.base import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Convolution"]


class Convolution(Module):
    """Base class of convolutions: a weight, a bias, and a function of the input, the weight and settings.

    ``_mx_axes`` is the number of spatial axes. ``_mx_settings`` has the names of the settings in the function's order.
    Layers with more than one axis keep one value per axis for each setting, except for the dilation and the groups.
    """

    _mx_axes: ClassVar[int]
    _mx_function: ClassVar[str]
    _mx_settings: ClassVar[tuple[str, ...]] = ("stride", "padding", "dilation", "groups")

    def _mx_set_up(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple, bias: bool, *settings: Any
    ) -> None:
        """Make the parameters and store the settings."""
        kernel: tuple[Any, ...] = (kernel_size,) if self._mx_axes == 1 else self._mx_spread(kernel_size)
        limit = math.sqrt(1 / (in_channels * math.prod(kernel[axis] for axis in range(self._mx_axes))))
        self.weight = mx.random.uniform(low=-limit, high=limit, shape=(out_channels, *kernel, in_channels))
        if bias:
            self.bias = mx.zeros((out_channels,))
        by_name = dict(zip(self._mx_settings, settings, strict=True))
        for name in ("padding", *by_name):  # MLX lists the parameters in this order
            whole = self._mx_axes == 1 or name in ("dilation", "groups")
            setattr(self, name, by_name[name] if whole else self._mx_spread(by_name[name]))

    def _mx_spread(self, value: int | tuple) -> tuple:
        """Return one value per spatial axis."""
        return (value,) * self._mx_axes if isinstance(value, int) else value

    def _extra_repr(self) -> str:
        out_channels, *kernel, channels = self.weight.shape
        shown = {"kernel_size": kernel[0] if self._mx_axes == 1 else tuple(kernel[: self._mx_axes])}
        shown |= {name: getattr(self, name) for name in self._mx_settings} | {"bias": "bias" in self}
        described = ", ".join(f"{name}={value}" for name, value in shown.items())
        return f"{channels * shown.get('groups', 1)}, {out_channels}, {described}"

    def __call__(self, x: mx.array) -> mx.array:
        y = getattr(mx, self._mx_function)(
            x, read(self, "weight"), *[getattr(self, name) for name in self._mx_settings]
        )
        return y + read(self, "bias") if "bias" in self else y


def _per_group(in_channels: int, groups: int) -> int:
    """Return the number of input channels of a group."""
    if in_channels % groups:
        raise ValueError(
            f"The number of input channels ({in_channels}) must be divisible by the number of groups ({groups})"
        )
    return in_channels // groups


class Conv1d(Convolution):
    """Convolution of (N, L, in_channels) to (N, L', out_channels).

    Parameters: ``weight`` (out_channels, kernel_size, in_channels / groups) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel.
        stride: step between windows.
        padding: zeros added on both sides.
        dilation: step between the kernel's taps.
        groups: the number of groups into which the channels are split.
        bias: whether to add a bias.

    Raises:
        ValueError: if ``groups`` does not divide ``in_channels``; at call time, for an input with other axes or
            channels, or smaller than the kernel.

    Example:
        >>> nn.Conv1d(3, 5, kernel_size=4)(mx.ones((2, 16, 3))).shape
        (2, 13, 5)
    """

    _mx_axes = 1
    _mx_function = "conv1d"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = _per_group(in_channels, groups)
        self._mx_set_up(channels, out_channels, kernel_size, bias, stride, padding, dilation, groups)


class Conv2d(Convolution):
    """Convolution of (N, H, W, in_channels) to (N, H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels / groups) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, an integer or a pair.
        stride: step between windows, an integer or a pair.
        padding: zeros added on both sides, an integer or a pair.
        dilation: step between the kernel's taps, an integer or a pair.
        groups: the number of groups into which the channels are split.
        bias: whether to add a bias.

    Raises:
        ValueError: if ``groups`` does not divide ``in_channels``; at call time, for an input with other axes or
            channels, or smaller than the kernel.

    Example:
        >>> nn.Conv2d(3, 5, kernel_size=3, padding=1)(mx.ones((2, 8, 8, 3))).shape
        (2, 8, 8, 5)
    """

    _mx_axes = 2
    _mx_function = "conv2d"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = _per_group(in_channels, groups)
        self._mx_set_up(channels, out_channels, kernel_size, bias, stride, padding, dilation, groups)


class Conv3d(Convolution):
    """Convolution of (N, D, H, W, in_channels) to (N, D', H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, an integer or a triple.
        stride: step between windows, an integer or a triple.
        padding: zeros added on both sides, an integer or a triple.
        dilation: step between the kernel's taps, an integer or a triple.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for an input with other axes or channels, or smaller than the kernel.

    Example:
        >>> nn.Conv3d(3, 5, kernel_size=3)(mx.ones((2, 8, 8, 8, 3))).shape
        (2, 6, 6, 6, 5)
    """

    _mx_axes = 3
    _mx_settings = ("stride", "padding", "dilation")
    _mx_function = "conv3d"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._mx_set_up(in_channels, out_channels, kernel_size, bias, stride, padding, dilation)
