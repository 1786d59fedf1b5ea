"""What MLX makes of products, and of what picks elements by where they stand: einsum, tensordot, kron,
medians, triangles, diagonals. See `composed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import bool_, float32, uint32
from mxcompat._ops.products.einsum import own_sums
from mxcompat._ops.products.einsum_notation import parse
from mxcompat._ops.products.einsum_path import Step, contraction_order

from .chain import Chain, Source

__all__ = ["PRODUCTS"]

Operand = tuple[Source, str]
"""An operand of einsum, and the labels of its axes."""


def _einsum(c: Chain, subscripts: str) -> Any:
    equation = parse(subscripts, [a.shape for a in c.given], "einsum")
    at_hand: list[Operand] = []
    for k, labels in enumerate(equation.terms):
        at_hand.append((c.broadcast(k, tuple([equation.sizes[label] for label in labels])), labels))
    for step in contraction_order(equation):
        taken = [at_hand[p] for p in step.places]
        at_hand = [x for k, x in enumerate(at_hand) if k not in step.places]
        if len(taken) > 2:
            return None
        at_hand.append(_contracted(c, taken, step))
        if len(at_hand) > 1:
            x, labels = at_hand.pop()
            at_hand.append((c.transpose(x, range(len(labels))), labels))
    x, labels = at_hand[0]
    return c.transpose(x, [labels.index(label) for label in equation.output])


def _contracted(c: Chain, taken: Sequence[Operand], step: Step) -> Operand:
    """One step of einsum: each operand alone first, then their product."""
    ready = []
    for k, operand in enumerate(taken):
        x, labels = _diagonals(c, operand)
        gone = [labels.index(label) for label in own_sums(k, taken, step)]
        x = c.sum(x, sorted(gone), False) if gone else x
        ready.append((x, "".join(label for n, label in enumerate(labels) if n not in gone)))
    if len(ready) == 1:
        return ready[0]
    return _pair(c, ready[0], ready[1], step.kept)


def _diagonals(c: Chain, operand: Operand) -> Operand:
    """An operand without labels that stand twice. MLX puts their axes to the front, the last of them first."""
    x, labels = operand
    twice = [label for label in reversed(dict.fromkeys(labels)) if labels.count(label) > 1]
    if not twice:
        return operand
    shape = c.of(x).shape
    common = tuple(shape[labels.index(label)] for label in twice)
    axes: list[int] = []
    indices: list[Source] = []
    for k, label in enumerate(twice):
        places = c.broadcast(c.reshape(c.arange(0, common[k]), (common[k], *[1] * (len(twice) - k - 1))), common)
        own = [axis for axis, other in enumerate(labels) if other == label]
        axes += own
        indices += [places] * len(own)
    sizes = tuple(1 if k in axes else n for k, n in enumerate(shape))
    found = c.add("Gather", [x, *indices], (*common, *sizes), axes, sizes)
    found = c.squeeze(found, [len(common) + k for k in sorted(axes)])
    return found, "".join(twice) + "".join(label for label in labels if label not in twice)


def _pair(c: Chain, a: Operand, b: Operand, kept: Collection[str]) -> Operand:
    """A product of matrices, or of elements if there is nothing to sum over."""
    (x, left), (y, right) = a, b
    if all(label in kept for label in left if label in right):
        labels = "".join(dict.fromkeys(left + right))
        sizes = {label: n for operand in (a, b) for label, n in zip(operand[1], c.of(operand[0]).shape, strict=True)}
        shape = tuple(sizes[label] for label in labels)
        dtype = promote(c.of(x).dtype, c.of(y).dtype)
        sides = [c.broadcast(c.cast(_spread_out(c, operand, labels), dtype), shape) for operand in (a, b)]
        return c.add("Multiply", sides, shape), labels
    batch = "".join(label for label in left if label in right and label in kept)
    summed = "".join(label for label in left if label in right and label not in kept)
    first = "".join(label for label in left if label not in right)
    second = "".join(label for label in right if label not in left)
    size = dict(zip(left + right, c.of(x).shape + c.of(y).shape, strict=True))

    def grouped(*groups: str) -> list[int]:
        return [*[size[label] for label in batch], *[prod(size[label] for label in group) for group in groups]]

    x = c.reshape(c.transpose(x, [left.index(label) for label in batch + first + summed]), grouped(first, summed))
    y = c.reshape(c.transpose(y, [right.index(label) for label in batch + summed + second]), grouped(summed, second))
    dtype = promote(c.of(x).dtype, c.of(y).dtype)
    out = c.add("Matmul", [c.cast(x, dtype), c.cast(y, dtype)], grouped(first, second))
    labels = batch + first + second
    return c.reshape(out, [size[label] for label in labels]), labels


def _spread_out(c: Chain, operand: Operand, labels: str) -> Source:
    """An operand with an axis for each label, of size 1 for those that it has not."""
    x, own = operand
    if len(own) == len(labels):
        order = [own.index(label) for label in labels]
        return x if order == list(range(len(order))) else c.transpose(x, order)
    x = c.reshape(x, [*c.of(x).shape, *[1] * (len(labels) - len(own))])
    new = iter(range(len(labels) - 1, len(own) - 1, -1))
    order = [own.index(label) if label in own else next(new) for label in labels]
    return x if order == list(range(len(order))) else c.transpose(x, order)


def _tensordot(c: Chain, axes: Any) -> Any:
    a, b = c.of(0), c.of(1)
    if a.dtype is not float32 or b.dtype is not float32:
        return None
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    first, second = ([k % n for k in ks] for ks, n in zip(axes, (a.ndim, b.ndim), strict=True))
    left = [k for k in range(a.ndim) if k not in first]
    right = [k for k in range(b.ndim) if k not in second]
    summed = prod(a.shape[k] for k in first)
    shapes = [a.shape[k] for k in left], [b.shape[k] for k in right]
    x = c.reshape(c.transpose(0, [*left, *first]), (prod(shapes[0]), summed))
    y = c.reshape(c.transpose(1, [*second, *right]), (summed, prod(shapes[1])))
    return c.reshape(c.add("Matmul", [x, y], (prod(shapes[0]), prod(shapes[1]))), [*shapes[0], *shapes[1]])


def _kron(c: Chain) -> Any:
    a, b = c.of(0), c.of(1)
    if a.dtype is not b.dtype or not a.ndim or not b.ndim:
        return None
    ndim = max(a.ndim, b.ndim)
    first, second = ((1,) * (ndim - len(x.shape)) + x.shape for x in (a, b))
    apart = [m for n in first for m in (n, 1)], [m for n in second for m in (1, n)]
    shape = tuple(m for pair in zip(first, second, strict=True) for m in pair)
    sides = [c.broadcast(c.reshape(k, apart[k]), shape) for k in (0, 1)]
    return c.reshape(c.add("Multiply", sides, shape), [n * m for n, m in zip(first, second, strict=True)])


def _median(c: Chain, axes: tuple[int, ...], keepdims: bool) -> Any:
    a = c.of(0)
    if a.dtype._kind not in "fiu" or not axes or a.dtype.size > 4:
        return None
    rest = [k for k in range(a.ndim) if k not in axes]
    x = c.transpose(0, [*rest, *axes])
    if len(axes) > 1:
        x = c.add("Flatten", [x], [*c.of(x).shape[: len(rest)], prod(a.shape[k] for k in axes)], len(rest), a.ndim - 1)
    axis, n = len(rest), c.of(x).shape[-1]
    one = (*c.of(x).shape[:-1], 1)
    ordered = c.unary("Sort", x, axis)

    def at(k: int) -> Source:
        starts, stops = [0] * axis + [k], [*one[:-1], k + 1]
        picked: Source = c.add("Slice", [ordered], one, tuple(starts), tuple(stops), (1,) * (axis + 1))
        return picked if a.dtype._kind == "f" else c.add("AsType", [picked], one, float32, dtype=float32)

    middle = at(n // 2)
    if n % 2 == 0:
        middle = c.binary("Add", middle, at(n // 2 - 1))
        middle = c.binary("Multiply", middle, c.constant(0.5, middle))
    if a.dtype._kind == "f":
        unknown = c.add("NotEqual", [x, x], c.of(x).shape, dtype=bool_)
        found = c.add("Reduce", [unknown], one, 1, [axis])
        nan = c.broadcast(c.constant(float("nan"), x), one)
        middle = c.add("Select", [found, nan, middle], one, dtype=a.dtype)
    out = c.squeeze(middle, [axis])
    if not keepdims:
        return out
    return c.add("ExpandDims", [out], [1 if k in axes else n for k, n in enumerate(a.shape)], sorted(axes))


def _triangle(c: Chain, k: int, upper: bool) -> Any:
    shape = c.of(0).shape
    inside = c.broadcast(c.below(shape[-2], shape[-1], k - upper), shape)
    zero = c.broadcast(c.constant(0, 0), shape)
    return c.add("Select", [inside, zero, 0] if upper else [inside, 0, zero], shape, dtype=c.of(0).dtype)


def _diagonal(c: Chain, offset: int, axis1: int, axis2: int) -> Any:
    shape = c.of(0).shape
    axes = [axis1 % len(shape), axis2 % len(shape)]
    starts = max(-offset, 0), max(offset, 0)
    size = max(min(shape[k] - start for k, start in zip(axes, starts, strict=True)), 0)
    rows, columns = (c.arange(start, start + size) for start in starts)
    sizes = tuple(1 if k in axes else n for k, n in enumerate(shape))
    found = c.add("Gather", [0, rows, columns], (size, *sizes), axes, sizes)
    found = c.squeeze(found, sorted(k + 1 for k in axes))
    ndim = len(shape) - 1
    return found if ndim == 1 else c.transpose(found, [*range(1, ndim), 0])


def _trace(c: Chain, offset: int, axis1: int, axis2: int) -> Any:
    found = _diagonal(c, offset, axis1, axis2)
    return c.sum(found, [c.of(found).ndim - 1], False)


def _diag(c: Chain, k: int) -> Any:
    n = c.of(0).size
    shape = (n + abs(k), n + abs(k))
    zeros = c.unary("Full", c.broadcast(c.constant(0, 0), shape))
    rows, columns = (c.arange(start, start + n, dtype=uint32) for start in (max(-k, 0), max(k, 0)))
    return c.add("Scatter", [zeros, rows, columns, c.reshape(0, (n, 1, 1))], shape, 4, [0, 1])


PRODUCTS: dict[str, Callable[..., Any]] = {
    "diag": _diag, "diagonal": _diagonal, "einsum": _einsum, "kron": _kron, "median": _median,
    "tensordot": _tensordot, "trace": _trace, "triangle": _triangle,
}  # fmt: skip
"""`rule(chain, **params)`, as in `composed.COMPOSED`."""
