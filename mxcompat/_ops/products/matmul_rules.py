"""Rules of matrix products. Their derivatives are products again, laid out for BLAS."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import aval, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import (
    BATCH,
    CONTRACTION,
    COST,
    HOST,
    PADDING,
    PULLBACK,
    PUSHFORWARD,
    READS_INPUTS,
    RESIDUALS,
    Residuals,
)
from mxcompat._graph.policy import MOST_ENTRIES

from ..batching import aligned, broadcast_unbatched, rank
from ..cost import product_cost
from ..define import TABLE
from ..padding.padded import Padding, Paddings, again, check_matrices, check_rows, stretched
from .batched_sums import batched_sum, labels_of, own_shapes
from .contraction import (
    Numbers,
    bilinear,
    contract,
    multiply,
    pull_contraction,
    pull_product,
    rounded,
    wide_dtype,
    widened,
)
from .matmul import ADDMM, MATMUL, TENSORDOT, contracted_axes
from .stored import multiply_halves

__all__: list[str] = []


@HOST.of(MATMUL)
def _host_matmul(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype._numpy
    work = wide_dtype(dtype)
    if x.dtype == work and y.dtype == work:
        return multiply(x, y)
    product = multiply_halves(x, y, dtype)
    return rounded(multiply(widened(x, dtype), widened(y, dtype)), dtype) if product is None else product


@PULLBACK.of(MATMUL)
def _pull_matmul(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    return pull_product(widened(g, dtype), widened(x, dtype), widened(y, dtype), needs_grad)


@PUSHFORWARD.of(MATMUL)
def _push_matmul(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    return bilinear(multiply, tangents, out.dtype, x, y)


RESIDUALS[MATMUL] = READS_INPUTS


def _expanded(x: Node, axis: int) -> Node:
    return apply(TABLE["expand_dims"], (x,), ((axis,),))


def _matrices(x: Node, y: Node, batched: tuple[bool, ...]) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """Return both operands as matrices that broadcast as before batching, and the axes to remove from the result."""
    gone = []
    if x.aval.ndim - batched[0] == 1:
        x = _expanded(x, -2)
        gone.append(-2)
    if y.aval.ndim - batched[1] == 1:
        y = _expanded(y, -1)
        gone.append(-1)
    return aligned((x, y), batched, rank((x, y), batched)), tuple(gone)


def _squeezed(x: Node, gone: tuple[int, ...]) -> Node:
    return apply(TABLE["squeeze"], (x,), (gone,)) if gone else x


@BATCH.of(MATMUL)
def _batch_matmul(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    x, y = inputs
    if not batched[1] and y.aval.ndim <= 2:
        return apply(op, inputs, params)
    operands, gone = _matrices(x, y, batched)
    return _squeezed(apply(op, operands, params), gone)


@PADDING.of(MATMUL)
def _padded_product(node: Node, axis: int, pad: Padding) -> Node:
    x, y = node.inputs
    check_matrices(x, y)
    k = axis - node.aval.ndim
    if k < -2:
        return again(node, (stretched(x, k, pad), stretched(y, k, pad)))
    if k == -2:
        return again(node, (pad(x, x.aval.ndim - 2), y))
    return again(node, (x, pad(y, y.aval.ndim - 1)))


@CONTRACTION.of(MATMUL)
def _product_contraction(node: Node, paddings: Paddings) -> tuple[tuple[Node, ...], tuple]:
    x, y = node.inputs
    check_matrices(x, y)
    k = y.aval.ndim - 2
    pad = paddings.reading(y, k)
    check_rows(x, pad)
    return (pad.blank(x, x.aval.ndim - 1, 0.0), pad.blank(y, k, 0.0)), node.params


def _scaled_sum(product: Any, c: Any, alpha: Any, beta: Any) -> Any:
    """Return the result of addmm: `alpha * product + beta * c`, without `c` if beta is 0."""
    if alpha is None:
        return product + c
    product = product * alpha.astype(product.dtype)
    return product if beta == 0 else product + c * beta.astype(c.dtype)


@HOST.of(ADDMM)
def _host_addmm(out: Any, params: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None) -> Any:
    dtype = out.dtype._numpy
    product = multiply_halves(x, y, wide_dtype(dtype))
    if product is None:
        product = multiply(widened(x, dtype), widened(y, dtype))
    return rounded(_scaled_sum(product, widened(c, dtype), alpha, beta), dtype)


@PULLBACK.of(ADDMM)
def _pull_addmm(
    g: Any, out: Any, params: tuple, needs_grad: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None
) -> Any:
    if any(needs_grad[3:]):
        return None
    dtype = out.dtype
    g = widened(g, dtype)
    more = (None,) * (len(needs_grad) - 3)
    gc, gp = (g, g) if alpha is None else (g * beta.astype(g.dtype), g * alpha.astype(g.dtype))
    return gc, *pull_product(gp, widened(x, dtype), widened(y, dtype), needs_grad[1:]), *more


@PUSHFORWARD.of(ADDMM)
def _push_addmm(
    tangents: Any, out: Any, params: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None
) -> Any:
    dc, dx, dy, *scales = tangents
    if any(s is not None for s in scales):
        return None
    total = None
    if dx is not None or dy is not None:
        total = bilinear(multiply, (dx, dy), out.dtype, x, y)
        total = total if alpha is None else total * alpha.astype(total.dtype)
    if dc is not None:
        dc = widened(dc, out.dtype)
        dc = dc if beta is None else dc * beta.astype(dc.dtype)
        total = np.broadcast_to(dc, out.shape) if total is None else total + dc
    return total


RESIDUALS[ADDMM] = Residuals(slice(1, None), False)


@BATCH.of(ADDMM)
def _batch_addmm(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    (c, x, y), scales = inputs[:3], inputs[3:]
    on_c, on_x, on_y = batched[:3]
    if any(batched[3:]):
        return None
    if not (on_x or on_y):
        x, on_x = broadcast_unbatched(x, size), True
    (x, y), gone = _matrices(x, y, (on_x, on_y))
    if c.aval.ndim - on_c:
        for axis in gone:
            c = _expanded(c, axis if c.aval.ndim - on_c > 1 or axis == -1 else on_c)
    (c,) = aligned((c,), (on_c,), max(x.aval.ndim - on_x, y.aval.ndim - on_y))
    return _squeezed(apply(op, (c, x, y, *scales), params), gone)


@lru_cache(MOST_ENTRIES)
def tensordot_numbers(x: tuple[int, ...], y: tuple[int, ...], axes: Any) -> Numbers:
    """Return the axes that a tensordot of arrays with these shapes sums over."""
    like = from_numpy(np.float32)
    return contracted_axes(aval(x, like), aval(y, like), axes), ((), ())  # type: ignore[arg-type]


@HOST.of(TENSORDOT)
def _host_tensordot(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype._numpy
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return rounded(contract(widened(x, dtype), widened(y, dtype), numbers), dtype)


@PULLBACK.of(TENSORDOT)
def _pull_tensordot(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return pull_contraction(widened(g, dtype), widened(x, dtype), widened(y, dtype), numbers, needs_grad)


@PUSHFORWARD.of(TENSORDOT)
def _push_tensordot(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return bilinear(lambda a, b: contract(a, b, numbers), tangents, out.dtype, x, y)


RESIDUALS[TENSORDOT] = READS_INPUTS


@BATCH.of(TENSORDOT)
def _batch_tensordot(
    op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Node | None:
    avals = [aval(shape, n.aval.dtype) for n, shape in zip(inputs, own_shapes(inputs, batched), strict=True)]
    terms, output = labels_of(avals[0].ndim, avals[1].ndim, contracted_axes(avals[0], avals[1], params[0]))
    return batched_sum(terms, output, inputs, batched)


COST.of(MATMUL, TENSORDOT)(product_cost)


@COST.of(ADDMM)
def _sum_cost(out: Any, params: tuple, c: Any, x: Any, *others: Any) -> float:
    return product_cost(out, params, x)
