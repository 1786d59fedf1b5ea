"""Batching rules of reductions, scans and sorts: the same op along the axis after the batch axis.

An op without an axis, which takes all elements, is applied to each row.
"""

from __future__ import annotations

import math
from typing import Any

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..define import TABLE
from . import extremes, partitioning, scans, softmax, sorting, statistics  # noqa: F401  # for their records, in TABLE

__all__: list[str] = []


def _reshaped(node: Node, shape: tuple[int, ...]) -> Node:
    return node if node.aval.shape == shape else apply(TABLE["reshape"], (node,), (shape,))


def _over_axes(op: Op, params: tuple, inputs: tuple, batched: Any, size: int) -> Node:
    """Batch an op whose first param is the axes."""
    return apply(op, inputs, (tuple([k + 1 for k in params[0]]), *params[1:]))


def _along_axis(place: int, keepdims: bool = False) -> Any:
    """Return the batching rule of an op. Its params have the axis (or None) at index `place`, and keepdims after it if
    `keepdims` is set."""

    def rule(op: Op, params: tuple, inputs: tuple, batched: Any, size: int) -> Node:
        (x,) = inputs
        axis = params[place]
        if axis is not None:
            return apply(op, inputs, (*params[:place], axis + 1, *params[place + 1 :]))
        rows = _reshaped(x, (size, math.prod(x.aval.shape[1:])))
        out = apply(op, (rows,), (*params[:place], 1, *params[place + 1 :]))
        return _reshaped(out, (size,) + (1,) * (x.aval.ndim - 1)) if keepdims and params[-1] else out

    return rule


for _name in (
    "sum", "prod", "max", "min", "mean", "logsumexp", "all", "any", "count_nonzero", "softmax", "var", "std", "median",
):  # fmt: skip
    BATCH[TABLE[_name]] = _over_axes
for _name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "argsort"):
    BATCH[TABLE[_name]] = _along_axis(0)
for _name in ("diff", "partition", "argpartition", "topk"):
    BATCH[TABLE[_name]] = _along_axis(1)
for _name in ("argmax", "argmin"):
    BATCH[TABLE[_name]] = _along_axis(0, keepdims=True)


@BATCH.of(TABLE["searchsorted"])
def _searchsorted(op: Op, params: tuple, inputs: tuple, batched: Any, size: int) -> Node | None:
    """Batch a search for several values in one row. There is no rule for a search in several rows."""
    return None if batched[0] else apply(op, inputs, params)
