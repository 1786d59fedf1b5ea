"""The public convolutions: they check the arguments and build the single op of `lowering`.

Inputs are `(N, ..., C)`, weights `(O, ..., C / groups)`. A transposed convolution is a convolution of the dilated input
with the flipped weights.
"""

from __future__ import annotations

from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.errors import incompatible
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply

from ..arguments import integer, integers, is_sequence, require_array
from .primitive import CONV, Sizes, check_channels

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_general", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip


def _checked(name: str, x: Any, w: Any, groups: int, read: int = 0) -> tuple[Node, Node]:
    """Return the nodes of input and weights, after checks that they fit together.

    Real MLX supports groups only with one or two spatial axes, and checks that first. Before that, it may read spatial
    sizes of both operands; `read` is the number of sizes.
    """
    nodes = require_array(x, name), require_array(w, name)
    a, b = nodes[0].aval, nodes[1].aval
    if read and min(a.ndim, b.ndim) <= read:
        raise IndexError("SmallVector out of range.")  # MLX's message, word for word
    try:
        _check(a, b, groups)
    except ValueError:
        if groups != 1 and a.ndim not in (3, 4):
            raise ValueError("[conv] Can only handle groups != 1 in 1D or 2D convolutions.") from None
        raise
    return nodes


def _check(a: Aval, b: Aval, groups: int) -> None:
    spatial = a.ndim - 2
    if not 1 <= spatial <= 3:
        raise ValueError(
            "[conv] Only works for inputs with 1-3 spatial dimensions. The inputs must be in the format [N, ..., C_in]"
        )
    if a.dtype._kind != "f":
        raise ValueError(
            f"[conv] Invalid input array with type {a.dtype._label}. Convolution currently only supports floating "
            "point types"
        )
    if b.ndim != a.ndim:
        raise ValueError(
            f"[conv] Invalid weight array with {b.ndim} dimensions for {spatial}D convolution. Expected an array with "
            f"{a.ndim} dimensions following the format [C_out, ..., C_in]."
        )
    check_channels(a.shape, b.shape, groups)


def _wrong(name: str, argument: str, expected: str, value: Any) -> TypeError:
    return incompatible(name, f"{argument} must be {expected}, not {value!r}.")


def _int(name: str, argument: str, value: Any) -> int:
    try:
        return integer(value)
    except TypeError:
        raise _wrong(name, argument, "an int", value) from None


def _sizes(name: str, argument: str, value: Any, count: int) -> Sizes:
    """Return one int for each spatial axis, from a single int or from a sequence."""
    expected = "an int" if count == 1 else f"an int or {count} ints"
    try:
        if count > 1 and is_sequence(value):
            sizes = integers(value)
        else:
            sizes = (integer(value),) * count
    except TypeError:
        raise _wrong(name, argument, expected, value) from None
    if len(sizes) != count:
        raise _wrong(name, argument, expected, value)
    return sizes


