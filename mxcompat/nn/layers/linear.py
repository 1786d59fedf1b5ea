"""Affine layers: identity, linear, bilinear."""

from __future__ import annotations

from typing import Any

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.quantized import QQLinear, QuantizedLinear, uniform_weight

__all__ = ["Bilinear", "Identity", "Linear", "affine"]


def affine(x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    """Compute ``x @ weight.T + bias``."""
    return x @ weight.T if bias is None else mx.addmm(bias, x, weight.T)


class Identity(Module):
    """A layer that returns its input.

    Args:
        *args: ignored.
        **kwargs: ignored.

    Example:
        >>> nn.Identity(64, unused=True)(mx.array([1.0, 2.0]))
        array([1, 2], dtype=float32)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    """A linear layer, ``y = x @ weight.T + bias``: (..., input_dims) to (..., output_dims).

    Parameters: ``weight`` (output_dims, input_dims) and ``bias`` (output_dims,), both initialized uniformly within ``1
    / sqrt(input_dims)`` of zero.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for an input of another size.

    Example:
        >>> nn.Linear(3, 5)(mx.ones((2, 3))).shape
        (2, 5)
    """

    def __init__(self, input_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = uniform_weight(input_dims, output_dims, input_dims)
        if bias:
            self.bias = uniform_weight(input_dims, output_dims)

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        return affine(x, self["weight"], self.get("bias"))

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> Module:
        """Return the layer with quantized weights.

        Args:
            group_size: the number of weights that share a scale; the default depends on the mode.
            bits: bits per weight; the default depends on the mode.
            mode: the quantization mode.
            quantize_input: quantize the input too (a ``QQLinear``; modes ``nvfp4`` and ``mxfp8`` only).

        Raises:
            ValueError: if ``quantize_input`` is set in another mode.
        """
        if not quantize_input:
            return QuantizedLinear.from_linear(self, group_size, bits, mode)
        if mode not in ("nvfp4", "mxfp8"):
            raise ValueError(f"Quantized activations are only supported for 'nvfp4' and 'mxfp8' modes, got {mode}.")
        return QQLinear.from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    """A bilinear layer, ``y[o] = x1 @ weight[o].T @ x2 + bias[o]``: (..., input1_dims) and (..., input2_dims) to (...,
    output_dims).

    Parameters: ``weight`` (output_dims, input2_dims, input1_dims) and ``bias`` (output_dims,).

    Args:
        input1_dims: size of the last axis of the first input.
        input2_dims: size of the last axis of the second input.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for inputs of other sizes.

    Example:
        >>> nn.Bilinear(2, 3, 5)(mx.ones((4, 2)), mx.ones((4, 3))).shape
        (4, 5)
    """

    def __init__(self, input1_dims: int, input2_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = uniform_weight(input1_dims, output_dims, input2_dims, input1_dims)
        if bias:
            self.bias = uniform_weight(input1_dims, output_dims)

    def _extra_repr(self) -> str:
        output_dims, input2_dims, input1_dims = self.weight.shape
        return f"input1_dims={input1_dims}, input2_dims={input2_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        output_dims, input2_dims, input1_dims = self.weight.shape
        batch = x1.shape[:-1]
        x1, x2 = x1.reshape(-1, input1_dims), x2.reshape(-1, 1, input2_dims)
        rows = x1 @ self.weight.reshape(-1, input1_dims).T
        y = x2 @ rows.reshape(-1, output_dims, input2_dims).swapaxes(-2, -1)
        y = y.reshape(*batch, output_dims)
        return y + self.bias if "bias" in self else y
