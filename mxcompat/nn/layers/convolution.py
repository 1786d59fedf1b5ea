"""Convolutions over one, two and three spatial axes, channels last."""

from __future__ import annotations

import math

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


def spread(value: int | tuple, count: int) -> tuple:
    """One setting per spatial axis."""
    return (value,) * count if isinstance(value, int) else value


def initial_weight(out_channels: int, kernel: tuple, in_channels: int) -> mx.array:
    """Uniform within ``1 / sqrt(fan in)`` of zero, shape (out_channels, *kernel, in_channels)."""
    limit = math.sqrt(1 / (in_channels * math.prod(kernel)))
    return mx.random.uniform(low=-limit, high=limit, shape=(out_channels, *kernel, in_channels))


def _check_groups(in_channels: int, groups: int) -> None:
    if in_channels % groups != 0:
        raise ValueError(
            f"The number of input channels ({in_channels}) must be divisible by the number of groups ({groups})"
        )


class Conv1d(Module):
    """Convolution of (N, L, in_channels) to (N, L', out_channels).

    Parameters: ``weight`` (out_channels, kernel_size, in_channels / groups) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel.
        stride: step between windows.
        padding: zeros added on both sides.
        dilation: step between the kernel's taps.
        groups: how many groups the channels are split into.
        bias: whether to add a bias.

    Raises:
        ValueError: ``groups`` does not divide ``in_channels``.
    """

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
        _check_groups(in_channels, groups)
        self.weight = initial_weight(out_channels, (kernel_size,), in_channels // groups)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = padding
        self.dilation = dilation
        self.stride = stride
        self.groups = groups

    def _extra_repr(self) -> str:
        out_channels, kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels * self.groups}, {out_channels}, kernel_size={kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, groups={self.groups}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv1d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return y + self.bias if "bias" in self else y


class Conv2d(Module):
    """Convolution of (N, H, W, in_channels) to (N, H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels / groups) and ``bias`` (out_channels,).
    The arguments are those of ``Conv1d``; spatial ones may be a pair.
    """

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
        _check_groups(in_channels, groups)
        self.weight = initial_weight(out_channels, spread(kernel_size, 2), in_channels // groups)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = spread(padding, 2)
        self.stride = spread(stride, 2)
        self.dilation = dilation
        self.groups = groups

    def _extra_repr(self) -> str:
        out_channels, *kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels * self.groups}, {out_channels}, kernel_size={tuple(kernel_size)}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, groups={self.groups}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv2d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return y + self.bias if "bias" in self else y


class Conv3d(Module):
    """Convolution of (N, D, H, W, in_channels) to (N, D', H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels) and ``bias`` (out_channels,).
    The arguments are those of ``Conv1d`` without groups; spatial ones may be a triple.
    """

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
        self.weight = initial_weight(out_channels, spread(kernel_size, 3), in_channels)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = spread(padding, 3)
        self.stride = spread(stride, 3)
        self.dilation = dilation

    def _extra_repr(self) -> str:
        out_channels, *kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels}, {out_channels}, kernel_size={tuple(kernel_size)}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv3d(x, self.weight, self.stride, self.padding, self.dilation)
        return y + self.bias if "bias" in self else y
