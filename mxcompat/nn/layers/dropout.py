"""Dropout of single values and of whole channels."""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["Dropout", "Dropout2d", "Dropout3d"]


class Dropout(Module):
    """In training, zeroes each value with probability ``p`` and scales the rest by ``1 / (1 - p)``.

    Args:
        p: the probability, in [0, 1).

    Raises:
        ValueError: ``p`` out of range.

    Example:
        >>> layer = nn.Dropout(0.5).eval()
        >>> layer(mx.ones((2, 3)))
        array([[1, 1, 1],
               [1, 1, 1]], dtype=float32)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if p < 0 or p >= 1:
            raise ValueError(f"The dropout probability {p} is not in [0, 1)")
        # The probability to keep, as MLX names it.
        self._p_1 = 1 - p

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def _mx_mask_shape(self, x: mx.array) -> list[int]:
        """The shape in which kept and dropped are drawn; axes of size 1 share one draw."""
        return list(x.shape)

    def __call__(self, x: mx.array) -> mx.array:
        if self._p_1 == 1 or not self.training:
            return x
        kept = mx.random.bernoulli(self._p_1, self._mx_mask_shape(x)) * x  # first, so that half precision stays
        return kept * (1 / self._p_1)


def _shared_axes(x: mx.array, count: int, allowed: tuple[int, int]) -> list[int]:
    if x.ndim not in allowed:
        raise ValueError(f"Received input with {x.ndim} dimensions. Expected {allowed[0]} or {allowed[1]} dimensions.")
    shape = list(x.shape)
    shape[-1 - count : -1] = [1] * count
    return shape


class Dropout2d(Dropout):
    """``Dropout`` of whole channels of images (..., H, W, C), with or without a batch axis.

    Args:
        p: the probability for a channel, in [0, 1).

    Raises:
        ValueError: ``p`` out of range; at call time, an input without 3 or 4 axes.

    Example:
        >>> nn.Dropout2d(0.5).eval()(mx.ones((2, 4, 4, 3))).shape
        (2, 4, 4, 3)
    """

    def _mx_mask_shape(self, x: mx.array) -> list[int]:
        return _shared_axes(x, 2, (3, 4))

    def __call__(self, x: mx.array) -> mx.array:
        self._mx_mask_shape(x)
        return super().__call__(x)


class Dropout3d(Dropout):
    """``Dropout`` of whole channels of volumes (..., D, H, W, C), with or without a batch axis.

    Args:
        p: the probability for a channel, in [0, 1).

    Raises:
        ValueError: ``p`` out of range; at call time, an input without 4 or 5 axes.

    Example:
        >>> nn.Dropout3d(0.5).eval()(mx.ones((2, 4, 4, 4, 3))).shape
        (2, 4, 4, 4, 3)
    """

    def _mx_mask_shape(self, x: mx.array) -> list[int]:
        return _shared_axes(x, 3, (4, 5))

    def __call__(self, x: mx.array) -> mx.array:
        self._mx_mask_shape(x)
        return super().__call__(x)
