"""Attention and the transformer of "Attention is all you need"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mxcompat.core as mx
from mxcompat.nn.layers.activations import relu
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.dropout import Dropout
from mxcompat.nn.layers.linear import Linear
from mxcompat.nn.layers.normalization import LayerNorm
from mxcompat.nn.utils import checkpoint as checkpointed

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class MultiHeadAttention(Module):
    """Scaled dot product attention with several heads and learned projections.

    Sub-modules: ``query_proj``, ``key_proj``, ``value_proj`` and ``out_proj``, all ``Linear``.

    Args:
        dims: size of all heads together.
        num_heads: number of heads.
        query_input_dims: features of the queries; default ``dims``.
        key_input_dims: features of the keys; default ``dims``.
        value_input_dims: features of the values; default those of the keys.
        value_dims: size of the projected values of all heads together; default ``dims``.
        value_output_dims: features of the output; default ``dims``.
        bias: whether the projections add a bias.

    Raises:
        ValueError: ``num_heads`` does not divide ``dims``.
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if dims % num_heads != 0:
            raise ValueError(
                f"The input feature dimensions should be divisible by the number of heads ({dims} % {num_heads}) != 0"
            )
        query_input_dims = query_input_dims or dims
        key_input_dims = key_input_dims or dims
        value_input_dims = value_input_dims or key_input_dims
        value_dims = value_dims or dims
        value_output_dims = value_output_dims or dims
        self.num_heads = num_heads
        self.query_proj = Linear(query_input_dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims, bias=bias)

    def _heads(self, x: mx.array) -> mx.array:
        """(B, L, heads * D) as (B, heads, L, D)."""
        return mx.unflatten(x, -1, (self.num_heads, -1)).transpose(0, 2, 1, 3)

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None = None) -> mx.array:
        """Attend.

        Args:
            queries: (B, L, query_input_dims).
            keys: (B, S, key_input_dims).
            values: (B, S, value_input_dims).
            mask: broadcastable to (B, heads, L, S): additive, or boolean with true where to attend.

        Returns:
            (B, L, value_output_dims).
        """
        queries = self._heads(self.query_proj(queries))
        keys = self._heads(self.key_proj(keys))
        values = self._heads(self.value_proj(values))
        scale = math.sqrt(1 / queries.shape[-1])
        output = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)
        return self.out_proj(output.transpose(0, 2, 1, 3).flatten(-2, -1))

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """(N, N): zero on and below the diagonal, the lowest finite number above it."""
        places = mx.arange(N)
        later = places[:, None] < places[None]
        return later.astype(dtype) * mx.finfo(dtype).min


class TransformerEncoderLayer(Module):
    """Self-attention and a two-layer perceptron, each with normalization, dropout and a residual connection.

    Args:
        dims: features of input and output.
        num_heads: number of attention heads.
        mlp_dims: hidden features of the perceptron; default ``4 * dims``.
        dropout: dropout probability.
        activation: the perceptron's activation function.
        norm_first: normalize before each part instead of after.
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def _mlp(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout2(self.activation(self.linear1(x))))

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.attention(y, y, y, mask))
            return x + self._mlp(self.ln2(x))
        x = self.ln1(x + self.dropout1(self.attention(x, x, x, mask)))
        return self.ln2(x + self._mlp(x))


class TransformerEncoder(Module):
    """A stack of ``TransformerEncoderLayer`` and a final ``LayerNorm``.

    Args:
        num_layers: how many layers.
        checkpoint: recompute the layers' intermediate values in the backward pass instead of keeping them.

    The other arguments are those of the layer.
    """

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            TransformerEncoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        for layer in self.layers:
            call = checkpointed(layer) if self.checkpoint else layer
            x = call(x, mask)
        return self.ln(x)


class TransformerDecoderLayer(Module):
    """Self-attention, attention to a memory and a perceptron; arguments as for ``TransformerEncoderLayer``."""

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.ln3 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def _mlp(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout3(self.activation(self.linear1(x))))

    def __call__(
        self,
        x: mx.array,
        memory: mx.array,
        x_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.self_attention(y, y, y, x_mask))
            x = x + self.dropout2(self.cross_attention(self.ln2(x), memory, memory, memory_mask))
            return x + self._mlp(self.ln3(x))
        x = self.ln1(x + self.dropout1(self.self_attention(x, x, x, x_mask)))
        x = self.ln2(x + self.dropout2(self.cross_attention(x, memory, memory, memory_mask)))
        return self.ln3(x + self._mlp(x))


class TransformerDecoder(Module):
    """A stack of ``TransformerDecoderLayer`` and a final ``LayerNorm``; arguments as for ``TransformerEncoder``."""

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            TransformerDecoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(
        self,
        x: mx.array,
        memory: mx.array,
        x_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        for layer in self.layers:
            call = checkpointed(layer) if self.checkpoint else layer
            x = call(x, memory, x_mask, memory_mask)
        return self.ln(x)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        dims: features of source and target.
        num_heads: number of attention heads.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        mlp_dims: hidden features of the perceptrons; default ``4 * dims``.
        dropout: dropout probability.
        activation: the perceptrons' activation function.
        custom_encoder: used instead of a ``TransformerEncoder``.
        custom_decoder: used instead of a ``TransformerDecoder``.
        norm_first: normalize before each part instead of after.
        checkpoint: recompute intermediate values in the backward pass.
    """

    def __init__(
        self,
        dims: int = 512,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        shared = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
        self.encoder = custom_encoder or TransformerEncoder(num_encoder_layers, *shared)
        self.decoder = custom_decoder or TransformerDecoder(num_decoder_layers, *shared)

    def __call__(
        self,
        src: mx.array,
        tgt: mx.array,
        src_mask: mx.array | None,
        tgt_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        """Encode (B, S, dims), decode (B, T, dims) to (B, T, dims)."""
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)
