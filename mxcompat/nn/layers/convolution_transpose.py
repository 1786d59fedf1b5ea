"""Transposed convolutions over one, two and three spatial axes, channels last."""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.convolution import initial_weight, spread

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class ConvTranspose1d(Module):
    """Transposed convolution of (N, L, in_channels) to (N, L', out_channels).

    Parameters: ``weight`` (out_channels, kernel_size, in_channels) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel.
        stride: step between the places the input values go to.
        padding: how much is cut off on both sides of the output.
        dilation: step between the kernel's taps.
        output_padding: how much is added at the end of the output.
        bias: whether to add a bias.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        output_padding: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = initial_weight(out_channels, (kernel_size,), in_channels)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = padding
        self.dilation = dilation
        self.stride = stride
        self.output_padding = output_padding

    def _extra_repr(self) -> str:
        out_channels, kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels}, {out_channels}, kernel_size={kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, output_padding={self.output_padding}, "
            f"bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose1d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return y + self.bias if "bias" in self else y


class _ConvTransposeNd(Module):
    """What the two- and three-dimensional layers share: settings per axis and the description."""

    def _set_up(
        self,
        count: int,
        channels: tuple[int, int],
        kernel_size: int | tuple,
        stride: int | tuple,
        padding: int | tuple,
        dilation: int | tuple,
        output_padding: int | tuple,
        bias: bool,
    ) -> None:
        in_channels, out_channels = channels
        self.weight = initial_weight(out_channels, spread(kernel_size, count), in_channels)
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.padding = spread(padding, count)
        self.stride = spread(stride, count)
        self.output_padding = spread(output_padding, count)
        self.dilation = dilation

    def _extra_repr(self) -> str:
        out_channels, *kernel_size, in_channels = self.weight.shape
        return (
            f"{in_channels}, {out_channels}, kernel_size={tuple(kernel_size)}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, output_padding={self.output_padding}, "
            f"bias={'bias' in self}"
        )


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, H, W, in_channels) to (N, H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels) and ``bias`` (out_channels,).
    The arguments are those of ``ConvTranspose1d``; spatial ones may be a pair.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        output_padding: int | tuple = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = (in_channels, out_channels)
        self._set_up(2, channels, kernel_size, stride, padding, dilation, output_padding, bias)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose2d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return y + self.bias if "bias" in self else y


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, D, H, W, in_channels) to (N, D', H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels) and ``bias`` (out_channels,).
    The arguments are those of ``ConvTranspose1d``; spatial ones may be a triple.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        output_padding: int | tuple = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = (in_channels, out_channels)
        self._set_up(3, channels, kernel_size, stride, padding, dilation, output_padding, bias)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose3d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return y + self.bias if "bias" in self else y
