"""Batching rules of linear algebra. Nearly all of its ops accept any leading axes."""

from __future__ import annotations

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, rank
from ..define import TABLE
from .decompositions import CHOLESKY, QR, SINGULAR_VALUES, SVD
from .eigen import EIG, EIGH, EIGVALS, EIGVALSH
from .lu import DET, LU, LU_FACTOR, SLOGDET
from .norm import CROSS, NORM
from .solve import CHOLESKY_INV, INV, PINV, SOLVE, SOLVE_TRIANGULAR, TRI_INV

__all__: list[str] = []

_Inputs = tuple[Node, ...]
_Flags = tuple[bool, ...]


@BATCH.of(
    CHOLESKY, CHOLESKY_INV, DET, EIG, EIGH, EIGVALS, EIGVALSH, INV, LU, LU_FACTOR, PINV, QR, SINGULAR_VALUES, SLOGDET,
    SVD, TRI_INV,
)  # fmt: skip
def _batch_matrices(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node:
    return apply(op, inputs, params)


@BATCH.of(SOLVE, SOLVE_TRIANGULAR)
def _batch_system(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node:
    a, b = inputs
    vector = b.aval.ndim - batched[1] == 1
    if vector and not batched[1]:
        return apply(op, inputs, params)
    if vector:
        b = apply(TABLE["expand_dims"], (b,), ((-1,),))
    out = apply(op, aligned((a, b), batched, rank((a, b), batched)), params)
    return apply(TABLE["squeeze"], (out,), ((-1,),)) if vector else out


@BATCH.of(NORM)
def _batch_norm(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node:
    order, axes, keepdims = params
    return apply(op, inputs, (order, tuple([axis + 1 for axis in axes]), keepdims))


@BATCH.of(CROSS)
def _batch_cross(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    (axis,) = params
    left, right = [n.aval.ndim - on for n, on in zip(inputs, batched, strict=True)]
    if axis >= 0:
        if left != right:
            return None
        axis -= left
    return apply(op, aligned(inputs, batched, max(left, right)), (axis,))
