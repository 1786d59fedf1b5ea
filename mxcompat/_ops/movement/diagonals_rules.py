"""Rules of the ops that read or make diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import Node, apply, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK

from ..batching import inner, later, reshaped
from ..define import TABLE
from ..indexing.rows import wide
from .diagonals import sum_dtype
from .linear import register_linear

__all__ = ["distance"]


@HOST.of(TABLE["diagonal"])
def _diagonal(out: Aval, params: tuple, x: Any) -> np.ndarray:
    return x.diagonal(*params)


register_linear(TABLE["diagonal"])


@PULLBACK.of(TABLE["diagonal"])
def _diagonal_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (_on_diagonal(g, x.shape, params),)


def _on_diagonal(g: Any, shape: tuple[int, ...], params: tuple) -> np.ndarray:
    """Return zeros of a shape, with `g` on a diagonal."""
    offset, axis1, axis2 = params
    total = np.zeros(shape, g.dtype)
    planes = np.moveaxis(total, (axis1, axis2), (-2, -1))
    k = np.arange(min(planes.shape[-2] + min(offset, 0), planes.shape[-1] - max(offset, 0)))
    planes[..., k - min(offset, 0), k + max(offset, 0)] = g
    return total


@HOST.of(TABLE["trace"])
def _trace(out: Aval, params: tuple, x: Any) -> Any:
    want = sum_dtype(out.dtype)._numpy
    return wide(x.diagonal(*params)).sum(-1, dtype=None if want.itemsize == 2 else want).astype(want)


register_linear(TABLE["trace"])


@PULLBACK.of(TABLE["trace"])
def _trace_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (_on_diagonal(g[..., None], x.shape, params),)


@BATCH.of(TABLE["diagonal"], TABLE["trace"])
def _diagonal_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    offset, axis1, axis2 = params
    return apply(op, inputs, (offset, later(axis1), later(axis2)))


@HOST.of(TABLE["diag"])
def _diag(out: Aval, params: tuple, x: Any) -> np.ndarray:
    (k,) = params
    result = np.zeros(out.shape, x.dtype)
    if len(x):
        start = k if k >= 0 else -k * len(result)
        result.reshape(-1)[start :: len(result) + 1][: len(x)] = x
    return result


register_linear(TABLE["diag"])


@PULLBACK.of(TABLE["diag"])
def _diag_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (g.diagonal(*params),)


@BATCH.of(TABLE["diag"])
def _diag_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (k,) = params
    (n, _) = op.infer((params, inner(inputs[0]))).shape
    zero = scalar(0, aval((), inputs[0].aval.dtype))
    columns = apply(TABLE["pad"], (inputs[0], zero), (((0, 0), (max(0, k), max(0, -k))), "constant"))
    full = apply(TABLE["broadcast_to"], (reshaped(columns, size, 1, n),), ((size, n, n),))
    lower = apply(TABLE["triangle"], (full,), (k, False))
    return apply(TABLE["triangle"], (lower,), (k, True))


@HOST.of(TABLE["triangle"])
def _triangle(out: Any, params: tuple, x: Any) -> np.ndarray:
    k, upper = params
    place = distance(x.shape)
    return np.where(place >= k if upper else place <= k, x, np.zeros((), x.dtype))


def distance(shape: tuple[int, ...]) -> np.ndarray:
    """Return, for each element of a matrix, the number of the diagonal on which it lies."""
    return np.arange(shape[-1], dtype=np.int32) - np.arange(shape[-2], dtype=np.int32)[:, None]


register_linear(TABLE["triangle"])


@PULLBACK.of(TABLE["triangle"])
def _triangle_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (_triangle(None, params, g),)


@BATCH.of(TABLE["triangle"])
def _triangle_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    return apply(op, inputs, params)
