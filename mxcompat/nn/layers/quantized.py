"""Layers with quantized weights, and ``quantize``, which quantizes the layers of a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mxcompat.core as mx
from mxcompat.nn.layers._walk import read
from mxcompat.nn.layers.base import Module
from mxcompat.utils import tree_map_with_path

__all__ = ["QQLinear", "QuantizedEmbedding", "QuantizedLinear", "QuantizedModule", "quantize", "uniform_weight"]

# For each mode, the group size and the number of bits per weight.
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
        group_size: the number of weights that share a scale; the default depends on the mode.
        bits: bits per weight; the default depends on the mode.
        mode: ``"affine"``, ``"mxfp4"``, ``"nvfp4"`` or ``"mxfp8"``.
        quantize_input: quantize inputs of linear layers too (modes ``nvfp4`` and ``mxfp8``).
        class_predicate: called as ``class_predicate(path, layer)`` for each leaf module; false leaves it, ``True``
            quantizes it, a dictionary does so with these arguments for its ``to_quantized``. Default: all layers that
            have ``to_quantized``.

    Raises:
        ValueError: if the predicate chose a layer without ``to_quantized`` or returned something else, or a layer does
            not support the settings. The model is then unchanged.

    Example:
        >>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        >>> nn.quantize(model, bits=8, class_predicate=lambda path, m: isinstance(m, nn.Linear))
        >>> type(model.layers[0]).__name__
        'QuantizedLinear'
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
            # Users' layers need not accept this argument.
            del settings["quantize_input"]
        return layer.to_quantized(**settings)

    leaves = model.leaf_modules()
    model.update_modules(tree_map_with_path(convert, leaves, is_leaf=Module.is_module))


class QuantizedModule(Module):
    """Base class of layers with a packed ``weight``, its ``scales``, in affine mode its ``biases``, and the
    quantization settings."""

    group_size: int
    bits: int
    mode: str

    def _mx_prepare(self, mode: str, group_size: int | None, bits: int | None) -> None:
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode

    @property
    def _mx_format(self) -> dict[str, Any]:
        """Return the arguments that ``mx.quantize`` and the functions that read its results share."""
        return {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}

    def _mx_described_format(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._mx_format.items())

    def _mx_pack(self, dense: mx.array, group_size: int | None, bits: int | None) -> None:
        """Quantize and store a dense weight."""
        self.weight, self.scales, self.biases = (*mx.quantize(dense, group_size, bits, mode=self.mode), None)[:3]

    def _mx_dense_shape(self) -> tuple[int, int]:
        """Return the shape of the weight before packing: (output_dims, input_dims)."""
        rows, words = read(self, "weight").shape
        return rows, words * 32 // self.bits

    def _mx_product(self, x: mx.array) -> mx.array:
        """Compute ``x @ weight.T``."""
        scales, biases = self["scales"], self.get("biases")
        return mx.quantized_matmul(x, self["weight"], scales=scales, biases=biases, transpose=True, **self._mx_format)


def uniform_weight(input_dims: int, *shape: int) -> mx.array:
    """Return the initial weight of a linear layer: uniform within ``1 / sqrt(input_dims)`` of zero."""
    limit = math.sqrt(1.0 / input_dims)
    return mx.random.uniform(low=-limit, high=limit, shape=shape)


class QuantizedEmbedding(QuantizedModule):
    """``nn.Embedding`` with a quantized table.

    Parameters (frozen): packed ``weight``, ``scales`` and, in affine mode, ``biases``.

    Args:
        num_embeddings: the number of vectors.
        dims: size of each.
        group_size: the number of weights that share a scale; the default depends on the mode.
        bits: bits per weight; the default depends on the mode.
        mode: the quantization mode.

    Raises:
        ValueError: for an unknown mode, bits or group size, or one that does not divide ``dims``; at call time, for
            indices that are not integers.

    Example:
        >>> nn.QuantizedEmbedding(10, 64)(mx.array([1, 2])).shape
        (2, 64)
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
        self._mx_prepare(mode, group_size, bits)
        self._mx_pack(mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims)), group_size, bits)
        self.num_embeddings, self.dims = num_embeddings, dims
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        biases = self["biases"][x] if "biases" in self else None
        return mx.dequantize(self["weight"][x], scales=self["scales"][x], biases=biases, **self._mx_format)

    def as_linear(self, x: mx.array) -> mx.array:
        """Use the table as the weight of a linear layer, for output layers that share it."""
        return self._mx_product(x)

    def _extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.dims}, {self._mx_described_format()}"

    @classmethod
    def from_embedding(
        cls, embedding_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "affine"
    ) -> QuantizedEmbedding:
        """Return a quantized copy of an ``nn.Embedding``."""
        table = embedding_layer.weight
        count, dims = table.shape
        layer = cls(count, dims, group_size, bits, mode=mode)
        layer._mx_pack(table, group_size, bits)
        return layer


