"""Derivatives of matrix products and related ops: products again, laid out for BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD, READS_INPUTS, RESIDUALS, Residuals

from ..define import TABLE
from .contraction import contract, multiply, pull_contraction, pull_product, widened
from .host import VECTORS, inner_numbers, interleaved, tensordot_numbers, vecdot
from .matmul import ADDMM, MATMUL, TENSORDOT

__all__ = ["bilinear"]


@PULLBACK.of(MATMUL)
def _pull_matmul(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    return pull_product(widened(g, dtype), widened(x, dtype), widened(y, dtype), needs_grad)


@PUSHFORWARD.of(MATMUL)
def _push_matmul(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    return bilinear(multiply, tangents, out.dtype, x, y)


def bilinear(product: Any, tangents: Any, dtype: Any, x: Any, y: Any) -> Any:
    """Return the tangent of a product of two operands."""
    dx, dy = tangents
    if dy is None:
        return product(widened(dx, dtype), widened(y, dtype))
    moved = product(widened(x, dtype), widened(dy, dtype))
    return moved if dx is None else moved + product(widened(dx, dtype), widened(y, dtype))


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


@PULLBACK.of(TENSORDOT)
def _pull_tensordot(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return pull_contraction(widened(g, dtype), widened(x, dtype), widened(y, dtype), numbers, needs_grad)


@PUSHFORWARD.of(TENSORDOT)
def _push_tensordot(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return bilinear(lambda a, b: contract(a, b, numbers), tangents, out.dtype, x, y)


@PULLBACK.of(TABLE["inner"])
def _pull_inner(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    if not x.ndim or not y.ndim:
        return g * y, g * x
    dtype = out.dtype
    return pull_contraction(widened(g, dtype), widened(x, dtype), widened(y, dtype), inner_numbers(x, y), needs_grad)


@PULLBACK.of(TABLE["outer"])
def _pull_outer(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    g = widened(g, dtype)
    gx = g.dot(widened(y, dtype).ravel()).reshape(x.shape) if needs_grad[0] else None
    gy = g.T.dot(widened(x, dtype).ravel()).reshape(y.shape) if needs_grad[1] else None
    return gx, gy


@PULLBACK.of(TABLE["kron"])
def _pull_kron(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    left, right = interleaved(widened(x, dtype), widened(y, dtype))
    g = widened(g, dtype).reshape(np.broadcast_shapes(left.shape, right.shape))
    gx = (g * right).sum(tuple(range(1, g.ndim, 2))).reshape(x.shape) if needs_grad[0] else None
    gy = (g * left).sum(tuple(range(0, g.ndim, 2))).reshape(y.shape) if needs_grad[1] else None
    return gx, gy


@PULLBACK.of(TABLE["vecdot"])
def _pull_vecdot(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    g = np.expand_dims(widened(g, dtype), params[0] % x.ndim)
    x, y = widened(x, dtype), widened(y, dtype)
    return ((g * y).conj(), g * x.conj()) if dtype.kind == "c" else (g * y, g * x)


@PUSHFORWARD.of(TABLE["vecdot"])
def _push_vecdot(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    axis = params[0] % x.ndim
    return bilinear(lambda a, b: vecdot(a, b, axis, a.dtype), tangents, out.dtype, x, y)


def _push_vectors(product: Any) -> Any:
    def rule(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
        return bilinear(product, tangents, out.dtype, x, y)

    return rule


PUSHFORWARD.update({op: _push_vectors(product) for op, product in VECTORS.items()})

for _op in (MATMUL, TENSORDOT, *[TABLE[name] for name in ("inner", "outer", "kron", "vecdot")]):
    RESIDUALS[_op] = READS_INPUTS
RESIDUALS[ADDMM] = Residuals(slice(1, None), False)
