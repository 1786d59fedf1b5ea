"""Layers with quantized weights, and ``quantize``, which puts them into a model."""

from __future__ import annotations

import math
from collections.abc import Callable

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module
from mxcompat.utils import tree_map_with_path

__all__ = ["QQLinear", "QuantizedEmbedding", "QuantizedLinear", "quantize"]

# Per mode: group size and bits per weight.
_DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}


def _defaults_for_mode(mode: str, group_size: int | None, bits: int | None) -> tuple[int, int]:
    if mode not in _DEFAULTS:
        raise ValueError(f"Invalid quantization mode '{mode}'. Valid modes are: {', '.join(_DEFAULTS)}.")
    default_group_size, default_bits = _DEFAULTS[mode]
    return group_size or default_group_size, bits or default_bits


def quantize(
    model: Module,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict] | None = None,
) -> None:
    """Replace layers of a model, in place, by their quantized forms.

    Args:
        model: the model.
        group_size: how many weights share a scale; default that of the mode.
        bits: bits per weight; default that of the mode.
        mode: ``"affine"``, ``"mxfp4"``, ``"nvfp4"`` or ``"mxfp8"``.
        quantize_input: quantize inputs of linear layers too (modes ``nvfp4`` and ``mxfp8``).
        class_predicate: called as ``class_predicate(path, layer)`` for each leaf module; false leaves it, ``True``
            quantizes it, a dictionary does so with these arguments for its ``to_quantized``. Default: all layers
            that have ``to_quantized``.

    Raises:
        ValueError: the predicate chose a layer without ``to_quantized`` or returned something else, or a layer does
            not support the settings. The model is then unchanged.

    Example:
        >>> nn.quantize(model, bits=8, class_predicate=lambda path, m: isinstance(m, nn.Linear))
    """
    choose = class_predicate or (lambda _, layer: hasattr(layer, "to_quantized"))

    def convert(path: str, layer: Module) -> Module:
        choice = choose(path, layer)
        if not choice:
            return layer
        if not hasattr(layer, "to_quantized"):
            raise ValueError(f"Unable to quantize model of type {type(layer)}")
        if isinstance(choice, bool):
            settings = {"group_size": group_size, "bits": bits, "mode": mode, "quantize_input": quantize_input}
        elif isinstance(choice, dict):
            settings = dict(choice)
        else:
            raise ValueError(
                "``class_predicate`` must return a bool or a dict of parameters to pass to ``to_quantized``"
            )
        if not settings.get("quantize_input", True):
            # Layers of users need not know this argument.
            del settings["quantize_input"]
        return layer.to_quantized(**settings)

    model.update_modules(tree_map_with_path(convert, model.leaf_modules(), is_leaf=Module.is_module))


class QuantizedEmbedding(Module):
    """``nn.Embedding`` with a quantized table.

    Parameters (frozen): packed ``weight``, ``scales`` and, in affine mode, ``biases``.

    Args:
        num_embeddings: how many vectors.
        dims: size of each.
        group_size: how many weights share a scale; default that of the mode.
        bits: bits per weight; default that of the mode.
        mode: the quantization mode.
    """

    def __init__(
        self,
        num_embeddings: int,
        dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode
        weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))
        self.weight, self.scales, *biases = mx.quantize(weight, group_size, bits, mode=mode)
        self.biases = biases[0] if biases else None
        self.num_embeddings = num_embeddings
        self.dims = dims
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][x],
            scales=self["scales"][x],
            biases=None if biases is None else biases[x],
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        """Use the table as the weight of a linear layer (for tied output layers)."""
        return _quantized_product(self, x)

    def _extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.dims}, group_size={self.group_size}, bits={self.bits}, mode={self.mode}"

    @classmethod
    def from_embedding(
        cls,
        embedding_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> QuantizedEmbedding:
        """A quantized copy of an ``nn.Embedding``."""
        count, dims = embedding_layer.weight.shape
        layer = cls(count, dims, group_size, bits, mode=mode)
        layer.weight, layer.scales, *biases = mx.quantize(embedding_layer.weight, group_size, bits, mode=mode)
        layer.biases = biases[0] if biases else None
        return layer


def _quantized_product(layer: Module, x: mx.array) -> mx.array:
    """``x @ weight.T`` for a layer that has the quantized weight and its settings."""
    return mx.quantized_matmul(
        x,
        layer["weight"],
        scales=layer["scales"],
        biases=layer.get("biases"),
        transpose=True,
        group_size=layer.group_size,
        bits=layer.bits,
        mode=layer.mode,
    )


class QuantizedLinear(Module):
    """``nn.Linear`` with a quantized weight.

    Parameters (frozen): packed ``weight``, ``scales``, in affine mode ``biases``, and ``bias`` (output_dims,).

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.
        group_size: how many weights share a scale; default that of the mode.
        bits: bits per weight; default that of the mode.
        mode: the quantization mode.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode
        limit = math.sqrt(1 / input_dims)
        weight = mx.random.uniform(low=-limit, high=limit, shape=(output_dims, input_dims))
        self.weight, self.scales, *biases = mx.quantize(weight, group_size, bits, mode=mode)
        self.biases = biases[0] if biases else None
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        output_dims, words = self.weight.shape
        return (
            f"input_dims={words * 32 // self.bits}, output_dims={output_dims}, bias={'bias' in self}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = _quantized_product(self, x)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> QuantizedLinear:
        """A quantized copy of an ``nn.Linear`` (its bias stays trainable)."""
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, False, group_size, bits, mode=mode)
        layer.weight, layer.scales, *biases = mx.quantize(linear_layer.weight, group_size, bits, mode=mode)
        layer.biases = biases[0] if biases else None
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        return layer


class QQLinear(Module):
    """A linear layer without bias that quantizes its input as well as its weight.

    In training mode ``weight`` is dense and trainable; :meth:`quantize` (done by ``eval()``) packs it and adds
    ``scales``, :meth:`dequantize` (done by ``train()``) undoes that, up to rounding.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the output.
        group_size: how many values share a scale; default that of the mode.
        bits: bits per value; default that of the mode.
        mode: ``"nvfp4"`` or ``"mxfp8"``.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode
        limit = math.sqrt(1 / input_dims)
        self.weight = mx.random.uniform(low=-limit, high=limit, shape=(output_dims, input_dims))
        self._quantized = False

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        if self._quantized:
            input_dims = input_dims * 32 // self.bits
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def quantize(self) -> None:
        """Pack the weight, if it is not."""
        if not self._quantized:
            self.weight, self.scales = mx.quantize(self.weight, self.group_size, self.bits, mode=self.mode)
            self._quantized = True

    def dequantize(self) -> None:
        """Unpack the weight, if it is packed."""
        if self._quantized:
            self.weight = mx.dequantize(
                self.weight,
                scales=self.scales,
                group_size=self.group_size,
                bits=self.bits,
                mode=self.mode,
            )
            del self.scales
            self._quantized = False

    def _set_training_mode(self, mode: bool) -> None:
        super()._set_training_mode(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()

    def __call__(self, x: mx.array) -> mx.array:
        return mx.qqmm(
            x,
            self["weight"],
            scales=self.get("scales"),
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> QQLinear:
        """The same layer as an ``nn.Linear`` without bias.

        Raises:
            NotImplementedError: the layer has a bias.
        """
        if "bias" in linear_layer:
            raise NotImplementedError("QQLinear does not support bias yet.")
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, group_size, bits, mode=mode)
        layer.weight = linear_layer.weight
        layer.train(linear_layer.training)
        return layer
