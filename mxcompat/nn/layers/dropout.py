"""Dropout of single values and of whole channels.

Masks are drawn by the same calls of `mx.random.bernoulli` as in MLX's layers, because a program may have replaced that
function.
"""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["Dropout", "Dropout2d", "Dropout3d"]


def _keep_probability(p: float) -> float:
    """Return the probability to keep a value, after checking it."""
    if p < 0 or p >= 1:
        raise ValueError(f"The dropout probability {p} is not in [0, 1)")
    return 1 - p


def _keeps_all(layer: Dropout | Dropout2d | Dropout3d) -> bool:
    return layer._p_1 == 1 or not layer.training


def _scaled(x: mx.array, mask: mx.array, kept: float) -> mx.array:
    """Mask and scale the input. The mask comes first, so that half precision is kept."""
    return mask * x * (1 / kept)


def _shared_axes(x: mx.array, count: int, allowed: tuple[int, int]) -> list[int]:
    """Return the shape of the mask for whole channels: all elements along axes of size 1 share one draw."""
    if x.ndim not in allowed:
        raise ValueError(f"Received input with {x.ndim} dimensions. Expected {allowed[0]} or {allowed[1]} dimensions.")
    shape = list(x.shape)
    shape[-1 - count : -1] = [1] * count
    return shape


class Dropout(Module):
    """A layer that in training sets each value to zero with probability ``p``, and scales the rest by ``1 / (1 - p)``.

    Args:
        p: the probability, in [0, 1).

    Raises:
        ValueError: if ``p`` is out of range.

    Example:
        >>> layer = nn.Dropout(0.5).eval()
        >>> layer(mx.ones((2, 3)))
        array([[1, 1, 1],
               [1, 1, 1]], dtype=float32)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self._p_1 = _keep_probability(p)  # MLX's name

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def __call__(self, x: mx.array) -> mx.array:
        if _keeps_all(self):
            return x
        return _scaled(x, mx.random.bernoulli(self._p_1, x.shape), self._p_1)


class Dropout2d(Module):
    """``Dropout`` of whole channels of images (..., H, W, C), with or without a batch axis.

    Args:
        p: the probability for a channel, in [0, 1).

    Raises:
        ValueError: if ``p`` is out of range; at call time, for an input without 3 or 4 axes.

    Example:
        >>> nn.Dropout2d(0.5).eval()(mx.ones((2, 4, 4, 3))).shape
        (2, 4, 4, 3)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self._p_1 = _keep_probability(p)

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def __call__(self, x: mx.array) -> mx.array:
        shape = _shared_axes(x, 2, (3, 4))
        if _keeps_all(self):
            return x
        return _scaled(x, mx.random.bernoulli(p=self._p_1, shape=shape), self._p_1)


class Dropout3d(Module):
    """``Dropout`` of whole channels of volumes (..., D, H, W, C), with or without a batch axis.

    Args:
        p: the probability for a channel, in [0, 1).

    Raises:
        ValueError: if ``p`` is out of range; at call time, for an input without 4 or 5 axes.

    Example:
        >>> nn.Dropout3d(0.5).eval()(mx.ones((2, 4, 4, 4, 3))).shape
        (2, 4, 4, 4, 3)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self._p_1 = _keep_probability(p)

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def __call__(self, x: mx.array) -> mx.array:
        shape = _shared_axes(x, 3, (4, 5))
        if _keeps_all(self):
            return x
        return _scaled(x, mx.random.bernoulli(p=self._p_1, shape=shape), self._p_1)