class QuantizedLinear(QuantizedModule):
    """``nn.Linear`` with a quantized weight.

    Parameters (frozen): packed ``weight``, ``scales``, in affine mode ``biases``, and ``bias`` (output_dims,).

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.
        group_size: the number of weights that share a scale; the default depends on the mode.
        bits: bits per weight; the default depends on the mode.
        mode: the quantization mode.

    Raises:
        ValueError: for an unknown mode, bits or group size, or one that does not divide ``input_dims``; at call time,
            for an input of another size.

    Example:
        >>> nn.QuantizedLinear(64, 8)(mx.ones((2, 64))).shape
        (2, 8)
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
        self._mx_prepare(mode, group_size, bits)
        self._mx_pack(uniform_weight(input_dims, output_dims, input_dims), group_size, bits)
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        rows, columns = self._mx_dense_shape()
        return f"input_dims={columns}, output_dims={rows}, bias={'bias' in self}, {self._mx_described_format()}"

    def __call__(self, x: mx.array) -> mx.array:
        product = self._mx_product(x)
        return product + self["bias"] if "bias" in self else product

    @classmethod
    def from_linear(
        cls, linear_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "affine"
    ) -> QuantizedLinear:
        """Return a quantized copy of an ``nn.Linear``; its bias stays trainable."""
        dense = linear_layer.weight
        layer = cls(dense.shape[1], dense.shape[0], False, group_size, bits, mode=mode)
        layer._mx_pack(dense, group_size, bits)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        return layer


class QQLinear(QuantizedModule):
    """A linear layer without bias that quantizes its input as well as its weight.

    In training mode ``weight`` is dense and trainable. ``eval()`` calls :meth:`quantize`, which packs it and adds
    ``scales``. ``train()`` calls :meth:`dequantize`, which unpacks it, up to rounding.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the output.
        group_size: the number of values that share a scale; the default depends on the mode.
        bits: bits per value; the default depends on the mode.
        mode: ``"nvfp4"`` or ``"mxfp8"``.

    Raises:
        ValueError: for an unknown mode; when packing, for a group size that does not divide ``input_dims``, or mode
            ``affine``; at call time, for an input of another size.

    Example:
        >>> layer = nn.QQLinear(64, 32).eval()
        >>> layer(mx.ones((2, 64), dtype=mx.bfloat16)).shape
        (2, 32)
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
        self._mx_prepare(mode, group_size, bits)
        self.weight = uniform_weight(input_dims, output_dims, input_dims)
        self._quantized = False

    def _extra_repr(self) -> str:
        rows, columns = self._mx_dense_shape() if self._quantized else self.weight.shape
        return f"input_dims={columns}, output_dims={rows}, {self._mx_described_format()}"

    def quantize(self) -> None:
        """Pack the weight, unless it is packed."""
        if self._quantized:
            return
        self.weight, self.scales = mx.quantize(self.weight, self.group_size, self.bits, mode=self.mode)
        self._quantized = True

    def dequantize(self) -> None:
        """Unpack the weight, if it is packed."""
        if not self._quantized:
            return
        self.weight = mx.dequantize(self.weight, scales=self.pop("scales"), **self._mx_format)
        self._quantized = False

    def _set_training_mode(self, mode: bool) -> None:
        super()._set_training_mode(mode)
        (self.dequantize if mode else self.quantize)()

    def __call__(self, x: mx.array) -> mx.array:
        return mx.qqmm(x, self["weight"], scales=self.get("scales"), **self._mx_format)

    @classmethod
    def from_linear(
        cls, linear_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "nvfp4"
    ) -> QQLinear:
        """Convert an ``nn.Linear`` without bias to this layer.

        Raises:
            NotImplementedError: if the layer has a bias.
        """
        if "bias" in linear_layer:
            raise NotImplementedError("QQLinear does not support bias yet.")
        dense = linear_layer.weight
        layer = cls(dense.shape[1], dense.shape[0], group_size, bits, mode=mode)
        layer.weight = dense
        layer.train(linear_layer.training)
        return layer
