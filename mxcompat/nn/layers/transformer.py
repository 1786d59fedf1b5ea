"""Attention and the transformer of "Attention is all you need".

Encoder and decoder layers share one block, with one or two attentions. Encoder and decoder are stacks of such blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

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
        ValueError: if ``num_heads`` does not divide ``dims``; at call time, for an input of another size.

    Example:
        >>> x = mx.ones((2, 5, 8))
        >>> nn.MultiHeadAttention(8, 2)(x, x, x).shape
        (2, 5, 8)
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
        if dims % num_heads:
            raise ValueError(
                f"The input feature dimensions should be divisible by the number of heads ({dims} % {num_heads}) != 0"
            )
        self.num_heads = num_heads
        inner = value_dims or dims
        projections = {
            "query": (query_input_dims or dims, dims),
            "key": (key_input_dims or dims, dims),
            "value": (value_input_dims or key_input_dims or dims, inner),
            "out": (inner, value_output_dims or dims),
        }
        for name, (input_size, output_size) in projections.items():
            self[f"{name}_proj"] = Linear(input_size, output_size, bias)

    def _mx_project(self, name: str, x: mx.array) -> mx.array:
        """Project (B, L, features) and split it into heads: (B, heads, L, D)."""
        heads = mx.unflatten(getattr(self, name)(x), -1, (self.num_heads, -1))
        return heads.transpose(0, 2, 1, 3)

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None = None) -> mx.array:
        """Compute the attention.

        Args:
            queries: (B, L, query_input_dims).
            keys: (B, S, key_input_dims).
            values: (B, S, value_input_dims).
            mask: a mask that broadcasts to (B, heads, L, S). It is added to the scores; a boolean mask is true where
                attention is allowed.

        Returns:
            (B, L, value_output_dims).
        """
        named = {"query_proj": queries, "key_proj": keys, "value_proj": values}
        q, k, v = (self._mx_project(name, x) for name, x in named.items())
        heads = mx.fast.scaled_dot_product_attention(q, k, v, scale=math.sqrt(1 / q.shape[-1]), mask=mask)
        return self.out_proj(heads.transpose(0, 2, 1, 3).flatten(-2))

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """Return an (N, N) mask with zero on and below the diagonal and the lowest finite number above it."""
        places = mx.arange(N)
        later = places > mx.expand_dims(places, 1)
        return later.astype(dtype) * mx.finfo(dtype).min


class _Block(Module):
    """A block of attentions and a perceptron with one hidden layer. Each is a branch with normalization, dropout and a
    residual connection.

    The branches and their parts are numbered from 1: ``ln1``, ``dropout1``, ``ln2``, ...
    """

    _mx_attentions: ClassVar[tuple[str, ...]]

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
        branches = range(1, len(self._mx_attentions) + 2)
        hidden = mlp_dims or 4 * dims
        parts = {name: MultiHeadAttention(dims, num_heads) for name in self._mx_attentions}
        parts |= {f"ln{branch}": LayerNorm(dims) for branch in branches}
        parts |= {"linear1": Linear(dims, hidden), "linear2": Linear(hidden, dims)}
        parts |= {f"dropout{branch}": Dropout(dropout) for branch in branches}
        for name, part in parts.items():
            self[name] = part
        self.activation, self.norm_first = activation, norm_first

    def _mx_add(self, branch: int, x: mx.array, change: Callable[[mx.array], mx.array]) -> mx.array:
        """Add a branch to ``x``, with the branch's normalization before or after."""
        norm = getattr(self, f"ln{branch}")
        return x + change(norm(x)) if self.norm_first else norm(x + change(x))

    def _mx_attend(self, branch: int, x: mx.array, memory: mx.array | None, mask: mx.array | None) -> mx.array:
        """Add the attention of ``x`` to ``memory``, or to itself."""
        attention = getattr(self, self._mx_attentions[branch - 1])
        dropout = getattr(self, f"dropout{branch}")

        def change(y: mx.array) -> mx.array:
            source = y if memory is None else memory
            return dropout(attention(y, source, source, mask))

        return self._mx_add(branch, x, change)

    def _mx_perceive(self, x: mx.array) -> mx.array:
        """Add the perceptron, the last branch; its dropout acts on the hidden layer."""
        last = len(self._mx_attentions) + 1
        dropout = getattr(self, f"dropout{last}")
        return self._mx_add(last, x, lambda y: self.linear2(dropout(self.activation(self.linear1(y)))))


class _Stack(Module):
    """A stack of equal blocks and a final ``LayerNorm``."""

    _mx_block: ClassVar[type[_Block]]

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
        settings = (dims, num_heads, mlp_dims, dropout, activation, norm_first)
        self.layers = [self._mx_block(*settings) for _ in range(num_layers)]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def _mx_run(self, x: mx.array, *others: mx.array | None) -> mx.array:
        for block in map(checkpointed, self.layers) if self.checkpoint else self.layers:
            x = block(x, *others)
        return self.ln(x)


