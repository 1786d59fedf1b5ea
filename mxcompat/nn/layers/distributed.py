"""Layers whose parameters are sharded over the ranks of a distributed group.

Each rank holds its slice of each parameter. In a group of one rank, the layers compute the same as the plain layers. (A
single process has only such a group.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import mxcompat.core as mx
from mxcompat.nn.layers._fsdp import FullyShardedModule, fully_shard
from mxcompat.nn.layers._sharding import all_to_sharded, shard, sharded_to_all, sum_gradients
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.linear import Linear, affine
from mxcompat.nn.layers.quantized import QuantizedModule, uniform_weight

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
    """Replace the parameters of a module by this rank's slices. The module itself must communicate.

    Args:
        module: the module.
        sharding: ``"all-to-sharded"``, ``"sharded-to-all"`` or a function of path and weight that returns ``None``, an
            axis, or an axis and segments.
        segments: for the named kinds: the number of matrices that are fused into one (or where each begins).
        group: the group; the default is the global group.

    Raises:
        ValueError: for an unknown kind, or if the function returned another kind of value.
    """
    if isinstance(sharding, str):
        _check_sharding(sharding)
        sharding = all_to_sharded(segments) if sharding == _KINDS[0] else sharded_to_all(segments)
    module.update(shard(module.parameters(), sharding, group))


def shard_linear(
    module: Module,
    sharding: str,
    *,
    segments: int | list = 1,
    group: mx.distributed.Group | None = None,
) -> Module:
    """Return a new layer that holds this rank's slice of a linear layer (quantized or not) and communicates.

    Args:
        module: the linear layer.
        sharding: ``"all-to-sharded"`` or ``"sharded-to-all"``.
        segments: the number of matrices that are fused into one (or where each begins).
        group: the group; the default is the global group.

    Raises:
        ValueError: for an unknown kind.
    """
    _check_sharding(sharding)
    if isinstance(module, Linear):
        cls = AllToShardedLinear if sharding == _KINDS[0] else ShardedToAllLinear
        return cls.from_linear(module, segments=segments, group=group)
    cls = QuantizedAllToShardedLinear if sharding == _KINDS[0] else QuantizedShardedToAllLinear
    return cls.from_quantized_linear(module, segments=segments, group=group)


class _Sharded(Module):
    """Base class of linear layers whose weight is sliced along one axis.

    ``_mx_axis`` is that axis in the weight's shape (output_dims, input_dims). ``_mx_refusal`` is the error message if
    the group's size does not divide the axis. ``_mx_slices`` makes the function that slices a whole layer's parameters.
    """

    group: mx.distributed.Group
    _mx_axis: ClassVar[int]
    _mx_refusal: ClassVar[str]
    _mx_slices: ClassVar[Callable[[int | list], Callable]]

    def _mx_join(self, group: mx.distributed.Group | None, input_dims: int, output_dims: int) -> tuple[int, int]:
        """Return the shape of this rank's slice of the weight, after joining the group."""
        self.group = group or mx.distributed.init()
        shape, members = [output_dims, input_dims], self.group.size()
        if shape[self._mx_axis] % members:
            raise ValueError(self._mx_refusal.format(shape[self._mx_axis], members))
        shape[self._mx_axis] //= members
        return shape[0], shape[1]

    def _mx_held_shape(self) -> tuple[int, int]:
        """Return the shape of this rank's slice of the weight."""
        return self.weight.shape

    def _extra_repr(self) -> str:
        shape = list(self._mx_held_shape())
        shape[self._mx_axis] *= self.group.size()
        return f"input_dims={shape[1]}, output_dims={shape[0]}, bias={'bias' in self}"

    def _mx_take(self, parameters: dict, segments: int | list) -> Any:
        """Take this rank's slice of a layer with these parameters."""
        self.update(shard(parameters, type(self)._mx_slices(segments), self.group))
        return self


class _AllToSharded(_Sharded):
    """Base class for sliced output features. All ranks have the whole input; its gradient is summed over the group."""

    _mx_axis = 0
    _mx_refusal = "Cannot shard the output of size {} across {} devices."
    _mx_slices = staticmethod(all_to_sharded)


class _ShardedToAll(_Sharded):
    """Base class for sliced input features. Each rank's output is a part of the sum over the group."""

    _mx_axis = 1
    _mx_refusal = "The input of size {} cannot be sharded across {} devices."
    _mx_slices = staticmethod(sharded_to_all)

    def _mx_summed(self, part: mx.array) -> mx.array:
        total = mx.distributed.all_sum(part, group=self.group)
        return total + self["bias"] if "bias" in self else total


