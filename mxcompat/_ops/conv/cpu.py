"""Faster convolutions for XLA on the CPU.

XLA's own convolution is slow on a CPU for groups, few channels, kernels of one element and dilated inputs. Its
gradients are slower still. This module has another algorithm for each of these cases; JAX derives their gradients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mxcompat._graph import policy
from mxcompat._jax import jax, jnp, lax, lazy

__all__ = ["Sizes", "convolve_on_cpu", "plain"]

Sizes = tuple[int, ...]

Padding = list[tuple[int, int]]
"""For each spatial axis, the number of zeros before and after the input."""

_LAYOUTS = {
    1: ("NHC", "OHI", "NHC"),
    2: ("NHWC", "OHWI", "NHWC"),
    3: ("NDHWC", "ODHWI", "NDHWC"),
}


def plain(
    x: Any, w: Any, stride: Sizes, padding: Padding, kernel_dilation: Sizes, input_dilation: Sizes, groups: int
) -> Any:
    """Return XLA's own convolution of `(N, ..., C)` with `(O, ..., C / groups)`."""
    return lax.conv_general_dilated(
        x, w, stride, padding, lhs_dilation=input_dilation, rhs_dilation=kernel_dilation,
        dimension_numbers=_LAYOUTS[len(stride)], feature_group_count=groups, precision=lax.Precision.HIGHEST,
    )  # fmt: skip


def convolve_on_cpu(
    x: Any, w: Any, stride: Sizes, padding: Padding, kernel_dilation: Sizes, input_dilation: Sizes, groups: int
) -> Any:
    """Return the same convolution, with the algorithm that is fastest on a CPU."""
    sizes = (stride, padding, kernel_dilation, input_dilation)
    dilated = max(input_dilation) > 1
    if groups > 1 and w.size:
        if w.shape[-1] == 1 and math.prod(w.shape[1:-1]) <= policy.SHIFTED_TAPS and not dilated:
            return _depthwise(x, w, stride, padding, kernel_dilation)
        if groups <= policy.SINGLE_GROUPS:
            parts = zip(jnp.split(x, groups, -1), jnp.split(w, groups), strict=True)
            return jnp.concatenate([convolve_on_cpu(*part, *sizes, 1) for part in parts], -1)
    if groups == 1 and dilated and _suits_phases(x, w, stride, kernel_dilation, input_dilation):
        return _by_phases(x, w, padding, input_dilation)
    if groups == 1 and not dilated and _suits_patches(x, w, stride, padding, kernel_dilation):
        return _by_patches(x, w, stride, padding, kernel_dilation)
    return plain(x, w, *sizes, groups)


