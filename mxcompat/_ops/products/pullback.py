"""Derivatives of matrix products and their kin: products again, laid out for BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD

from .contraction import multiply, pull_product, widened
from .matmul import _addmm, _matmul


@PULLBACK.of(_matmul)
def _pull_matmul(g: Any, out: Any, params: tuple, wanted: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    return pull_product(widened(g, dtype), widened(x, dtype), widened(y, dtype), wanted)


@PUSHFORWARD.of(_matmul)
def _push_matmul(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    return _bilinear(multiply, tangents, out.dtype, x, y)


def _bilinear(product: Any, tangents: Any, dtype: Any, x: Any, y: Any) -> Any:
    """The tangent of a product of two operands."""
    dx, dy = tangents
    if dy is None:
        return product(widened(dx, dtype), widened(y, dtype))
    moved = product(widened(x, dtype), widened(dy, dtype))
    return moved if dx is None else moved + product(widened(dx, dtype), widened(y, dtype))


@PULLBACK.of(_addmm)
def _pull_addmm(
    g: Any, out: Any, params: tuple, wanted: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None
) -> Any:
    if any(wanted[3:]):
        return None
    dtype = out.dtype
    g = widened(g, dtype)
    more = (None,) * (len(wanted) - 3)
    gc, gp = (g, g) if alpha is None else (g * beta.astype(g.dtype), g * alpha.astype(g.dtype))
    return gc, *pull_product(gp, widened(x, dtype), widened(y, dtype), wanted[1:]), *more


@PUSHFORWARD.of(_addmm)
def _push_addmm(
    tangents: Any, out: Any, params: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None
) -> Any:
    dc, dx, dy, *scales = tangents
    if any(s is not None for s in scales):
        return None
    total = None
    if dx is not None or dy is not None:
        total = _bilinear(multiply, (dx, dy), out.dtype, x, y)
        total = total if alpha is None else total * alpha.astype(total.dtype)
    if dc is not None:
        dc = widened(dc, out.dtype)
        dc = dc if beta is None else dc * beta.astype(dc.dtype)
        total = np.broadcast_to(dc, out.shape) if total is None else total + dc
    return total