def _forward(spatial: int, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> array:
    name = f"conv{spatial}d"
    stride = _sizes(name, "stride", stride, spatial)
    padding = _sizes(name, "padding", padding, spatial)
    dilation = _sizes(name, "dilation", dilation, spatial)
    groups = _int(name, "groups", groups)
    nodes = _checked(name, x, w, groups)
    if spatial == 1:
        stride, padding, dilation = (_size_per_axis(v, nodes[0]) for v in (stride, padding, dilation))
    return wrap(apply(CONV, nodes, (stride, padding, padding, dilation, (1,) * len(stride), groups, False)))


def _size_per_axis(sizes: Sizes, x: Node, single: bool = True) -> Sizes:
    """Return one size for each axis. A single size is repeated for all axes of the input."""
    return sizes * (x.aval.ndim - 2) if single and len(sizes) == 1 else sizes


def conv1d(
    input: array, weight: array, /, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1, *,
    stream: Any = None,
) -> array:  # fmt: skip
    """Return the convolution over one axis.

    Args:
        input: `(N, L, C)`, floating point.
        weight: `(O, K, C / groups)`.
        stride: the step of the kernel.
        padding: the number of zeros before and after the input; a negative number cuts elements off.
        dilation: the step between the elements of the kernel.
        groups: the number of groups of channels; each group reads only its own input channels.
        stream: accepted, and ignored.

    Returns:
        An array `(N, L', O)` with the promoted dtype of the operands, where `L' = (L + 2 * padding - dilation * (K - 1)
        - 1) // stride + 1`.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv1d(mx.ones((1, 8, 3)), mx.ones((4, 3, 3)), padding=1).shape
        (1, 8, 4)
    """
    check_stream(stream)
    return _forward(1, input, weight, stride, padding, dilation, groups)


def conv2d(
    input: array, weight: array, /, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, *,
    stream: Any = None,
) -> array:  # fmt: skip
    """Return the convolution over two axes, of `(N, H, W, C)` with `(O, KH, KW, C / groups)`.

    Each of `stride`, `padding` and `dilation` is an int or two; everything else is as in `conv1d`.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv2d(mx.ones((1, 8, 8, 3)), mx.ones((4, 3, 3, 3)), padding=1).shape
        (1, 8, 8, 4)
    """
    check_stream(stream)
    return _forward(2, input, weight, stride, padding, dilation, groups)


def conv3d(
    input: array, weight: array, /, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, *,
    stream: Any = None,
) -> array:  # fmt: skip
    """Return the convolution over three axes, of `(N, D, H, W, C)` with `(O, KD, KH, KW, C / groups)`.

    Each of `stride`, `padding` and `dilation` is an int or three; everything else is as in `conv1d`. Real MLX does not
    support groups for three axes.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv3d(mx.ones((1, 8, 8, 8, 3)), mx.ones((4, 3, 3, 3, 3)), padding=1).shape
        (1, 8, 8, 8, 4)
    """
    check_stream(stream)
    return _forward(3, input, weight, stride, padding, dilation, groups)


def _transposed(
    spatial: int, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: Any
) -> array:
    name = f"conv_transpose{spatial}d"
    stride, padding, dilation, extra = (
        _sizes(name, what, value, spatial)
        for what, value in (
            ("stride", stride), ("padding", padding), ("dilation", dilation), ("output_padding", output_padding),
        )
    )  # fmt: skip
    groups = _int(name, "groups", groups)
    nodes = _checked(name, x, w, groups, read=spatial)
    stride, padding, dilation, extra = (
        _size_per_axis(v, nodes[0], spatial == 1) for v in (stride, padding, dilation, extra)
    )
    kernel = nodes[1].aval.shape[1:-1]
    low = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=False))
    high = tuple(p + e for p, e in zip(low, extra, strict=False))
    return wrap(apply(CONV, nodes, ((1,) * len(stride), low, high, dilation, stride, groups, True)))


def conv_transpose1d(
    input: array, weight: array, /, stride: int = 1, padding: int = 0, dilation: int = 1, output_padding: int = 0,
    groups: int = 1, *, stream: Any = None,
) -> array:  # fmt: skip
    """Return the transposed convolution over one axis: each input element adds a scaled copy of the kernel to the
    output.

    Args:
        input: `(N, L, C)`, floating point.
        weight: `(O, K, C / groups)`.
        stride: the step in the output between neighbouring input elements.
        padding: the number of elements to cut off at both ends of the output.
        dilation: the step between the elements of the kernel.
        output_padding: the number of elements to add at the end of the output.
        groups: the number of groups of channels; each group reads only its own input channels.
        stream: accepted, and ignored.

    Returns:
        An array `(N, L', O)` with the promoted dtype of the operands, where `L' = (L - 1) * stride - 2 * padding +
        dilation * (K - 1) + output_padding + 1`. If `padding` exceeds `dilation * (K - 1)`, whole elements of the input
        are cut off instead, as in real MLX.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv_transpose1d(mx.ones((1, 8, 3)), mx.ones((4, 2, 3)), stride=2).shape
        (1, 16, 4)
    """
    check_stream(stream)
    return _transposed(1, input, weight, stride, padding, dilation, output_padding, groups)


