"""Cut parameters into the slices of a group's ranks, for the layers of ``distributed``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mxcompat.core as mx
from mxcompat.utils import tree_map_with_path

__all__ = ["all_to_sharded", "shard", "sharded_to_all", "sum_gradients"]


@lru_cache
def sum_gradients(group: mx.distributed.Group) -> Callable[[mx.array], mx.array]:
    """Return an identity function whose gradient is summed over the group."""
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def identity(x: mx.array) -> mx.array:
        return x

    @identity.vjp
    def identity_vjp(x: mx.array, cotangent: mx.array, _: mx.array) -> mx.array:
        return mx.distributed.all_sum(cotangent, group=group)

    return identity


def _split(weight: mx.array, segments: int | list, axis: int) -> list[mx.array]:
    """Split as ``mx.split`` does, except that the indices may also be fractions of the axis."""
    if not isinstance(segments, int) and not isinstance(segments[0], int):
        size = weight.shape[axis]
        segments = [int(fraction * size) for fraction in segments]
    return mx.split(weight, segments, axis=axis)


def shard(parameters: dict, sharding_predicate: Callable, group: mx.distributed.Group | None = None) -> dict:
    """Return this rank's slice of each parameter, along the axis that ``sharding_predicate(path, weight)`` returns.

    The predicate returns ``None`` to keep the parameter whole, an axis, or an axis and segments. Each segment is sliced
    separately.
    """
    group = group or mx.distributed.init()
    size, rank = group.size(), group.rank()

    def cut(path: str, weight: Any) -> Any:
        if not isinstance(weight, mx.array):
            return weight
        sharding = sharding_predicate(path, weight)
        if sharding is None:
            return weight
        if isinstance(sharding, int):
            axis, segments = sharding, 1
        elif isinstance(sharding, tuple):
            axis, segments = sharding
        else:
            raise ValueError("The sharding function should return int or tuple[int, list]")
        slices = [_split(part, size, axis)[rank] for part in _split(weight, segments, axis)]
        return mx.contiguous(mx.concatenate(slices, axis=axis))

    return tree_map_with_path(cut, parameters)


def all_to_sharded(segments: int | list) -> Callable:
    """Slice the output features: the last axis of a bias, and the second to last of a weight."""

    def sharding(path: str, weight: mx.array) -> tuple[int, Any]:
        return (-1 if path.endswith("bias") else max(weight.ndim - 2, 0)), segments

    return sharding


def sharded_to_all(segments: int | list) -> Callable:
    """Slice the input features: the last axis of a weight. The bias stays whole."""

    def sharding(path: str, weight: mx.array) -> tuple[int, Any] | None:
        return None if path.endswith("bias") else (-1, segments)

    return sharding
