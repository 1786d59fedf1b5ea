"""Rules of `inner`, `outer`, `vecdot` and `kron`. Their derivatives are products again, laid out for BLAS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, COST, HOST, PULLBACK, PUSHFORWARD, READS_INPUTS, RESIDUALS

from ..batching import all_batched
from ..cost import product_cost
from ..define import TABLE
from .batched_sums import batched_sum, labels_of, own_shapes
from .contraction import Numbers, bilinear, contract, pull_contraction, rounded, wide_dtype, widened
from .vectors import INNER, KRON, OUTER, VECDOT

__all__: list[str] = []


def inner_numbers(x: Any, y: Any) -> Numbers:
    """Return the axes that `inner` sums over."""
    return ((x.ndim - 1,), (y.ndim - 1,)), ((), ())


def inner(x: Any, y: Any) -> Any:
    return contract(x, y, inner_numbers(x, y)) if x.ndim and y.ndim else x * y


def _of_vectors(product: Any) -> Any:
    def rule(out: Any, params: tuple, x: Any, y: Any) -> Any:
        dtype = out.dtype._numpy
        return rounded(product(widened(x, dtype), widened(y, dtype)), dtype)

    return rule


HOST[INNER] = _of_vectors(inner)


COST.of(INNER)(product_cost)


@PULLBACK.of(INNER)
def _pull_inner(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    if not x.ndim or not y.ndim:
        return g * y, g * x
    dtype = out.dtype
    return pull_contraction(widened(g, dtype), widened(x, dtype), widened(y, dtype), inner_numbers(x, y), needs_grad)


def _push_vectors(product: Any) -> Any:
    def rule(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
        return bilinear(product, tangents, out.dtype, x, y)

    return rule


PUSHFORWARD[INNER] = _push_vectors(inner)


@BATCH.of(INNER)
def _batch_inner(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    x, y = [len(shape) for shape in own_shapes(inputs, batched)]
    terms, output = labels_of(x, y, ((x - 1,), (y - 1,)) if x and y else ((), ()))
    return batched_sum(terms, output, inputs, batched)


def outer(x: Any, y: Any) -> Any:
    return x.reshape(-1, 1) * y.reshape(1, -1)


HOST[OUTER] = _of_vectors(outer)


@PULLBACK.of(OUTER)
def _pull_outer(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    g = widened(g, dtype)
    gx = g.dot(widened(y, dtype).ravel()).reshape(x.shape) if needs_grad[0] else None
    gy = g.T.dot(widened(x, dtype).ravel()).reshape(y.shape) if needs_grad[1] else None
    return gx, gy


PUSHFORWARD[OUTER] = _push_vectors(outer)


def _reshaped(x: Node, on: bool, shape: tuple[int, ...]) -> Node:
    return apply(TABLE["reshape"], (x,), ((x.aval.shape[0], *shape) if on else shape,))


@BATCH.of(OUTER)
def _batch_outer(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    x, y = [
        _reshaped(n, on, (math.prod(shape),))
        for n, on, shape in zip(inputs, batched, own_shapes(inputs, batched), strict=True)
    ]
    return batched_sum(["a", "b"], "ab", (x, y), batched)


def vecdot(x: Any, y: Any, axis: int, dtype: Any) -> Any:
    """Return the dot products of vectors with one dtype, summed in `dtype`."""
    products = x.conj() * y if x.dtype.kind == "c" else x * y
    return np.add.reduce(products, axis, dtype)


@HOST.of(VECDOT)
def _host_vecdot(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]
    total = out.dtype._numpy
    product = vecdot(converted_on_host(x, dtype), converted_on_host(y, dtype), params[0] % x.ndim, wide_dtype(total))
    return rounded(product, total)


@PULLBACK.of(VECDOT)
def _pull_vecdot(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    g = np.expand_dims(widened(g, dtype), params[0] % x.ndim)
    x, y = widened(x, dtype), widened(y, dtype)
    return ((g * y).conj(), g * x.conj()) if dtype.kind == "c" else (g * y, g * x)


@PUSHFORWARD.of(VECDOT)
def _push_vecdot(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    axis = params[0] % x.ndim
    return bilinear(lambda a, b: vecdot(a, b, axis, a.dtype), tangents, out.dtype, x, y)


@BATCH.of(VECDOT)
def _batch_vecdot(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    (axis,) = params
    x, y = [len(shape) for shape in own_shapes(inputs, batched)]
    return apply(op, all_batched(inputs, batched, size), (axis % x - x,)) if x == y else None


def interleaved(x: Any, y: Any) -> tuple[Any, Any]:
    """Return two reshaped arrays whose product has the blocks of their Kronecker product, on pairs of axes."""
    ndim = max(x.ndim, y.ndim)
    shapes = [(1,) * (ndim - a.ndim) + a.shape for a in (x, y)]
    left = [n for m in shapes[0] for n in (m, 1)]
    right = [n for m in shapes[1] for n in (1, m)]
    return x.reshape(left), y.reshape(right)


def kron(x: Any, y: Any) -> Any:
    left, right = interleaved(x, y)
    blocks = left * right
    return blocks.reshape([m * n for m, n in zip(blocks.shape[::2], blocks.shape[1::2], strict=True)])


HOST[KRON] = _of_vectors(kron)


@PULLBACK.of(KRON)
def _pull_kron(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    left, right = interleaved(widened(x, dtype), widened(y, dtype))
    g = widened(g, dtype).reshape(np.broadcast_shapes(left.shape, right.shape))
    gx = (g * right).sum(tuple(range(1, g.ndim, 2))).reshape(x.shape) if needs_grad[0] else None
    gy = (g * left).sum(tuple(range(0, g.ndim, 2))).reshape(y.shape) if needs_grad[1] else None
    return gx, gy


PUSHFORWARD[KRON] = _push_vectors(kron)


for _op in (INNER, OUTER, KRON, VECDOT):
    RESIDUALS[_op] = READS_INPUTS


@BATCH.of(KRON)
def _batch_kron(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    shapes = own_shapes(inputs, batched)
    ndim = max(map(len, shapes))
    left, right = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    x = _reshaped(inputs[0], batched[0], tuple([n for m in left for n in (m, 1)]))
    y = _reshaped(inputs[1], batched[1], tuple([n for m in right for n in (1, m)]))
    blocks = apply(TABLE["multiply"], (x, y))
    return _reshaped(blocks, True, tuple([m * n for m, n in zip(left, right, strict=True)]))
