"""Descriptions of convolutions for `convolve.c`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Convolution"]


class Convolution(NamedTuple):
    """A convolution of `(images, *inputs, groups * channels)`, with a result `(images, *out, groups * outputs)`.

    Along an axis, output `o` reads the input `(o * stride + t * dilation - low) / spread` for tap `t` of the kernel, if
    this is an integer and inside the input.

    Args:
        channels, outputs: the numbers of channels and outputs of each group.
        steps: the strides of the weights, in elements: for groups, outputs, channels and, for each axis, taps.
        start: the offset of the first weight.
    """

    images: int
    groups: int
    channels: int
    outputs: int
    inputs: Sequence[int]
    out: Sequence[int]
    kernel: Sequence[int]
    stride: Sequence[int]
    low: Sequence[int]
    dilation: Sequence[int]
    spread: Sequence[int]
    steps: Sequence[int]
    start: int = 0

    def numbers(self, for_weights: bool) -> np.ndarray:
        """Return the numbers that C reads. With `for_weights`, C computes the gradient of the weights."""
        missing = 3 - len(self.out)  # C has three axes
        sizes = (self.inputs, self.out, self.kernel, self.stride, self.low, self.dilation, self.spread)
        fills = (1, 1, 1, 1, 0, 1, 1)
        axes = [n for fill, setting in zip(fills, sizes, strict=True) for n in (*[fill] * missing, *setting)]
        steps = [*self.steps[:3], *[0] * missing, *self.steps[3:]]
        first = [for_weights, self.images, self.groups, self.channels, self.outputs]
        return np.array([*first, *axes, self.start, *steps], np.int64)

    def for_inputs(self) -> Convolution:
        """Return the convolution that computes the gradient of the input from the cotangent of the result."""
        group, output, channel, *taps = self.steps
        ends = [k - 1 for k in self.kernel]
        return Convolution(
            self.images, self.groups, self.outputs, self.channels, self.out, self.inputs, self.kernel, self.spread,
            [n * d - low for n, d, low in zip(ends, self.dilation, self.low, strict=True)], self.dilation, self.stride,
            (group, channel, output, *[-step for step in taps]), self.start + sum(map(operator.mul, ends, taps)),
        )  # fmt: skip