class _ShardedLinear(_Sharded):
    """A sharded layer whose weight is not quantized."""

    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: mx.distributed.Group | None = None
    ) -> None:
        super().__init__()
        shape = self._mx_join(group, input_dims, output_dims)
        self.weight = uniform_weight(input_dims, *shape)
        if bias:
            self.bias = uniform_weight(input_dims, shape[0])

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: int | list = 1, group: mx.distributed.Group | None = None
    ) -> Any:
        """Return this rank's slice of an ``nn.Linear``."""
        outputs, inputs = linear_layer.weight.shape
        return cls(inputs, outputs, "bias" in linear_layer, group)._mx_take(linear_layer.parameters(), segments)


class AllToShardedLinear(_ShardedLinear, _AllToSharded):
    """A linear layer from a whole input to this rank's slice of the output features.

    Args:
        input_dims: features of the input.
        output_dims: features of the output, of all ranks together.
        bias: whether to add a bias.
        group: the group; the default is the global group.

    Raises:
        ValueError: if the group's size does not divide ``output_dims``; at call time, for an input of another size.

    Example:
        >>> nn.AllToShardedLinear(8, 4)(mx.ones((2, 8))).shape
        (2, 4)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return affine(sum_gradients(self.group)(x), self["weight"], self.get("bias"))


class ShardedToAllLinear(_ShardedLinear, _ShardedToAll):
    """A linear layer from this rank's slice of the input features to the whole output, summed over the group.

    Args:
        input_dims: features of the input, of all ranks together.
        output_dims: features of the output.
        bias: whether to add a bias.
        group: the group; the default is the global group.

    Raises:
        ValueError: if the group's size does not divide ``input_dims``; at call time, for an input of another size.

    Example:
        >>> nn.ShardedToAllLinear(8, 4)(mx.ones((2, 8))).shape
        (2, 4)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return self._mx_summed(x @ self["weight"].T)


class _QuantizedSharded(_Sharded, QuantizedModule):
    """A sharded layer whose weight is quantized, and whose parameters stay frozen."""

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
        shape = self._mx_join(group, input_dims, output_dims)
        self.mode, self.group_size, self.bits = mode, group_size, bits
        self._mx_pack(uniform_weight(input_dims, *shape), self.group_size, self.bits)
        if bias:
            self.bias = mx.zeros((shape[0],))
        self.freeze()

    def unfreeze(self, *args, **kwargs) -> None:
        """Unfreeze sub-modules only: quantized parameters stay frozen."""
        super().unfreeze(*args, **kwargs)
        self.freeze(recurse=False)

    def _mx_held_shape(self) -> tuple[int, int]:
        return self._mx_dense_shape()

    def _extra_repr(self) -> str:
        return f"{super()._extra_repr()}, {self._mx_described_format()}"

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: int | list = 1, group: mx.distributed.Group | None = None
    ) -> Any:
        """Return this rank's slice of an ``nn.QuantizedLinear``."""
        layer = quantized_linear_layer
        rows, words = layer.weight.shape
        columns = words * 32 // layer.bits
        new = cls(columns, rows, "bias" in layer, layer.group_size, layer.bits, layer.mode, group)
        return new._mx_take(layer.parameters(), segments)


class QuantizedAllToShardedLinear(_QuantizedSharded, _AllToSharded):
    """``AllToShardedLinear`` with a quantized weight.

    Args:
        input_dims: features of the input.
        output_dims: features of the output, of all ranks together.
        bias: whether to add a bias.
        group_size: the number of weights that share a scale.
        bits: bits per weight.
        mode: the quantization mode.
        group: the group; the default is the global group.

    Raises:
        ValueError: if the group's size does not divide ``output_dims``, or if the quantization is not possible; at call
            time, for an input of another size.

    Example:
        >>> nn.QuantizedAllToShardedLinear(64, 8)(mx.ones((2, 64))).shape
        (2, 8)
    """

    def __call__(self, x: mx.array) -> mx.array:
        product = self._mx_product(sum_gradients(self.group)(x))
        return product + self["bias"] if "bias" in self else product


class QuantizedShardedToAllLinear(_QuantizedSharded, _ShardedToAll):
    """``ShardedToAllLinear`` with a quantized weight.

    Args:
        input_dims: features of the input, of all ranks together.
        output_dims: features of the output.
        bias: whether to add a bias.
        group_size: the number of weights that share a scale.
        bits: bits per weight.
        mode: the quantization mode.
        group: the group; the default is the global group.

    Raises:
        ValueError: if the group's size does not divide ``input_dims``, or if the quantization is not possible; at call
            time, for an input of another size.

    Example:
        >>> nn.QuantizedShardedToAllLinear(64, 8)(mx.ones((2, 64))).shape
        (2, 8)
    """

    def __call__(self, x: mx.array) -> mx.array:
        return self._mx_summed(self._mx_product(x))
