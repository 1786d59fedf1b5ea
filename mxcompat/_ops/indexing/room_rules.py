"""Rules of `PREFIX`, the first entries of a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PADDING, PULLBACK, PUSHFORWARD, RESIDUALS, Residuals

from ..movement.linear import linear
from ..padding.padded import Padding, again
from .room import PREFIX

__all__: list[str] = []


@HOST.of(PREFIX)
def _prefix(out: Aval, params: tuple, x: Any) -> Any:
    axis, size = params
    return x[(slice(None),) * axis + (slice(size),)]


@PULLBACK.of(PREFIX)
def _pull_prefix(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple[Any]:
    axis, size = params
    total = np.zeros(x.shape, g.dtype)
    total[(slice(None),) * axis + (slice(size),)] = g
    return (total,)


PUSHFORWARD[PREFIX] = linear(PREFIX, 1)
RESIDUALS[PREFIX] = Residuals(slice(1, None), False)


@BATCH.of(PREFIX)
def _batch_prefix(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    axis, count = params
    return apply(op, inputs, (axis + 1, count))


@PADDING.of(PREFIX)
def _padded_prefix(node: Node, axis: int, pad: Padding) -> Node:
    along, _ = node.params
    (buffer,) = node.inputs
    if along != axis:
        return again(node, (pad(buffer, axis),))
    if buffer.aval.shape[axis] == pad.room:
        return buffer
    return again(node, (buffer,), (axis, pad.room))
