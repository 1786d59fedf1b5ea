"""Rules of the ops that change the shape of an array or the order of its axes. In NumPy, they return views."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK
from mxcompat._graph.run.layout import reshaped

from ..batching import inner
from ..define import TABLE
from .linear import register_linear

__all__: list[str] = []

_RESHAPES = [TABLE[name] for name in ("reshape", "flatten", "unflatten", "squeeze", "expand_dims", "atleast")]


@HOST.of(*_RESHAPES)
def _reshape(out: Aval, params: tuple, x: Any) -> Any:
    return reshaped(x, out.shape)


register_linear(*_RESHAPES)


@PULLBACK.of(*_RESHAPES)
def _reshape_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    return (g.reshape(x.shape),)


@BATCH.of(*_RESHAPES)
def _reshape_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape = op.infer((params, inner(inputs[0]))).shape
    return apply(TABLE["reshape"], inputs, ((size, *shape),))


@HOST.of(TABLE["transpose"])
def _transpose(out: Aval, params: tuple, x: Any) -> np.ndarray:
    return x.transpose(params[0])


register_linear(TABLE["transpose"])


@PULLBACK.of(TABLE["transpose"])
def _transpose_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    (axes,) = params
    if axes is None:
        return (g.transpose(),)
    back = [0] * len(axes)
    for k, axis in enumerate(axes):
        back[axis] = k
    return (g.transpose(back),)


@BATCH.of(TABLE["transpose"])
def _transpose_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    (axes,) = params
    ndim = inputs[0].aval.ndim - 1
    axes = range(ndim)[::-1] if axes is None else axes
    return apply(op, inputs, ((0, *[axis % ndim + 1 for axis in axes]),))
