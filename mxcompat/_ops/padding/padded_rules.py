"""The rules for padded nodes (see `padded`), for elementwise ops and for changes of shape and order.

`all_rules` imports this module after those that define these ops. Reads, products and attention have their rules for
padded nodes in their own families.

An op keeps a padded axis if each entry of its result depends on one entry of its inputs along that axis. The values of
invalid entries are never used, so they may be anything, including NaN.
"""

from __future__ import annotations

import math
from typing import Any

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.rules import HOST, PADDING

from ..define import SAMPLES, TABLE
from ..reductions.softmax import SOFTMAX
from .padded import BLANK, Exact, Padding, again, build, stretched

__all__: list[str] = []

_FURTHER = ("where", "astype", "isclose", "nan_to_num", "contiguous", "stop_gradient")


@PADDING.of(*[TABLE[name] for name in (*SAMPLES, *_FURTHER)])
def _elementwise(node: Node, axis: int, pad: Padding) -> Node:
    return again(node, tuple([stretched(i, axis - node.aval.ndim, pad) for i in node.inputs]))


@PADDING.of(TABLE["arange"])
def _range(node: Node, axis: int, pad: Padding) -> Node:
    return again(node, node.inputs, (pad.room,))


@PADDING.of(*[TABLE[name] for name in ("reshape", "expand_dims", "squeeze", "flatten", "unflatten")])
def _reshaped(node: Node, axis: int, pad: Padding) -> Node:
    """Return the padded reshape. The axis must stay one axis of size n, with the same number of elements before it."""
    out, source = node.aval.shape, node.inputs[0].aval.shape
    for k, size in enumerate(source):
        if size == pad.n and math.prod(source[:k]) == math.prod(out[:axis]) and node.aval.size:
            return build(TABLE["reshape"], (pad(node.inputs[0], k),), (pad.shape(node, axis),), node.where)
    raise Exact


@PADDING.of(TABLE["broadcast_to"])
def _broadcast(node: Node, axis: int, pad: Padding) -> Node:
    return again(node, (stretched(node.inputs[0], axis - node.aval.ndim, pad),), (pad.shape(node, axis),))


@PADDING.of(TABLE["transpose"])
def _transposed(node: Node, axis: int, pad: Padding) -> Node:
    order = node.params[0] or range(node.aval.ndim)[::-1]
    return again(node, (pad(node.inputs[0], order[axis] % node.aval.ndim),))


@PADDING.of(TABLE["concatenate"], TABLE["repeat"])
def _along_other_axis(node: Node, axis: int, pad: Padding) -> Node:
    """Return the padded result of an op that works along another axis (its last param). Raise Exact if the op flattens
    the array."""
    along = node.params[-1]
    if along is None or along % node.aval.ndim == axis:
        raise Exact
    return again(node, tuple([pad(i, axis) for i in node.inputs]))


@PADDING.of(SOFTMAX)
def _softmax(node: Node, axis: int, pad: Padding) -> Node:
    (x,) = node.inputs
    if axis not in node.params[0]:
        return again(node, (pad(x, axis),))
    if x.aval.dtype._kind != "f":
        raise Exact
    return again(node, (pad.blank(x, axis, -math.inf),))


@HOST.of(BLANK)
def _blank_on_host(out: Aval, params: tuple, x: Any, n: Any) -> Any:
    axis, value = params
    filled = x.copy()
    filled[(slice(None),) * axis + (slice(int(n), None),)] = value
    return filled
