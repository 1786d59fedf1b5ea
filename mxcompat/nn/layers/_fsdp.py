"""Fully sharded modules: every rank stores a slice of each parameter and gathers the whole for the forward pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module
from mxcompat.utils import tree_flatten, tree_unflatten

__all__ = ["FullyShardedModule", "fully_shard"]


def _cast(x: mx.array, dtype: mx.Dtype | None) -> mx.array:
    return x if dtype is None or x.dtype == dtype else x.astype(dtype)


def _make_gather_fn(
    group: mx.distributed.Group, full_shapes: list, shard_sizes: list[int], compute_dtype: mx.Dtype | None
) -> Callable[[list[mx.array]], list[mx.array]]:
    """Make the function that gathers whole parameters from all slices in one message. Its gradient is averaged over the
    group and sliced."""
    size = group.size()
    ends = list(itertools.accumulate(shard_sizes))[:-1]

    @mx.custom_function
    def gather(shards: list[mx.array]) -> list[mx.array]:
        if size == 1:
            return [_cast(shard, compute_dtype) for shard in shards]
        row = mx.concatenate([_cast(shard.reshape(1, -1), compute_dtype) for shard in shards], axis=1)
        rows = mx.distributed.all_gather(row, group=group)
        return [part.reshape(shape) for part, shape in zip(mx.split(rows, ends, axis=1), full_shapes, strict=True)]

    @gather.vjp
    def gather_vjp(shards: list[mx.array], cotangents: list[mx.array], _: Any) -> list[mx.array]:
        if size == 1:
            return [_cast(c, shard.dtype) for c, shard in zip(cotangents, shards, strict=True)]
        rows = mx.concatenate([c.reshape(size, -1) for c in cotangents], axis=1)
        row = mx.distributed.sum_scatter(rows, group=group) / size
        parts = mx.split(row, ends, axis=1)
        return [_cast(part.reshape(shard.shape), shard.dtype) for part, shard in zip(parts, shards, strict=True)]

    return gather


class FullyShardedModule(Module):
    """A module wrapper with which each rank keeps only its slice of every parameter, along the first axis.

    The forward pass gathers the whole parameters. The backward pass gives each rank the gradient of its slice, averaged
    over the group. A nested ``FullyShardedModule`` handles its own parameters.

    Args:
        module: the module to wrap; its parameters are replaced.
        group: the group; the default is the global group.
        compute_dtype: cast the gathered parameters to this dtype.

    Raises:
        ValueError: if a parameter is a scalar, or the group's size does not divide its first axis.

    Example:
        >>> nn.FullyShardedModule(nn.Linear(4, 3))(mx.ones((2, 4))).shape
        (2, 3)
    """

    def __init__(
        self,
        module: Module,
        group: mx.distributed.Group | None = None,
        compute_dtype: mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        group = group or mx.distributed.init()
        size, rank = group.size(), group.rank()
        self.module = module
        names, shapes, shards = [], [], []
        for path, value in tree_flatten(self._mx_own_parameters()):
            if value.ndim == 0:
                raise ValueError(f"Cannot shard parameter '{path}' because it is a scalar.")
            if value.shape[0] % size != 0:
                raise ValueError(
                    f"Cannot shard parameter '{path}' with shape {value.shape} across {size} devices: "
                    f"axis 0 must be divisible by {size}."
                )
            names.append(path)
            shapes.append(value.shape)
            shards.append(value if size == 1 else mx.contiguous(mx.split(value, size, axis=0)[rank]))
        if names:
            module.update(tree_unflatten(list(zip(names, shards, strict=True))))
        # Attributes, not entries: neither is a parameter or a sub-module.
        object.__setattr__(self, "_paths", names)
        sizes = [math.prod(shape) // size for shape in shapes]
        self._gather_fn = _make_gather_fn(group, shapes, sizes, compute_dtype)

    def _mx_own_parameters(self) -> dict:
        return self.module.filter_and_map(
            lambda m, k, v: not isinstance(v, FullyShardedModule) and Module.valid_parameter_filter(m, k, v)
        )

    def _extra_repr(self) -> str:
        return f"num_sharded_params={len(self._paths)}"

    def _gathered_call(self, fn: Callable, *args: Any, **kwargs: Any) -> Any:
        shards = self._mx_own_parameters()
        values = [value for _, value in tree_flatten(shards)]
        if values:
            self.module.update(tree_unflatten(list(zip(self._paths, self._gather_fn(values), strict=True))))
        try:
            return fn(*args, **kwargs)
        finally:
            self.module.update(shards)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module with its whole parameters."""
        return self._gathered_call(self.module, *args, **kwargs)

    def as_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module's ``as_linear`` with its whole parameters."""
        return self._gathered_call(self.module.as_linear, *args, **kwargs)


def fully_shard(
    module: Module,
    *,
    group: mx.distributed.Group | None = None,
    compute_dtype: mx.Dtype | None = None,
) -> Module:
    """Wrap a module in a ``FullyShardedModule``.

    Args:
        module: the module.
        group: the group; the default is the global group.
        compute_dtype: cast the gathered parameters to this dtype.

    Returns:
        The wrapped module; the module itself if the group has one member, if it is wrapped already or if it has no
        parameters.

    Raises:
        ValueError: if a parameter is a scalar, or the group's size does not divide its first axis.

    Example:
        >>> nn.fully_shard(nn.Linear(4, 3))(mx.ones((2, 4))).shape
        (2, 3)
    """
    group = group or mx.distributed.init()
    if group.size() == 1 or isinstance(module, FullyShardedModule):
        return module
    wrapped = FullyShardedModule(module, group, compute_dtype)
    return wrapped if wrapped._paths else module
