"""The rules for padded nodes (see `padded`), for the ops between a read and a contraction, and for contractions.

An op keeps a padded axis if each entry of its result depends on one entry of its inputs along that axis. The values of
invalid entries are never used, so they may be anything, including NaN.
"""

from __future__ import annotations

import math

from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.rules import CONTRACTION, PADDING

from ..creation import ranges  # noqa: F401  # for their records, in TABLE
from ..define import SAMPLES, TABLE
from ..elementwise import arithmetic, bitwise, casts, comparison, unary  # noqa: F401
from ..fast import attention  # noqa: F401
from ..indexing import gather  # noqa: F401
from ..indexing.room import PREFIX
from ..movement import arrange, joining, shape, transposition  # noqa: F401
from ..products.matmul import MATMUL
from ..quantized.matmul import QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP
from ..reductions import reduce  # noqa: F401
from ..reductions.softmax import SOFTMAX
from .padded import Exact, Padding, Paddings, again, axis_read, build

__all__: list[str] = []


_FURTHER = ("where", "astype", "isclose", "nan_to_num", "contiguous", "stop_gradient")


@PADDING.of(*[TABLE[name] for name in (*SAMPLES, *_FURTHER)])
def _elementwise(node: Node, axis: int, pad: Padding) -> Node:
    return again(node, tuple([_stretched(i, axis - node.aval.ndim, pad) for i in node.inputs]))


def _stretched(node: Node, axis: int, pad: Padding) -> Node:
    """Return an operand that is broadcast, padded along an axis counted from the end."""
    k = axis + node.aval.ndim
    return node if k < 0 or node.aval.shape[k] == 1 else pad(node, k)


@PADDING.of(TABLE["slice"])
def _read(node: Node, axis: int, pad: Padding) -> Node:
    source = node.inputs[0]
    plan = list(node.params[0])
    plan += [":"] * (source.aval.ndim - len(plan) + plan.count("+"))
    k = [k for k, entry in enumerate(plan) if entry != "i"][axis]
    along = axis_read(plan, k)
    if plan[k] == ":":
        source = pad(source, along)
    elif plan[k] != (pad.n, 1, 0) or source.aval.shape[along] < pad.room:
        raise Exact
    else:
        plan[k] = ":" if source.aval.shape[along] == pad.room else (pad.room, 1, 0)
    while plan and plan[-1] == ":":
        plan.pop()
    return again(node, (source, *node.inputs[1:]), (tuple(plan),)) if plan else source


@PADDING.of(PREFIX)
def _prefix(node: Node, axis: int, pad: Padding) -> Node:
    along, _ = node.params
    (buffer,) = node.inputs
    if along != axis:
        return again(node, (pad(buffer, axis),))
    if buffer.aval.shape[axis] == pad.room:
        return buffer
    return again(node, (buffer,), (axis, pad.room))


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
    return again(node, (_stretched(node.inputs[0], axis - node.aval.ndim, pad),), (pad.shape(node, axis),))


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


@PADDING.of(MATMUL)
def _product(node: Node, axis: int, pad: Padding) -> Node:
    x, y = node.inputs
    _matrices(x, y)
    k = axis - node.aval.ndim
    if k < -2:
        return again(node, (_stretched(x, k, pad), _stretched(y, k, pad)))
    if k == -2:
        return again(node, (pad(x, x.aval.ndim - 2), y))
    return again(node, (x, pad(y, y.aval.ndim - 1)))


def _matrices(*nodes: Node) -> None:
    """Raise Exact for vectors, and for a matrix times several quantized matrices."""
    if any(node.aval.ndim < 2 for node in nodes) or nodes[0].aval.ndim == 2 < nodes[-1].aval.ndim:
        raise Exact


@PADDING.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _quantized_product(node: Node, axis: int, pad: Padding) -> Node:
    x, *matrix = node.inputs
    _matrices(x, *matrix)
    k = axis - node.aval.ndim
    if k == -2:
        return again(node, (pad(x, x.aval.ndim - 2), *matrix))
    if k < -2:
        return again(node, tuple([_stretched(i, k, pad) for i in node.inputs]))
    if not node.params[1]:
        raise Exact  # the words pack several elements along this axis
    return again(node, (x, *[pad(i, i.aval.ndim - 2) for i in matrix]))


@CONTRACTION.of(TABLE["scaled_dot_product_attention"])
def _attention_contraction(node: Node, paddings: Paddings) -> tuple[tuple[Node, ...], tuple]:
    q, k, v, scale, *rest = node.inputs
    causal, masked, sinks, _ = node.params
    pad = paddings.reading(k, 2)
    _check_rows(q, pad)
    inputs = [q, pad(k, 2), pad(v, 2), scale]
    if masked:
        inputs.append(_stretched(rest.pop(0), -1, pad))
    return (*inputs, pad.length, *rest), (causal, masked, sinks, True)


def _check_rows(queries: Node, pad: Padding) -> None:
    """Raise Exact if there are as many queries as keys: this is a whole prompt, and the next prompt has another shape
    anyway."""
    if queries.aval.shape[-2] == pad.n:
        raise Exact


@CONTRACTION.of(MATMUL)
def _product_contraction(node: Node, paddings: Paddings) -> tuple[tuple[Node, ...], tuple]:
    x, y = node.inputs
    _matrices(x, y)
    k = y.aval.ndim - 2
    pad = paddings.reading(y, k)
    _check_rows(x, pad)
    return (pad.blank(x, x.aval.ndim - 1, 0.0), pad.blank(y, k, 0.0)), node.params


@CONTRACTION.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)
def _quantized_contraction(node: Node, paddings: Paddings) -> tuple[tuple[Node, ...], tuple]:
    x, *matrix = node.inputs
    _matrices(x, *matrix)
    k = x.aval.ndim - 1
    pad = paddings.reading(matrix[0], matrix[0].aval.ndim - 2)
    _check_rows(x, pad)
    return (pad.blank(x, k, 0.0), *[pad.blank(i, i.aval.ndim - 2, 0.0) for i in matrix]), node.params
