"""Transposed convolutions over one, two and three spatial axes, channels last."""

from __future__ import annotations

from mxcompat.nn.layers.convolution import Convolution

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Transposed(Convolution):
    _mx_settings = ("stride", "padding", "dilation", "output_padding")


class ConvTranspose1d(_Transposed):
    """Transposed convolution of (N, L, in_channels) to (N, L', out_channels).

    Parameters: ``weight`` (out_channels, kernel_size, in_channels) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel.
        stride: step between the places the input values go to.
        padding: the number of elements to cut off on both sides of the output.
        dilation: step between the kernel's taps.
        output_padding: the number of elements to add at the end of the output.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for an input with other axes or channels.

    Example:
        >>> nn.ConvTranspose1d(3, 5, kernel_size=4)(mx.ones((2, 16, 3))).shape
        (2, 19, 5)
    """

    _mx_axes = 1
    _mx_function = "conv_transpose1d"

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
        self._mx_set_up(in_channels, out_channels, kernel_size, bias, stride, padding, dilation, output_padding)


class ConvTranspose2d(_Transposed):
    """Transposed convolution of (N, H, W, in_channels) to (N, H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, an integer or a pair.
        stride: step between the places the input values go to, an integer or a pair.
        padding: the number of elements to cut off on both sides of the output, an integer or a pair.
        dilation: step between the kernel's taps, an integer or a pair.
        output_padding: the number of elements to add at the end of the output, an integer or a pair.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for an input with other axes or channels.

    Example:
        >>> nn.ConvTranspose2d(3, 5, kernel_size=2, stride=2)(mx.ones((2, 8, 8, 3))).shape
        (2, 16, 16, 5)
    """

    _mx_axes = 2
    _mx_function = "conv_transpose2d"

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
        self._mx_set_up(in_channels, out_channels, kernel_size, bias, stride, padding, dilation, output_padding)


class ConvTranspose3d(_Transposed):
    """Transposed convolution of (N, D, H, W, in_channels) to (N, D', H', W', out_channels).

    Parameters: ``weight`` (out_channels, *kernel_size, in_channels) and ``bias`` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, an integer or a triple.
        stride: step between the places the input values go to, an integer or a triple.
        padding: the number of elements to cut off on both sides of the output, an integer or a triple.
        dilation: step between the kernel's taps, an integer or a triple.
        output_padding: the number of elements to add at the end of the output, an integer or a triple.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for an input with other axes or channels.

    Example:
        >>> nn.ConvTranspose3d(3, 5, kernel_size=2)(mx.ones((2, 8, 8, 8, 3))).shape
        (2, 9, 9, 9, 5)
    """

    _mx_axes = 3
    _mx_function = "conv_transpose3d"

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
        self._mx_set_up(in_channels, out_channels, kernel_size, bias, stride, padding, dilation, output_padding)
