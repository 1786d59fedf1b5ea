"""Lookup tables."""

from __future__ import annotations

import math

import mxcompat.core as mx
from mxcompat.nn.layers._walk import read
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.quantized import QuantizedEmbedding

__all__ = ["Embedding"]


class Embedding(Module):
    """A table of vectors, looked up by integers: (...) to (..., dims).

    Parameter: ``weight`` (num_embeddings, dims), initialized from a normal distribution with standard deviation ``1 /
    sqrt(dims)``.

    Args:
        num_embeddings: the number of vectors.
        dims: the size of each vector.

    Raises:
        ValueError: at call time, for indices that are not integers.

    Example:
        >>> nn.Embedding(10, 4)(mx.array([1, 5])).shape
        (2, 4)
    """

    def __init__(self, num_embeddings: int, dims: int) -> None:
        super().__init__()
        self.weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))

    def _extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))

    def __call__(self, x: mx.array) -> mx.array:
        return read(self, "weight")[x]

    def as_linear(self, x: mx.array) -> mx.array:
        """Use the table as the weight of a linear layer, ``x @ weight.T``, for output layers that share it."""
        return x @ read(self, "weight").T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """Return the table as a quantized layer. The arguments are those of ``nn.Linear.to_quantized``.

        Raises:
            ValueError: if ``quantize_input`` is set, because indices cannot be quantized.
        """
        if quantize_input:
            raise ValueError("Quantized input is not supported.")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
