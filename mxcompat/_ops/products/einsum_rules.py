"""Rules of Einstein summation. NumPy runs the steps of the lowering, each one product for BLAS. The derivatives are
Einstein summations, too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD, READS_INPUTS, RESIDUALS
from mxcompat._graph.policy import MOST_ENTRIES

from ..movement.diagonals import sum_dtype
from .batched_sums import batched_sum, own_shapes
from .contraction import Numbers, contract, rounded, wide_dtype, widened
from .einsum import EINSUM, at_once, own_sums
from .einsum_notation import Equation, parse
from .einsum_path import Contraction, contraction_order
from .matmul import common

__all__: list[str] = []


@lru_cache(MOST_ENTRIES)
def _parsed(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> Equation:
    return parse(subscripts, shapes, "einsum")


@lru_cache(MOST_ENTRIES)
def _as_contraction(subscripts: str, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[Numbers, tuple[int, ...]] | None:
    """Return the axes of the single contraction that equals this einsum of two operands, and the order of the result's
    axes.

    The result is None if the einsum is not exactly one contraction.
    """
    (left, right), output, sizes = _parsed(subscripts, (x, y))
    shared = [c for c in left if c in right]
    summed = [c for c in shared if c not in output]
    batch = [c for c in shared if c in output]
    rest = [c for c in left + right if c not in shared]
    once = len(set(left)) == len(left) and len(set(right)) == len(right)
    full = all(sizes[c] == n for c, n in zip(left + right, x + y, strict=True))
    if not (summed and once and full and sorted(output) == sorted(batch + rest)):
        return None
    sums, batches = ([tuple([t.index(c) for c in group]) for t in (left, right)] for group in (summed, batch))
    labels = batch + rest
    return ((sums[0], sums[1]), (batches[0], batches[1])), tuple([labels.index(c) for c in output])


Labelled = tuple[Any, str]
"""An array, and a label for each of its axes."""


def _total(x: Any, labels: str, summed: Sequence[str]) -> Labelled:
    """Return the sum over some labels."""
    dtype = sum_dtype(from_numpy(x.dtype))._numpy  # type: ignore[arg-type]
    x = rounded(np.add.reduce(x, tuple([labels.index(c) for c in summed]), wide_dtype(dtype)), dtype)
    return x, "".join([c for c in labels if c not in summed])


def _diagonals(x: Any, labels: str) -> Labelled:
    """Return a view of the array with each label on one axis only."""
    kept = "".join(dict.fromkeys(labels))
    shape = [x.shape[labels.index(c)] for c in kept]
    strides = [sum([s for s, other in zip(x.strides, labels, strict=True) if other == c]) for c in kept]
    return np.lib.stride_tricks.as_strided(x, shape, strides), kept


def _stretched(x: Any, labels: str, other: Any, there: str) -> Any:
    """Return the array with its axes of size 1 repeated to the size of the other array."""
    shape = tuple([
        other.shape[there.index(c)] if n == 1 and c in there else n for c, n in zip(labels, x.shape, strict=True)
    ])  # fmt: skip
    return x if shape == x.shape else np.broadcast_to(x, shape)


def _pair(a: Labelled, b: Labelled, kept: Any) -> Labelled:
    """Return the product of two operands, summed over their shared labels that are not kept."""
    (x, left), (y, right) = a, b
    dtype = common(x, y)
    shared = [c for c in left if c in right]
    summed = [c for c in shared if c not in kept]
    if not summed:
        labels = left + "".join([c for c in right if c not in left])
        shape = [1] * len(labels)
        for c, n in zip(right, y.shape, strict=True):
            shape[labels.index(c)] = n
        order = sorted(range(len(right)), key=lambda k: labels.index(right[k]))
        x = rounded(x, dtype).reshape(x.shape + (1,) * (len(labels) - len(left)))
        return x * rounded(y, dtype).transpose(order).reshape(shape), labels
    batch = [c for c in shared if c in kept]
    x, y = _stretched(widened(x, dtype), left, y, right), _stretched(widened(y, dtype), right, x, left)
    sums, batches = ([tuple([t.index(c) for c in group]) for t in (left, right)] for group in (summed, batch))
    out = rounded(contract(x, y, ((sums[0], sums[1]), (batches[0], batches[1]))), dtype)
    return out, "".join([*batch, *[c for c in left if c not in shared], *[c for c in right if c not in shared]])


def _contracted(operands: Sequence[Labelled], contraction: Contraction) -> Labelled:
    """Run one contraction: reduce each operand alone first, then multiply."""
    ready = []
    together = at_once([from_numpy(x.dtype) for x, _ in operands])  # type: ignore[arg-type]
    for k, (x, labels) in enumerate(operands):
        if len(set(labels)) < len(labels):
            x, labels = _diagonals(x, labels)
        summed = [] if together else own_sums(k, operands, contraction)
        ready.append(_total(x, labels, summed) if summed else (x, labels))
    if len(ready) == 1:
        return ready[0]
    while len(ready) > 2:
        ready[:2] = [_pair(ready[0], ready[1], contraction.labels)]
    x, labels = _pair(ready[0], ready[1], contraction.labels if together else contraction.kept)
    summed = [c for c in labels if c not in contraction.kept]
    return _total(x, labels, summed) if summed else (x, labels)


def _evaluated(equation: Equation, xs: Sequence[Any]) -> Any:
    at_hand: list[Labelled] = list(zip(xs, equation.terms, strict=True))
    for contraction in contraction_order(equation):
        operands = [at_hand[p] for p in contraction.places]
        at_hand = [x for k, x in enumerate(at_hand) if k not in contraction.places]
        at_hand.append(_contracted(operands, contraction))
    x, labels = at_hand[0]
    x = x.transpose([labels.index(c) for c in equation.output])
    shape = tuple([equation.sizes[c] for c in equation.output])
    return x if x.shape == shape else np.broadcast_to(x, shape)


@HOST.of(EINSUM)
def _host_einsum(out: Any, params: tuple, *xs: Any) -> Any:
    shapes = tuple([x.shape for x in xs])
    if len(xs) == 2:
        contraction = _as_contraction(params[0], *shapes)
        if contraction is not None:
            numbers, order = contraction
            dtype = out.dtype._numpy
            return rounded(contract(widened(xs[0], dtype), widened(xs[1], dtype), numbers).transpose(order), dtype)
    return _evaluated(_parsed(params[0], shapes), xs)


@PULLBACK.of(EINSUM)
def _pull_einsum(g: Any, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> Any:
    terms, output, sizes = _parsed(params[0], tuple([x.shape for x in xs]))
    g, dtype = widened(g, y.dtype), y.dtype
    operands = [widened(x, dtype) for x in xs]
    cotangents = []
    for k, term in enumerate(terms):
        if not needs_grad[k]:
            cotangents.append(None)
            continue
        rest = [(output, g), *[(t, o) for j, (t, o) in enumerate(zip(terms, operands, strict=True)) if j != k]]
        labels = "".join(dict.fromkeys(term))
        known = "".join([c for c in labels if any(c in t for t, _ in rest)])
        gx = _evaluated(Equation(tuple([t for t, _ in rest]), known, sizes), [o for _, o in rest])
        lengths = [sizes[c] for c in labels]
        gx = gx.reshape([n if c in known else 1 for c, n in zip(labels, lengths, strict=True)])
        gx = np.broadcast_to(gx, lengths)
        if len(labels) < len(term):
            whole = np.zeros([sizes[c] for c in term], gx.dtype)
            _diagonals(whole, term)[0][...] = gx
            gx = whole
        cotangents.append(gx)
    return tuple(cotangents)


@PUSHFORWARD.of(EINSUM)
def _push_einsum(tangents: Any, y: Any, params: tuple, *xs: Any) -> Any:
    equation = _parsed(params[0], tuple([x.shape for x in xs]))
    operands = [widened(x, y.dtype) for x in xs]
    total: Any = 0
    for k, t in enumerate(tangents):
        if t is not None:
            total = total + _evaluated(equation, [*operands[:k], widened(t, y.dtype), *operands[k + 1 :]])
    return total


RESIDUALS[EINSUM] = READS_INPUTS


@BATCH.of(EINSUM)
def _batch_einsum(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    equation = parse(params[0], own_shapes(inputs, batched), "einsum")
    return batched_sum(list(equation.terms), equation.output, inputs, batched)