class TransformerEncoderLayer(_Block):
    """Self-attention and a two-layer perceptron, each with normalization, dropout and a residual connection.

    The inputs are x (B, L, dims), and a mask or None. The output is (B, L, dims).

    Args:
        dims: features of input and output.
        num_heads: number of attention heads.
        mlp_dims: hidden features of the perceptron; default ``4 * dims``.
        dropout: dropout probability.
        activation: the perceptron's activation function.
        norm_first: normalize before each part instead of after.

    Raises:
        ValueError: if ``num_heads`` does not divide ``dims``, or ``dropout`` is not in [0, 1); at call time, for an
            input of another size.

    Example:
        >>> nn.TransformerEncoderLayer(8, 2)(mx.ones((2, 5, 8)), None).shape
        (2, 5, 8)
    """

    _mx_attentions = ("attention",)

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        return self._mx_perceive(self._mx_attend(1, x, None, mask))


class TransformerEncoder(_Stack):
    """A stack of ``TransformerEncoderLayer`` and a final ``LayerNorm``: (B, L, dims) and a mask, or None, to (B, L,
    dims).

    Args:
        num_layers: the number of layers.
        dims: features of input and output.
        num_heads: number of attention heads.
        mlp_dims: hidden features of the perceptron; default ``4 * dims``.
        dropout: dropout probability.
        activation: the perceptron's activation function.
        norm_first: normalize before each part instead of after.
        checkpoint: recompute the layers' intermediate values in the backward pass instead of keeping them.

    Raises:
        ValueError: if ``num_heads`` does not divide ``dims``, or ``dropout`` is not in [0, 1); at call time, for an
            input of another size.

    Example:
        >>> nn.TransformerEncoder(1, 8, 2)(mx.ones((2, 5, 8)), None).shape
        (2, 5, 8)
    """

    _mx_block = TransformerEncoderLayer

    def __call__(self, x: mx.array, mask: mx.array | None) -> mx.array:
        return self._mx_run(x, mask)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to a memory and a perceptron.

    The inputs are x (B, L, dims), the memory (B, S, dims), and a mask or None for each of these. The output is (B, L,
    dims).

    Args:
        dims: features of input and output.
        num_heads: number of attention heads.
        mlp_dims: hidden features of the perceptron; default ``4 * dims``.
        dropout: dropout probability.
        activation: the perceptron's activation function.
        norm_first: normalize before each part instead of after.

    Raises:
        ValueError: if ``num_heads`` does not divide ``dims``, or ``dropout`` is not in [0, 1); at call time, for an
            input of another size.

    Example:
        >>> x, memory = mx.ones((2, 5, 8)), mx.ones((2, 7, 8))
        >>> nn.TransformerDecoderLayer(8, 2)(x, memory, None, None).shape
        (2, 5, 8)
    """

    _mx_attentions = ("self_attention", "cross_attention")

    def __call__(
        self, x: mx.array, memory: mx.array, x_mask: mx.array | None, memory_mask: mx.array | None
    ) -> mx.array:
        x = self._mx_attend(1, x, None, x_mask)
        return self._mx_perceive(self._mx_attend(2, x, memory, memory_mask))


class TransformerDecoder(_Stack):
    """A stack of ``TransformerDecoderLayer`` and a final ``LayerNorm``. Its call takes the arguments of the layer's.

    Args:
        num_layers: the number of layers.
        dims: features of input and output.
        num_heads: number of attention heads.
        mlp_dims: hidden features of the perceptron; default ``4 * dims``.
        dropout: dropout probability.
        activation: the perceptron's activation function.
        norm_first: normalize before each part instead of after.
        checkpoint: recompute the layers' intermediate values in the backward pass instead of keeping them.

    Raises:
        ValueError: if ``num_heads`` does not divide ``dims``, or ``dropout`` is not in [0, 1); at call time, for an
            input of another size.

    Example:
        >>> x, memory = mx.ones((2, 5, 8)), mx.ones((2, 7, 8))
        >>> nn.TransformerDecoder(1, 8, 2)(x, memory, None, None).shape
        (2, 5, 8)
    """

    _mx_block = TransformerDecoderLayer

    def __call__(
        self, x: mx.array, memory: mx.array, x_mask: mx.array | None, memory_mask: mx.array | None
    ) -> mx.array:
        return self._mx_run(x, memory, x_mask, memory_mask)


class Transformer(Module):
    """An encoder and a decoder: (B, S, dims), (B, T, dims) and three masks, or None, to (B, T, dims).

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

    Raises:
        ValueError: if ``num_heads`` does not divide ``dims``, or ``dropout`` is not in [0, 1); at call time, for an
            input of another size.

    Example:
        >>> source, target = mx.ones((2, 5, 8)), mx.ones((2, 7, 8))
        >>> model = nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1)
        >>> model(source, target, None, None, None).shape
        (2, 7, 8)
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
        # A module without parameters is an empty dictionary, which is false.
        self.encoder = TransformerEncoder(num_encoder_layers, *shared) if custom_encoder is None else custom_encoder
        self.decoder = TransformerDecoder(num_decoder_layers, *shared) if custom_decoder is None else custom_decoder

    def __call__(
        self,
        src: mx.array,
        tgt: mx.array,
        src_mask: mx.array | None,
        tgt_mask: mx.array | None,
        memory_mask: mx.array | None,
    ) -> mx.array:
        """Encode (B, S, dims), then decode (B, T, dims) to (B, T, dims)."""
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)
