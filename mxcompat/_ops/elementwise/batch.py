"""Batching rules of elementwise ops: the same op, with operands that broadcast as before. See `rules.BATCH`."""

from __future__ import annotations

import math
from typing import Any

from mxcompat._array.construct import CAST, COPY
from mxcompat._array.nest import NEST
from mxcompat._graph.ir.capture import ALIAS
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, all_batched, batched_elementwise, rank
from ..define import SAMPLES, TABLE
from ..indexing import at  # noqa: F401  # for their records, in TABLE
from ..reductions import reduce  # noqa: F401
from . import arithmetic, bitwise, casts, comparison, unary  # noqa: F401

__all__: list[str] = []

_FURTHER = ("astype", "contiguous", "stop_gradient", "update_negative", "update_reciprocal", "view", "where")

BATCH.of(*[TABLE[name] for name in (*SAMPLES, *_FURTHER)], ALIAS, CAST, COPY)(batched_elementwise)


@BATCH.of(TABLE["isclose"], TABLE["nan_to_num"])
def _with_numbers(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node | None:
    """Batch an op whose last inputs are numbers that do not broadcast."""
    arrays = 2 if op is TABLE["isclose"] else 1
    if any(batched[arrays:]):
        return None
    return batched_elementwise(op, params, inputs, batched, size)


@BATCH.of(TABLE["allclose"])
def _allclose(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node | None:
    near = _with_numbers(TABLE["isclose"], params, inputs, batched, size)
    return near and _all(near)


@BATCH.of(TABLE["array_equal"])
def _array_equal(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node:
    x, y = aligned(inputs, batched, rank(inputs, batched))
    same = apply(TABLE["equal"], (x, y))
    if params[0]:
        both = apply(TABLE["logical_and"], (apply(TABLE["isnan"], (x,)), apply(TABLE["isnan"], (y,))))
        same = apply(TABLE["logical_or"], (same, both))
    return _all(same)


def _all(node: Node) -> Node:
    """Return whether all elements are true, over all axes but the first."""
    return apply(TABLE["all"], (node,), (tuple(range(1, node.aval.ndim)), False))


@BATCH.of(TABLE["depends"])
def _depends(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node:
    (count,) = params
    return apply(op, (*all_batched(inputs[:count], batched[:count], size), *inputs[count:]), params)


@BATCH.of(NEST)
def _nest(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node:
    shape, dtype = params
    rows: list[Any] = []
    for node in all_batched(inputs, batched, size):
        if node.aval.dtype is not dtype:
            node = apply(CAST, (node,), (dtype,))
        rows.append(apply(TABLE["reshape"], (node,), ((size, math.prod(node.aval.shape[1:])),)))
    joined = apply(TABLE["concatenate"], tuple(rows), (1,))
    return apply(TABLE["reshape"], (joined,), ((size, *shape),))
