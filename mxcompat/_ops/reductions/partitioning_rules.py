"""Rules of partitions and of `topk`. The order of elements is that of sorts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST, QUICK, TANGENT_DTYPE
from mxcompat._graph.policy import MANY_ELEMENTS, MANY_ROWS, PARTITIONED_SHARE

from ..define import TABLE
from .axes import along_axis
from .blocks import widened
from .precision import narrowed
from .sorting_rules import flattened, order_of, ordered, positions, register_choice

__all__: list[str] = []

# XLA takes 1.5 to 6 times as long
QUICK.update(TABLE[name] for name in ("partition", "argpartition", "topk"))


@HOST.of(TABLE["partition"])
def _partition(out: Aval, params: tuple, x: Any) -> Any:
    kth, axis = params
    x, axis = flattened(x, axis)
    if x.shape[axis] < MANY_ELEMENTS:
        return ordered(x, axis)
    return np.take_along_axis(x, _partition_order(x, kth, axis), axis)


def _partition_order(x: Any, kth: int, axis: int) -> Any:
    n = x.shape[axis]
    if n >= MANY_ELEMENTS and min(kth + 1, n - kth) <= n * PARTITIONED_SHARE and x.dtype.kind != "c":
        return np.argpartition(widened(x), kth, axis)
    return order_of(x, axis)


def _partition_of(params: tuple, x: Any) -> tuple[Any, Any, int]:
    x, axis = flattened(x, params[1])
    return _partition_order(x, params[0], axis), x, axis


register_choice("partition", _partition_of)
BATCH[TABLE["partition"]] = along_axis(1)


@HOST.of(TABLE["argpartition"])
def _argpartition(out: Aval, params: tuple, x: Any) -> Any:
    kth, axis = params
    x, axis = flattened(x, axis)
    return _partition_order(x, kth, axis).astype(np.uint32)


BATCH[TABLE["argpartition"]] = along_axis(1)
TANGENT_DTYPE[TABLE["argpartition"]] = lambda tangents, operands, result: tangents[0]


@HOST.of(TABLE["topk"])
def _topk(out: Aval, params: tuple, x: Any) -> Any:
    k, axis = params
    x, axis = flattened(x, axis)
    n = x.shape[axis]
    if k == n:
        return x
    if n >= MANY_ROWS and 0 < k <= n * PARTITIONED_SHARE and x.dtype.kind != "c":
        x = _last(np.partition(widened(x), n - k, axis), k, axis)
        return narrowed(ordered(x, axis), out)
    return _last(ordered(x, axis), k, axis)


def _last(x: Any, k: int, axis: int) -> Any:
    """Return the last k elements along an axis."""
    return x[(*[slice(None)] * axis, slice(x.shape[axis] - k, None))]


def _topk_order(params: tuple, x: Any) -> tuple[Any, Any, int]:
    k, axis = params
    x, axis = flattened(x, axis)
    n = x.shape[axis]
    if k == n:
        return np.broadcast_to(positions(x, axis), x.shape), x, axis
    return _last(order_of(x, axis), k, axis), x, axis


register_choice("topk", _topk_order)
BATCH[TABLE["topk"]] = along_axis(1)