def _depthwise(x: Any, w: Any, stride: Sizes, padding: Padding, dilation: Sizes) -> Any:
    """Return a convolution in which every output channel reads one input channel."""
    x = jnp.repeat(x, w.shape[0] // x.shape[-1], axis=-1)
    if math.prod(w.shape[1:-1]) <= policy.UNROLLED_TAPS:
        return _sum_of_shifted(x, w, stride, padding, dilation)
    return _sum_with_rows(x, w, stride, tuple(padding), dilation)


def _sum_of_shifted(x: Any, w: Any, stride: Sizes, padding: Sequence[tuple[int, int]], dilation: Sizes) -> Any:
    wide = x.dtype if x.dtype.itemsize > 2 else jnp.float32  # half precision is summed in float32
    total: Any = 0
    for tap, piece in _shifted(x, w.shape[1:-1], stride, padding, dilation):
        total = total + piece.astype(wide) * w[(slice(None), *tap, 0)].astype(wide)
    return total.astype(x.dtype)


@partial(lazy.custom_jvp, nondiff_argnums=(2, 3, 4))
def _sum_with_rows(x: Any, w: Any, stride: Sizes, padding: tuple[tuple[int, int], ...], dilation: Sizes) -> Any:
    """Return the same sum as `_sum_of_shifted`, with the derivative of `_row_by_row`.

    With the sum's own derivative, XLA would recompute the cotangent for each element of a large kernel.
    """
    return _sum_of_shifted(x, w, stride, padding, dilation)


@_sum_with_rows.defjvp
def _sum_with_rows_jvp(stride: Sizes, padding: Any, dilation: Sizes, primals: Any, tangents: Any) -> tuple[Any, Any]:
    tangent = jax.jvp(lambda x, w: _row_by_row(x, w, stride, padding, dilation), primals, tangents)[1]
    return _sum_with_rows(*primals, stride, padding, dilation), tangent


def _row_by_row(x: Any, w: Any, stride: Sizes, padding: tuple[tuple[int, int], ...], dilation: Sizes) -> Any:
    """Return the same convolution from a loop over the first axis of the kernel."""
    dtype = x.dtype
    wide = dtype if dtype.itemsize > 2 else jnp.float32
    out = _out(x.shape, w.shape[1:-1], stride, padding, dilation)
    met = (out[0] - 1) * stride[0] + 1
    x = jnp.pad(x, [(0, 0), padding[0], *[(0, 0)] * (x.ndim - 2)]).astype(wide)

    @jax.checkpoint
    def row(x: Any, w: Any, start: Any) -> Any:
        part = lax.dynamic_slice_in_dim(x, start, met, 1)
        return _sum_of_shifted(part, w[:, None], stride, [(0, 0), *padding[1:]], (1, *dilation[1:]))

    starts = jnp.arange(w.shape[1], dtype=jnp.int32) * dilation[0]
    rows = jnp.moveaxis(w.astype(wide), 1, 0)
    zero = jnp.zeros((x.shape[0], *out, x.shape[-1]), wide)
    total, _ = lax.scan(lambda total, each: (total + row(x, *each), None), zero, (rows, starts))
    return total.astype(dtype)


def _shifted(
    x: Any, kernel: Sizes, stride: Sizes, padding: Sequence[tuple[int, int]], dilation: Sizes
) -> Iterator[tuple[Sizes, Any]]:
    """Yield, for each kernel element, its place and the slice of the input that it multiplies. The slice has the shape
    of the output."""
    out = _out(x.shape, kernel, stride, padding, dilation)
    x = jnp.pad(x, [(0, 0), *padding, (0, 0)])
    for tap in itertools.product(*map(range, kernel)):
        start = [t * d for t, d in zip(tap, dilation, strict=True)]
        stop = [a + (n - 1) * s + 1 for a, n, s in zip(start, out, stride, strict=True)]
        yield tap, lax.slice(x, (0, *start, 0), (x.shape[0], *stop, x.shape[-1]), (1, *stride, 1))


def _out(x: Sizes, kernel: Sizes, stride: Sizes, padding: Sequence[tuple[int, int]], dilation: Sizes) -> list[int]:
    """Return the spatial sizes of the output."""
    return [
        (n + a + b - d * (k - 1) - 1) // s + 1
        for n, (a, b), d, k, s in zip(x[1:-1], padding, dilation, kernel, stride, strict=True)
    ]


def _by_patches(x: Any, w: Any, stride: Sizes, padding: Padding, dilation: Sizes) -> Any:
    """Return a convolution as one matrix product of the input patches and the kernel."""
    patches = jnp.concatenate([piece for _, piece in _shifted(x, w.shape[1:-1], stride, padding, dilation)], -1)
    rows = patches.reshape(math.prod(patches.shape[:-1]), patches.shape[-1])
    product = jnp.matmul(rows, w.reshape(w.shape[0], patches.shape[-1]).T, precision=lax.Precision.HIGHEST)
    return product.reshape(*patches.shape[:-1], w.shape[0])


def _suits_patches(x: Any, w: Any, stride: Sizes, padding: Padding, dilation: Sizes) -> bool:
    """Return whether the patches method is faster on a CPU, with the value and both gradients counted.

    It is always faster for a kernel of one element, which needs no patches. Otherwise it is faster for few channels,
    and for many channels if there are more outputs than inputs.
    """
    outputs, *kernel, inputs = w.shape
    if x.dtype != jnp.float32:
        return False
    taps = math.prod(kernel)
    if taps == 1:
        return True
    rows = x.shape[0] * math.prod(_out(x.shape, tuple(kernel), stride, padding, dilation))
    if taps > policy.PATCHES_TAPS or rows < policy.PATCHES_ROWS or rows * taps * inputs * 4 > policy.PATCHES_BYTES:
        return False
    thin = inputs <= policy.THIN_INPUTS and outputs <= policy.THIN_OUTPUTS
    wide = inputs >= policy.WIDE_INPUTS and outputs >= policy.WIDE_OUTPUTS
    widening = outputs >= 2 * policy.WIDE_OUTPUTS or outputs >= 2 * inputs
    return thin or (wide and widening and len(kernel) == 2 and x.shape[0] >= policy.WIDE_IMAGES)


def _by_phases(x: Any, w: Any, padding: Padding, dilation: Sizes) -> Any:
    """Return a convolution of a dilated input, without the zeros of the dilation.

    Along an axis dilated by d, every d-th output uses the same kernel elements. So the result is d convolutions of the
    undilated input, interleaved.
    """
    kernel = w.shape[1:-1]
    out = [
        d * (n - 1) + 1 + a + b - (k - 1)
        for n, d, k, (a, b) in zip(x.shape[1:-1], dilation, kernel, padding, strict=True)
    ]
    sizes = [-(-n // d) for n, d in zip(out, dilation, strict=True)]
    zero = jnp.zeros((), x.dtype)
    phases = []
    for phase in itertools.product(*map(range, dilation)):
        places, edges = [slice(None)], [(0, 0, 0)]
        for k, (r, d) in enumerate(zip(phase, dilation, strict=True)):
            low = padding[k][0]
            first = (low - r) % d
            start = (r + first - low) // d  # the input element for the first output
            places.append(slice(first, None, d))
            edges.append((-start, sizes[k] + len(range(first, kernel[k], d)) - 1 - x.shape[1 + k] + start, 0))
        part = w[tuple(places)]
        if part.size:
            ones = (1,) * len(kernel)
            met = lax.pad(x, zero, [*edges, (0, 0, 0)])
            phases.append(convolve_on_cpu(met, part, ones, [(0, 0)] * len(kernel), ones, ones, 1))
        else:
            phases.append(jnp.zeros((x.shape[0], *sizes, w.shape[0]), x.dtype))
    spatial = len(kernel)
    mixed = jnp.stack(phases, 1).reshape(x.shape[0], *dilation, *sizes, w.shape[0])
    order = [axis for k in range(spatial) for axis in (1 + spatial + k, 1 + k)]
    mixed = mixed.transpose(0, *order, 1 + 2 * spatial)
    whole = mixed.reshape(x.shape[0], *[n * d for n, d in zip(sizes, dilation, strict=True)], w.shape[0])
    return whole[(slice(None), *[slice(n) for n in out])]


def _suits_phases(x: Any, w: Any, stride: Sizes, kernel_dilation: Sizes, input_dilation: Sizes) -> bool:
    """Return whether the phases method is faster on a CPU for a convolution of a dilated input.

    Its gradient takes a fifth of the time of XLA's, which also processes the zeros between the elements.
    """
    return (
        x.dtype == jnp.float32
        and max(*stride, *kernel_dilation) == 1
        and math.prod(input_dilation) <= policy.SINGLE_GROUPS
        and w.shape[0] > policy.PHASES_OUTPUTS
        and x.size * math.prod(w.shape[:-1]) >= policy.PHASES_WORK
    )