def conv_transpose2d(
    input: array, weight: array, /, stride: Any = 1, padding: Any = 0, dilation: Any = 1, output_padding: Any = 0,
    groups: int = 1, *, stream: Any = None,
) -> array:  # fmt: skip
    """Return the transposed convolution over two axes, of `(N, H, W, C)` with `(O, KH, KW, C / groups)`.

    Each of `stride`, `padding`, `dilation` and `output_padding` is an int or two; everything else is as in
    `conv_transpose1d`.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv_transpose2d(mx.ones((1, 8, 8, 3)), mx.ones((4, 2, 2, 3)), stride=2).shape
        (1, 16, 16, 4)
    """
    check_stream(stream)
    return _transposed(2, input, weight, stride, padding, dilation, output_padding, groups)


def conv_transpose3d(
    input: array, weight: array, /, stride: Any = 1, padding: Any = 0, dilation: Any = 1, output_padding: Any = 0,
    groups: int = 1, *, stream: Any = None,
) -> array:  # fmt: skip
    """Return the transposed convolution over three axes, of `(N, D, H, W, C)` with `(O, KD, KH, KW, C / groups)`.

    Each of `stride`, `padding`, `dilation` and `output_padding` is an int or three; everything else is as in
    `conv_transpose1d`. Real MLX does not support groups for three axes.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv_transpose3d(mx.ones((1, 4, 4, 4, 3)), mx.ones((4, 2, 2, 2, 3)), stride=2).shape
        (1, 8, 8, 8, 4)
    """
    check_stream(stream)
    return _transposed(3, input, weight, stride, padding, dilation, output_padding, groups)


def conv_general(
    input: array, weight: array, /, stride: Any = 1, padding: Any = 0, kernel_dilation: Any = 1,
    input_dilation: Any = 1, groups: int = 1, flip: bool = False, *, stream: Any = None,
) -> array:  # fmt: skip
    """Return the convolution over one to three axes, with all options.

    Args:
        input: `(N, ..., C)`, floating point.
        weight: `(O, ..., C / groups)`.
        stride: the step of the kernel; an int, or a sequence with one for each spatial axis.
        padding: the number of zeros before and after the input, in the same form as `stride`; or a pair of sequences,
            the numbers before and the numbers after. A negative number cuts elements off the input.
        kernel_dilation: the step between the elements of the kernel, in the same form as `stride`.
        input_dilation: the step between the elements of the input, in the same form as `stride`.
        groups: the number of groups of channels; each group reads only its own input channels.
        flip: whether to reverse the kernel, as signal processing defines a convolution.
        stream: accepted, and ignored.

    Returns:
        An array `(N, ..., O)` with the promoted dtype of the operands.

    Raises:
        ValueError: if shapes, sizes or dtypes do not fit.

    Example:
        >>> mx.conv_general(mx.ones((1, 8, 3)), mx.ones((4, 3, 3)), padding=([2], [0])).shape
        (1, 8, 4)
    """
    check_stream(stream)
    name = "conv_general"
    pair = is_sequence(padding) and len(padding) == 2 and all(is_sequence(padding[k]) for k in range(2))
    before, behind = (padding[0], padding[1]) if pair else (padding, padding)
    settings = [("stride", stride), ("padding", before), ("padding", behind), ("kernel_dilation", kernel_dilation),
             ("input_dilation", input_dilation)]  # fmt: skip
    sizes = [_sequence(name, what, value) for what, value in settings]
    if not isinstance(flip, bool):
        raise _wrong(name, "flip", "a bool", flip)
    groups = _int(name, "groups", groups)
    nodes = _checked(name, input, weight, groups)
    neutral = (1, 0, 0, 1, 1)
    stride, low, high, kernel, dilated = (
        _size_per_axis(v or (n,), nodes[0]) for v, n in zip(sizes, neutral, strict=True)
    )
    return wrap(apply(CONV, nodes, (stride, low, high, kernel, dilated, groups, flip)))


def _sequence(name: str, argument: str, value: Any) -> Sizes:
    """Return an int, or a sequence of ints, as a tuple."""
    try:
        return integers(value) if is_sequence(value) else (integer(value),)
    except TypeError:
        raise _wrong(name, argument, "an int or a sequence of ints", value) from None
