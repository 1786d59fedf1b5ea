"""The op behind all convolutions: `jax.lax.conv_general_dilated` in MLX's layouts, see `conv`.

Inputs are `(N, ..., C)`, weights `(O, ..., C / groups)`. On a CPU, `_graph/passes/convolutions.py` replaces XLA's code.
"""

from __future__ import annotations

from typing import Any

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, aval, format_shape, from_numpy
from mxcompat._jax import jax, jnp, lax

from ..define import op

__all__ = ["CONV", "Sizes", "check_channels"]

Sizes = tuple[int, ...]

_LAYOUTS = {
    1: ("NHC", "OHI", "NHC"),
    2: ("NHWC", "OHWI", "NHWC"),
    3: ("NDHWC", "ODHWI", "NDHWC"),
}


def _conv(
    x: Any, w: Any, stride: Sizes, low: Sizes, high: Sizes, kernel_dilation: Sizes, input_dilation: Sizes, groups: int,
    flip: bool,
) -> Any:  # fmt: skip
    want = promote(from_numpy(x.dtype), from_numpy(w.dtype))._numpy  # type: ignore[arg-type]
    x, w = jnp.asarray(x, want), jnp.asarray(w, want)
    spatial = len(stride)
    if min(low + high) < 0:  # a negative padding cuts the input before it is dilated
        for k in range(spatial):
            n = x.shape[1 + k]
            start = min(max(-low[k], 0), n)
            x = jax.lax.slice_in_dim(x, start, max(n - max(-high[k], 0), start), axis=1 + k)
    if flip:
        w = jnp.flip(w, tuple(range(1, 1 + spatial)))
    padding = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    return lax.conv_general_dilated(
        x, w, stride, padding, lhs_dilation=input_dilation, rhs_dilation=kernel_dilation,
        dimension_numbers=_LAYOUTS[spatial], feature_group_count=groups, precision=lax.Precision.HIGHEST,
    )  # fmt: skip


def check_channels(x: Sizes, w: Sizes, groups: int) -> None:
    """Raise MLX's ValueError if the channels of input and weights do not fit."""
    if not groups:
        raise ValueError("[conv] The number of groups must be positive. Got 0 groups.")
    if x[-1] % groups:
        raise ValueError(
            "[conv] The input channels must be divisible by the number of groups. Got input with shape "
            f"{format_shape(x)} and {groups} groups."
        )
    if groups > 1 and w[0] % groups:
        raise ValueError(
            "[conv] If groups > 1, the output channels must be divisible by the number of groups. Got "
            f"{w[0]} output channels and {groups} groups."
        )
    if x[-1] != groups * w[-1]:
        if groups == 1:
            raise ValueError(
                "[conv] Expect the input channels in the input and weight array to match but got shapes - input: "
                f"{format_shape(x)} and weight: {format_shape(w)}"
            )
        raise ValueError(
            f"Given groups={groups} and weights of shape {format_shape(w)}, expected to have {groups * w[-1]} input "
            f"channels but got {x[-1]} input channels instead."
        )


def _infer(
    x: Aval, w: Aval, stride: Sizes, low: Sizes, high: Sizes, kernel_dilation: Sizes, input_dilation: Sizes,
    groups: int, flip: bool,
) -> Aval:  # fmt: skip
    spatial = x.ndim - 2
    check_channels(x.shape, w.shape, groups)
    sizes = {
        "strides": stride, "padding": low, "high": high, "kernel dilation": kernel_dilation,
        "input dilation": input_dilation,
    }  # fmt: skip
    for what, setting in sizes.items():
        if len(setting) != spatial:
            if what in ("padding", "high"):
                raise ValueError(
                    f"[conv] Invalid padding {format_shape(low)} | {format_shape(high)} for {spatial}D convolution."
                )
            raise ValueError(f"[conv] Invalid {what} {format_shape(setting)} for {spatial}D convolution.")
    for heading, what in (
        ("Kernel dilation sizes", "kernel dilation"), ("Stride sizes", "strides"),
        ("Input dilation sizes", "input dilation"),
    ):  # fmt: skip
        if min(sizes[what]) <= 0:
            raise ValueError(f"[conv] {heading} must be positive. Got {what} {format_shape(sizes[what])}.")
    cut = (x.shape[0], *map(_cropped_size, x.shape[1:-1], low, high), x.shape[-1])
    low, high = (tuple(max(p, 0) for p in padding) for padding in (low, high))
    out = []
    for k in range(spatial):
        length = low[k] + high[k] + max(0, input_dilation[k] * (cut[1 + k] - 1) + 1)
        kernel = kernel_dilation[k] * (w.shape[1 + k] - 1) + 1
        if length < kernel:
            raise ValueError(
                "[conv] Spatial dimensions of input after padding cannot be smaller than weight spatial "
                f"dimensions. Got error at axis {k + 1} for input with shape {format_shape(cut)}, padding low "
                f"{format_shape(low)}, "
                f"padding high {format_shape(high)}, and weight of shape {format_shape(w.shape)}."
            )
        out.append((length - kernel) // stride[k] + 1)
    return aval((x.shape[0], *out, w.shape[0]), promote(x.dtype, w.dtype))


def _cropped_size(n: int, low: int, high: int) -> int:
    """Return the size of an axis after negative padding."""
    return max(0, n + min(low, 0) + min(high, 0))


CONV = op("conv", _conv, _infer, ("stride", "low", "high", "kernel_dilation", "input_dilation", "groups", "flip"))
