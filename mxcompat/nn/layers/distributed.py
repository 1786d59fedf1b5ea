"""Layers whose parameters are spread over the members of a distributed group.

A member holds the slice of each parameter that belongs to its rank. With a group of one (the only kind a single
process has) everything here computes what the plain layers compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mxcompat.core as mx
from mxcompat.nn.layers._fsdp import FullyShardedModule, fully_shard
from mxcompat.nn.layers._sharding import _all_to_sharded, _shard, _sharded_to_all, sum_gradients
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.linear import Linear

__all__ = [
    "AllToShardedLinear",
    "FullyShardedModule",
    "QuantizedAllToShardedLinear",
    "QuantizedShardedToAllLinear",
    "ShardedToAllLinear",
    "fully_shard",
    "shard_inplace",
    "shard_linear",
]

_KINDS = ("all-to-sharded", "sharded-to-all")


def _check_sharding(sharding: Any) -> None:
    if sharding not in _KINDS:
        raise ValueError(f"Sharding type {sharding=} not supported, choose one of 'all-to-sharded' or 'sharded-to-all'")


def shard_inplace(
    module: Module,
    sharding: str | Callable,
    *,
    segments: int | list = 1,
    group: mx.distributed.Group | None = None,
) -> None:
    """Replace the parameters of a module by this rank's slices. The module itself must do the communication.

    Args:
        module: the module.
        sharding: ``"all-to-sharded"``, ``"sharded-to-all"`` or a function of path and weight that returns ``None``,
            an axis, or an axis and segments.
        segments: for the named kinds: how many matrices are fused into one (or where each begins).
        group: the group; default the global one.

    Raises:
        ValueError: an unknown kind, or the function returned something else.
    """
    if not callable(sharding):
        _check_sharding(sharding)
        sharding = _all_to_sharded(segments) if sharding == _KINDS[0] else _sharded_to_all(segments)
    module.update(_shard(module.parameters(), sharding, group))


def shard_linear(
    module: Module,
    sharding: str,
    *,
    segments: int | list = 1,
    group: mx.distributed.Group | None = None,
) -> Module:
    """A new layer that holds this rank's slice of a linear layer (quantized or not) and communicates.

    Args:
        module: the linear layer.
        sharding: ``"all-to-sharded"`` or ``"sharded-to-all"``.
        segments: how many matrices are fused into one (or where each begins).
        group: the group; default the global one.

    Raises:
        ValueError: an unknown kind.
    """
    _check_sharding(sharding)
    if isinstance(module, Linear):
        cls = AllToShardedLinear if sharding == _KINDS[0] else ShardedToAllLinear
        return cls.from_linear(module, segments=segments, group=group)
    cls = QuantizedAllToShardedLinear if sharding == _KINDS[0] else QuantizedShardedToAllLinear
    return cls.from_quantized_linear(module, segments=segments, group=group)


def _check_output(output_dims: int, size: int) -> None:
    if output_dims % size != 0:
        raise ValueError(f"Cannot shard the output of size {output_dims} across {size} devices.")


def _check_input(input_dims: int, size: int) -> None:
    if input_dims % size != 0:
        raise ValueError(f"The input of size {input_dims} cannot be sharded across {size} devices.")


def _uniform(limit: float, *shape: int) -> mx.array:
    return mx.random.uniform(low=-limit, high=limit, shape=shape)


class AllToShardedLinear(Module):
    """A linear layer from a whole input to this rank's slice of the output features.

    Args:
        input_dims: features of the input.
        output_dims: features of the output, of all ranks together.
        bias: whether to add a bias.
        group: the group; default the global one.

    Raises:
        ValueError: the group's size does not divide ``output_dims``.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        self.group = group or mx.distributed.init()
        size = self.group.size()
        _check_output(output_dims, size)
        limit = math.sqrt(1.0 / input_dims)
        self.weight = _uniform(limit, output_dims // size, input_dims)
        if bias:
            self.bias = _uniform(limit, output_dims // size)

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        output_dims *= self.group.size()
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        x = sum_gradients(self.group)(x)
        weight = self["weight"]
        return mx.addmm(self["bias"], x, weight.T) if "bias" in self else x @ weight.T

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        *,
        segments: int | list = 1,
        group: mx.distributed.Group | None = None,
    ) -> AllToShardedLinear:
        """This rank's slice of an ``nn.Linear``."""
        group = group or mx.distributed.init()
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        layer.update(_shard(linear_layer.parameters(), _all_to_sharded(segments), group))
        return layer


class ShardedToAllLinear(Module):
    """A linear layer from this rank's slice of the input features to the whole output, summed over the group.

    Args:
        input_dims: features of the input, of all ranks together.
        output_dims: features of the output.
        bias: whether to add a bias.
        group: the group; default the global one.

    Raises:
        ValueError: the group's size does not divide ``input_dims``.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        self.group = group or mx.distributed.init()
        size = self.group.size()
        _check_input(input_dims, size)
        limit = math.sqrt(1.0 / input_dims)
        self.weight = _uniform(limit, output_dims, input_dims // size)
        if bias:
            self.bias = _uniform(limit, output_dims)

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        input_dims *= self.group.size()
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(x @ self["weight"].T, group=self.group)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        *,
        segments: int | list = 1,
        group: mx.distributed.Group | None = None,
    ) -> ShardedToAllLinear:
        """This rank's slice of an ``nn.Linear``."""
        group = group or mx.distributed.init()
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        layer.update(_shard(linear_layer.parameters(), _sharded_to_all(segments), group))
        return layer


class _QuantizedSharded(Module):
    """What the two quantized layers share: frozen parameters, settings, the product."""

    def _set_up(
        self, shape: tuple[int, int], bias: bool, settings: tuple[int, int, str], limit: float, group: Any
    ) -> None:
        self.group_size, self.bits, self.mode = settings
        self.group = group
        self.weight, self.scales, *biases = mx.quantize(
            _uniform(limit, *shape), self.group_size, self.bits, mode=self.mode
        )
        self.biases = biases[0] if biases else None
        if bias:
            self.bias = mx.zeros((shape[0],))
        self.freeze()

    def unfreeze(self, *args, **kwargs) -> None:
        """Unfreeze sub-modules only: quantized parameters stay frozen."""
        super().unfreeze(*args, **kwargs)
        self.freeze(recurse=False)

    def _dims(self) -> tuple[int, int]:
        """Input and output features that this rank holds."""
        output_dims, words = self.weight.shape
        return words * 32 // self.bits, output_dims

    def _describe(self, input_dims: int, output_dims: int) -> str:
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def _product(self, x: mx.array) -> mx.array:
        return mx.quantized_matmul(
            x,
            self["weight"],
            scales=self["scales"],
            biases=self.get("biases"),
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def _from_quantized(cls: Any, layer: Module, sharding: Callable, group: Any) -> Any:
        group = group or mx.distributed.init()
        output_dims, words = layer.weight.shape
        new = cls(
            words * 32 // layer.bits,
            output_dims,
            "bias" in layer,
            group_size=layer.group_size,
            bits=layer.bits,
            mode=layer.mode,
            group=group,
        )
        new.update(_shard(layer.parameters(), sharding, group))
        return new


class QuantizedAllToShardedLinear(_QuantizedSharded):
    """``AllToShardedLinear`` with a quantized weight.

    Args:
        input_dims: features of the input.
        output_dims: features of the output, of all ranks together.
        bias: whether to add a bias.
        group_size: how many weights share a scale.
        bits: bits per weight.
        mode: the quantization mode.
        group: the group; default the global one.

    Raises:
        ValueError: the group's size does not divide ``output_dims``.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        group = group or mx.distributed.init()
        _check_output(output_dims, group.size())
        shape = (output_dims // group.size(), input_dims)
        self._set_up(shape, bias, (group_size, bits, mode), math.sqrt(1 / input_dims), group)

    def _extra_repr(self) -> str:
        input_dims, output_dims = self._dims()
        return self._describe(input_dims, output_dims * self.group.size())

    def __call__(self, x: mx.array) -> mx.array:
        y = self._product(sum_gradients(self.group)(x))
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls,
        quantized_linear_layer: Module,
        *,
        segments: int | list = 1,
        group: mx.distributed.Group | None = None,
    ) -> QuantizedAllToShardedLinear:
        """This rank's slice of an ``nn.QuantizedLinear``."""
        return cls._from_quantized(quantized_linear_layer, _all_to_sharded(segments), group)


class QuantizedShardedToAllLinear(_QuantizedSharded):
    """``ShardedToAllLinear`` with a quantized weight; arguments as for ``QuantizedAllToShardedLinear``.

    Raises:
        ValueError: the group's size does not divide ``input_dims``.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: mx.distributed.Group | None = None,
    ) -> None:
        super().__init__()
        group = group or mx.distributed.init()
        _check_input(input_dims, group.size())
        shape = (output_dims, input_dims // group.size())
        self._set_up(shape, bias, (group_size, bits, mode), math.sqrt(1 / input_dims), group)

    def _extra_repr(self) -> str:
        input_dims, output_dims = self._dims()
        return self._describe(input_dims * self.group.size(), output_dims)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(self._product(x), group=self.group)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls,
        quantized_linear_layer: Module,
        *,
        segments: int | list = 1,
        group: mx.distributed.Group | None = None,
    ) -> QuantizedShardedToAllLinear:
        """This rank's slice of an ``nn.QuantizedLinear``."""
        return cls._from_quantized(quantized_linear_layer, _sharded_to_all(segments), group)
