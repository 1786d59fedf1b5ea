"""Batching rules of products: leading axes for matrix products, one more letter for ops that are Einstein
summations."""

from __future__ import annotations

import math
import string

from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import aligned, all_batched, broadcast_unbatched, rank
from ..define import TABLE
from . import vectors  # noqa: F401  # for their records, in TABLE
from .einsum import EINSUM
from .einsum_notation import parse
from .gathered import BLOCK_MASKED_MM, GATHER_MM, SEGMENTED_MM
from .matmul import ADDMM, MATMUL, TENSORDOT, contracted_axes

__all__: list[str] = []

_Inputs = tuple[Node, ...]
_Flags = tuple[bool, ...]


def _expanded(x: Node, axis: int) -> Node:
    return apply(TABLE["expand_dims"], (x,), ((axis,),))


def _matrices(x: Node, y: Node, batched: _Flags) -> tuple[_Inputs, tuple[int, ...]]:
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
def _batch_matmul(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node:
    x, y = inputs
    if not batched[1] and y.aval.ndim <= 2:
        return apply(op, inputs, params)
    operands, gone = _matrices(x, y, batched)
    return _squeezed(apply(op, operands, params), gone)


@BATCH.of(ADDMM)
def _batch_addmm(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
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


def _summed(terms: list[str], output: str, inputs: _Inputs, batched: _Flags) -> Node | None:
    """Return an Einstein summation with a letter for the batch axis. None if no letter is left."""
    labels = dict.fromkeys("".join([*terms, output]))
    if len(labels) >= len(string.ascii_letters):
        return None
    letters = dict(zip(labels, string.ascii_letters, strict=False))
    new = string.ascii_letters[len(labels)]
    spelled = ["".join([letters[c] for c in term]) for term in (*terms, output)]
    left = ",".join([new + term if on else term for term, on in zip(spelled, batched, strict=False)])
    return apply(EINSUM, inputs, (f"{left}->{new}{spelled[-1]}",))


def _shapes(inputs: _Inputs, batched: _Flags) -> list[tuple[int, ...]]:
    return [n.aval.shape[on:] for n, on in zip(inputs, batched, strict=True)]


@BATCH.of(EINSUM)
def _batch_einsum(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    equation = parse(params[0], _shapes(inputs, batched), "einsum")
    return _summed(list(equation.terms), equation.output, inputs, batched)


def _labels(x: int, y: int, pairs: tuple[tuple[int, ...], ...]) -> tuple[list[str], str]:
    """Return the terms and the output of the Einstein summation over pairs of axes."""
    left, right = [chr(k) for k in range(x)], [chr(x + k) for k in range(y)]
    for i, j in zip(*pairs, strict=True):
        right[j] = left[i]
    output = [c for c in left if c not in right] + [c for c in right if c not in left]
    return ["".join(left), "".join(right)], "".join(output)


@BATCH.of(TENSORDOT)
def _batch_tensordot(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    avals = [aval(shape, n.aval.dtype) for n, shape in zip(inputs, _shapes(inputs, batched), strict=True)]
    terms, output = _labels(avals[0].ndim, avals[1].ndim, contracted_axes(avals[0], avals[1], params[0]))
    return _summed(terms, output, inputs, batched)


@BATCH.of(TABLE["inner"])
def _batch_inner(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    x, y = [len(shape) for shape in _shapes(inputs, batched)]
    terms, output = _labels(x, y, ((x - 1,), (y - 1,)) if x and y else ((), ()))
    return _summed(terms, output, inputs, batched)


def _reshaped(x: Node, on: bool, shape: tuple[int, ...]) -> Node:
    return apply(TABLE["reshape"], (x,), ((x.aval.shape[0], *shape) if on else shape,))


@BATCH.of(TABLE["outer"])
def _batch_outer(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    x, y = [
        _reshaped(n, on, (math.prod(shape),))
        for n, on, shape in zip(inputs, batched, _shapes(inputs, batched), strict=True)
    ]
    return _summed(["a", "b"], "ab", (x, y), batched)


@BATCH.of(TABLE["kron"])
def _batch_kron(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    shapes = _shapes(inputs, batched)
    ndim = max(map(len, shapes))
    left, right = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    x = _reshaped(inputs[0], batched[0], tuple([n for m in left for n in (m, 1)]))
    y = _reshaped(inputs[1], batched[1], tuple([n for m in right for n in (1, m)]))
    blocks = apply(TABLE["multiply"], (x, y))
    return _reshaped(blocks, True, tuple([m * n for m, n in zip(left, right, strict=True)]))


@BATCH.of(TABLE["vecdot"])
def _batch_vecdot(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    (axis,) = params
    x, y = [len(shape) for shape in _shapes(inputs, batched)]
    return apply(op, all_batched(inputs, batched, size), (axis % x - x,)) if x == y else None


@BATCH.of(GATHER_MM)
def _batch_gather(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    left, _ = params
    if left or batched[1] or inputs[0].aval.ndim - batched[0] < 2:
        return None
    x, y, indices = inputs
    batch = max(x.aval.ndim - batched[0] - 2, indices.aval.ndim - batched[2])
    (x,), (indices,) = aligned((x,), batched[:1], batch + 2), aligned((indices,), batched[2:], batch)
    return apply(op, (x, y, indices), params)


@BATCH.of(BLOCK_MASKED_MM)
def _batch_masked(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    if min(map(len, _shapes(inputs[:2], batched[:2]))) < 2:
        return None
    if not any(batched[:2]):
        inputs, batched = (broadcast_unbatched(inputs[0], size), *inputs[1:]), (True, *batched[1:])
    return apply(op, aligned(inputs, batched, rank(inputs, batched)), params)


@BATCH.of(SEGMENTED_MM)
def _batch_segmented(op: Op, params: tuple, inputs: _Inputs, batched: _Flags, size: int) -> Node | None:
    return None if any(batched[:2]) else apply(op, inputs, params)
