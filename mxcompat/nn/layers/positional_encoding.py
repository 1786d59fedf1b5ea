"""Positional encodings for transformers."""

from __future__ import annotations

import math

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["ALiBi", "RoPE", "SinusoidalPositionalEncoding"]


class RoPE(Module):
    """Rotary position embedding: (..., T, D) to the same shape.

    Args:
        dims: the number of features of the last axis to rotate.
        traditional: rotate neighbouring pairs; otherwise feature ``i`` with feature ``i + dims / 2``.
        base: the base of the angles' wavelengths.
        scale: factor on the positions.

    Raises:
        ValueError: at call time, if ``dims`` is odd or larger than the last axis.

    Example:
        >>> nn.RoPE(8)(mx.ones((1, 4, 8)), offset=3).shape
        (1, 4, 8)
    """

    def __init__(self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0) -> None:
        super().__init__()
        self.dims, self.traditional = dims, traditional
        self.base, self.scale = base, scale

    def _extra_repr(self) -> str:
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x: mx.array, offset: int = 0) -> mx.array:
        """Rotate the input; ``offset`` is the position of the first row."""
        angles = {"base": self.base, "scale": self.scale, "offset": offset}
        return mx.fast.rope(x, self.dims, traditional=self.traditional, **angles)


class SinusoidalPositionalEncoding(Module):
    """Sines and cosines of positions, with frequencies spaced evenly on a logarithmic scale: (...) to (..., dims).

    Args:
        dims: size of the encoding, even.
        min_freq: the lowest frequency.
        max_freq: the highest frequency.
        scale: factor on the encoding; default ``sqrt(2 / dims)``.
        cos_first: cosines before sines.
        full_turns: frequencies count turns instead of radians.

    Raises:
        ValueError: if ``dims`` is odd or not positive.

    Example:
        >>> nn.SinusoidalPositionalEncoding(8)(mx.arange(4)).shape
        (4, 8)
    """

    def __init__(
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ) -> None:
        super().__init__()
        if dims <= 0 or dims % 2 != 0:
            raise ValueError(f"[SinusoidalPositionalEncoding] dims must be positive and even but got {dims}.")
        half = dims // 2
        low, high = math.log(min_freq), math.log(max_freq)
        # A single frequency is the highest one.
        falling = 1 - mx.arange(0, half) / max(half - 1, 1)
        sigmas = mx.exp(falling * (high - low) + low)
        self._sigmas = sigmas * (2 * math.pi) if full_turns else sigmas
        self.scale = (2 / dims) ** 0.5 if scale is None else scale
        self.cos_first = cos_first

    def __call__(self, x: mx.array) -> mx.array:
        angles = x[..., None] * self._sigmas
        waves = [mx.sin(angles), mx.cos(angles)]
        if self.cos_first:
            waves.reverse()
        y = mx.concatenate(waves, axis=-1)
        return y if self.scale == 1 else y * self.scale


class ALiBi(Module):
    """A layer that adds a penalty to attention scores (B, heads, T, S), linear in the distance, with a slope per head.

    Raises:
        ValueError: at call time, for scores or a mask that do not broadcast with the penalties.
        IndexError: at call time, for scores with fewer than two axes.

    Example:
        >>> nn.ALiBi()(mx.zeros((1, 2, 4, 4)))[0, 0, 3]
        array([-0.1875, -0.125, -0.0625, 0], dtype=float32)
    """

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int,
        k_sequence_length: int,
        num_heads: int,
        offset: int = 0,
        dtype: mx.Dtype = mx.float32,
    ) -> mx.array:
        """Return the penalties, of shape (1, num_heads, q_sequence_length - offset, k_sequence_length)."""
        queries = mx.arange(offset, q_sequence_length)
        keys = mx.arange(0, k_sequence_length)
        distance = -mx.abs(queries[:, None] - keys[None, :])
        return (distance[None, None] * ALiBi.create_alibi_slope(num_heads=num_heads, dtype=dtype)).astype(dtype)

    @staticmethod
    def create_alibi_slope(num_heads: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """Return the slopes ``2 ** (-8 i / num_heads)`` for i from 1, of shape (num_heads, 1, 1).

        If the number of heads is not a power of two: the slopes for the next lower power, then every other slope for
        the next higher power.
        """
        lower = 2 ** math.floor(math.log2(num_heads))
        exponents = [i / lower for i in range(1, lower + 1)]
        exponents += [(i + 0.5) / lower for i in range(num_heads - lower)]
        return mx.array([2 ** (-8 * e) for e in exponents], dtype=dtype)[:, None, None]

    def __call__(self, attention_scores: mx.array, offset: int = 0, mask: mx.array | None = None) -> mx.array:
        """Add the penalties, and the ``mask`` if given; ``offset`` is the position of the first query."""
        shape = attention_scores.shape
        bias = ALiBi.create_alibi_matrix(
            q_sequence_length=shape[-2] + offset,
            k_sequence_length=shape[-1],
            num_heads=shape[1],
            offset=offset,
            dtype=attention_scores.dtype,
        )
        return attention_scores + (bias if mask is None else bias + mask)
