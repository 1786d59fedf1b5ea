"""Batching rules of the ops that make arrays from other arrays."""

from __future__ import annotations

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, batched_elementwise
from ..define import TABLE
from ..movement.batch import reshaped
from .host import row_of

__all__: list[str] = []

BATCH[TABLE["constant_like"]] = BATCH[TABLE["full_like"]] = batched_elementwise


@BATCH.of(TABLE["full"])
def _full(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (shape,) = params
    return apply(op, aligned(inputs, batched, len(shape)), ((size, *shape),))


@BATCH.of(TABLE["meshgrid"])
def _meshgrid(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    if params[0]:
        return None  # "sparse" results have a batch axis only if their input is batched
    rows = []
    for k, (x, on) in enumerate(zip(inputs, batched, strict=True)):
        n = x.aval.size // size if on else x.aval.size
        row = [n if m == -1 else 1 for m in row_of(k, len(inputs), params)]
        rows.append(reshaped(x, size, *row) if on else reshaped(x, *row))
    return apply(TABLE["broadcast_arrays"], tuple(rows))
