"""MLX's primitives for products of vectors, matrices and tensors, gathered and quantized products, and convolutions.
See `primitives`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from mxcompat._graph.ir.aval import complex64, float32, int32, uint32
from mxcompat._ops.products.einsum import own_sums
from mxcompat._ops.products.einsum_notation import parse
from mxcompat._ops.products.einsum_path import Contraction, contraction_order

from .chain import Chain, Constant, Source

__all__ = ["PRODUCTS"]

Operand = tuple[Source, str]
"""An operand of einsum, and the labels of its axes."""


def _einsum(c: Chain, subscripts: str) -> Any:
    equation = parse(subscripts, [a.shape for a in c.in_avals], "einsum")
    at_hand: list[Operand] = []
    for k, labels in enumerate(equation.terms):
        at_hand.append((c.broadcast(k, tuple([equation.sizes[label] for label in labels])), labels))
    for contraction in contraction_order(equation):
        operands = [at_hand[p] for p in contraction.places]
        at_hand = [x for k, x in enumerate(at_hand) if k not in contraction.places]
        if len(operands) > 2:
            return None
        at_hand.append(_contracted(c, operands, contraction))
        if len(at_hand) > 1:
            x, labels = at_hand.pop()
            at_hand.append((c.transpose(x, range(len(labels))), labels))
    x, labels = at_hand[0]
    return c.transpose(x, [labels.index(label) for label in equation.output])


def _contracted(c: Chain, operands: Sequence[Operand], contraction: Contraction) -> Operand:
    """Do one contraction of einsum: first the sums within each operand, then the product."""
    ready = []
    for k, operand in enumerate(operands):
        x, labels = _diagonals(c, operand)
        summed = [labels.index(label) for label in own_sums(k, operands, contraction)]
        x = c.sum(x, summed) if summed else x
        ready.append((x, "".join(label for n, label in enumerate(labels) if n not in summed)))
    if len(ready) == 1:
        return ready[0]
    return _pair(c, ready[0], ready[1], contraction.kept)


def _diagonals(c: Chain, operand: Operand) -> Operand:
    """Take the diagonals of repeated labels. As in MLX, the axes of these labels come first, in reverse order."""
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
    diagonals = c.squeeze(c.gather(x, indices, axes, sizes), [len(common) + k for k in sorted(axes)])
    return diagonals, "".join(twice) + "".join(label for label in labels if label not in twice)


def _pair(c: Chain, a: Operand, b: Operand, kept: Collection[str]) -> Operand:
    """Multiply two operands: as matrices, or elementwise if there is nothing to sum over."""
    (x, left), (y, right) = a, b
    if all(label in kept for label in left if label in right):
        labels = "".join(dict.fromkeys(left + right))
        return c.op("Multiply", *[_spread_out(c, operand, labels) for operand in (a, b)]), labels
    batch = "".join(label for label in left if label in right and label in kept)
    summed = "".join(label for label in left if label in right and label not in kept)
    first = "".join(label for label in left if label not in right)
    second = "".join(label for label in right if label not in left)
    size = dict(zip(left + right, c.of(x).shape + c.of(y).shape, strict=True))

    def grouped(*groups: str) -> list[int]:
        return [*[size[label] for label in batch], *[prod(size[label] for label in group) for group in groups]]

    x = c.reshape(c.transpose(x, [left.index(label) for label in batch + first + summed]), grouped(first, summed))
    y = c.reshape(c.transpose(y, [right.index(label) for label in batch + summed + second]), grouped(summed, second))
    sides = c.of_one_dtype([x, y])
    out = c.add("Matmul", sides, grouped(first, second))
    labels = batch + first + second
    return c.reshape(out, [size[label] for label in labels]), labels


def _spread_out(c: Chain, operand: Operand, labels: str) -> Source:
    """Transpose an operand to these labels, with axes of size 1 for labels that it lacks."""
    x, own = operand
    if len(own) == len(labels):
        order = [own.index(label) for label in labels]
        return x if order == list(range(len(order))) else c.transpose(x, order)
    x = c.reshape(x, [*c.of(x).shape, *[1] * (len(labels) - len(own))])
    new = iter(range(len(labels) - 1, len(own) - 1, -1))
    order = [own.index(label) if label in own else next(new) for label in labels]
    return x if order == list(range(len(order))) else c.transpose(x, order)


def _matmul(c: Chain) -> Any:
    return c.matmul(0, 1)


def _tensordot(c: Chain, axes: Any) -> Any:
    a, b = c.of(0), c.of(1)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    return _contraction(c, *([k % n for k in ks] for ks, n in zip(axes, (a.ndim, b.ndim), strict=True)))


def _contraction(c: Chain, first: Sequence[int], second: Sequence[int]) -> Any:
    a, b = c.of(0), c.of(1)
    left = [k for k in range(a.ndim) if k not in first]
    right = [k for k in range(b.ndim) if k not in second]
    summed = prod(a.shape[k] for k in first)
    shapes = [a.shape[k] for k in left], [b.shape[k] for k in right]
    x = c.reshape(c.transpose(0, [*left, *first]), (prod(shapes[0]), summed))
    y = c.reshape(c.transpose(1, [*second, *right]), (summed, prod(shapes[1])))
    return c.reshape(c.matmul(x, y), [*shapes[0], *shapes[1]])


def _inner(c: Chain) -> Any:
    if not c.of(0).ndim or not c.of(1).ndim:
        return c.op("Multiply", 0, 1)
    return _contraction(c, [c.of(0).ndim - 1], [c.of(1).ndim - 1])


def _outer(c: Chain) -> Any:
    return c.op("Multiply", c.reshape(0, (c.of(0).size, 1)), c.flat(1))


def _vecdot(c: Chain, axis: int) -> Any:
    first = c.unary("Conjugate", 0) if c.dtype(0) is complex64 else 0
    product = c.op("Multiply", first, 1)
    return c.sum(product, [axis % c.of(product).ndim])


def _kron(c: Chain) -> Any:
    a, b = c.of(0), c.of(1)
    ndim = max(a.ndim, b.ndim)
    first, second = ((1,) * (ndim - len(x.shape)) + x.shape for x in (a, b))
    apart = [m for n in first for m in (n, 1)], [m for n in second for m in (1, n)]
    product = c.op("Multiply", *[c.reshape(k, apart[k]) for k in (0, 1)])
    return c.reshape(product, [n * m for n, m in zip(first, second, strict=True)])


def _addmm(c: Chain) -> Any:
    """Append a matrix product plus an addend. For complex numbers, MLX multiplies and adds separately."""
    dtype, shape = c.out_avals[0].dtype, c.out_avals[0].shape
    scales = tuple(c.numbers[3:]) or (1.0, 1.0)
    if None in scales:
        return None
    if dtype is complex64:
        alpha, beta = (Constant(s, float32) for s in scales)
        return c.op("Add", c.op("Multiply", c.matmul(1, 2), alpha), c.op("Multiply", beta, 0))
    x, y, gone = c.matrices(1, 2)
    x, y, addend = (c.cast(k, dtype) for k in (x, y, 0))
    batch = c.shape(x)[:-2]
    whole = list(shape)
    for k in gone:
        whole.insert(len(whole) + k + 1, 1)
    if batch and c.of(y).ndim == 2 and c.of(addend).ndim < 2:
        rows = prod(c.shape(x)[:-1])
        x = c.reshape(x, (rows, c.shape(x)[-1]), (-1, c.shape(x)[-1]))
        out = c.add("AddMM", [x, y, c.broadcast(addend, (rows, whole[-1]))], (rows, whole[-1]), *scales)
        return c.squeeze(c.reshape(out, whole), sorted(len(whole) + k for k in gone))
    addend = c.broadcast(addend, shape)
    if gone:
        addend = c.reshape(addend, whole)
    x, y = (c.broadcast(k, (*whole[:-2], *c.shape(k)[-2:])) for k in (x, y))
    return c.squeeze(c.add("AddMM", [x, y, addend], whole, *scales), sorted(len(whole) + k for k in gone))


def _chosen(c: Chain, shapes: Sequence[tuple[int, ...]], numbers: Sequence[Source | None]) -> list[Source]:
    """Return the matrix numbers to multiply; by default all of them."""
    indices = [c.numbered(s) if i is None else c.cast(i, uint32) for s, i in zip(shapes, numbers, strict=True)]
    return c.together(indices)


def _gather_mm(c: Chain, left: bool, right: bool) -> Any:
    x, y, gone = c.matrices(0, 1)
    x, y = c.of_one_dtype([x, y])
    indices = _chosen(c, [c.shape(x)[:-2], c.shape(y)[:-2]], [2 if left else None, 2 + left if right else None])
    shape = (*c.shape(indices[0]), c.shape(x)[-2], c.shape(y)[-1])
    out = c.add("GatherMM", [x, y, *indices], shape, False, False)
    return c.squeeze(out, sorted(len(shape) + k for k in gone))


_MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")


def _scheme(how: Any) -> list[int]:
    mode, group_size, bits = how
    return [group_size, bits, _MODES.index(mode)]


def _gather_qmm(biased: bool) -> Callable[..., Any]:
    """Return the rule of a gathered quantized product. Our op takes the packed weights after the scales and biases.
    MLX's op takes them as its second operand."""

    def rule(c: Chain, how: Any, transpose: bool, left: bool, right: bool, scaled: bool) -> Any:
        if scaled:
            return None
        packed = 2 + biased
        parts = [packed, *range(1, packed)]
        numbers = [packed + 1 if left else None, packed + 1 + left if right else None]
        indices = _chosen(c, [c.shape(0)[:-2], c.shape(packed)[:-2]], numbers)
        arguments = [*_scheme(how), transpose, False, False]
        return c.add("GatherQMM", [0, *parts, *indices], c.out_avals[0].shape, *arguments, dtype=c.out_avals[0].dtype)

    return rule


def _quantized_matmul(c: Chain, how: Any, transpose: bool) -> Any:
    """Append a quantized product. Our op takes the packed weights last, MLX's takes them second."""
    last = len(c.in_avals) - 1
    dtype = c.out_avals[0].dtype
    inputs = [c.cast(0, dtype), last, *[c.cast(k, dtype) if how[0] == "affine" else k for k in range(1, last)]]
    return c.add("QuantizedMatmul", inputs, c.out_avals[0].shape, *_scheme(how), transpose, dtype=dtype)


def _quantize(c: Chain, how: Any) -> Any:
    return c.several("Quantize", [0], c.out_avals, *_scheme(how), False) if how[0] == "affine" else None


def _dequantize(c: Chain, how: Any, dtype: Any) -> Any:
    """Dequantize by shifting words. The packed weights are our op's second operand."""
    mode, group, bits = how
    if mode != "affine" or 32 % bits:
        return None
    words, scales, biases = 1, 0, 2
    codes = []
    for k in range(32 // bits):
        up = c.op("BitwiseBinary", words, Constant(32 - bits * (k + 1), uint32), arguments=[3])
        codes.append(c.op("BitwiseBinary", up, Constant(32 - bits, uint32), arguments=[4]))
    ndim = c.of(words).ndim
    rows = c.concatenate([c.expand(x, [ndim]) for x in codes], ndim)
    shape = c.out_avals[0].shape
    apart = (*shape[:-1], shape[-1] // group, group)
    out = c.cast(c.reshape(rows, apart, (*shape[:-1], -1, group)), c.dtype(scales))
    out = c.op("Multiply", out, c.expand(scales, [ndim]))
    out = c.op("Add", out, c.expand(biases, [ndim]))
    return c.cast(c.reshape(out, shape, (*shape[:-1], -1)), c.out_avals[0].dtype)


def _block_masked_mm(c: Chain, size: int, given: tuple[bool, ...]) -> Any:
    sides = c.of_one_dtype([0, 1])
    if not any(given):
        return c.matmul(*sides)
    return c.add("BlockMaskedMM", [*sides, *range(2, len(c.in_avals))], c.out_avals[0].shape, size)


def _convolve(c: Chain, mode: str) -> Any:
    x, y = (0, 1) if c.of(0).size >= c.of(1).size else (1, 0)
    size = c.of(y).size
    low, high = {"full": (size - 1, size - 1), "same": (size // 2, size - size // 2 - 1), "valid": (0, 0)}[mode]
    rows = c.reshape(x, (1, c.of(x).size, 1), (1, -1, 1))
    if low != high:
        zero = c.cast(Constant(0, int32), c.dtype(rows))
        shape = (1, c.of(x).size + low + high, 1)
        rows = c.add("Pad", [rows, zero], shape, [0, 1, 2], (0, low, 0), (0, high, 0))
        low = high = 0
    kernel = c.reshape(c.turned(y, 0), (1, size, 1), (1, -1, 1))
    shape = (1, c.out_avals[0].size, 1)
    sides = c.of_one_dtype([rows, kernel])
    convolved = c.add("Convolution", sides, shape, [1], [low], [high], [1], [1], 1, False)
    return c.reshape(convolved, c.out_avals[0].shape, (-1,))


PRODUCTS: dict[str, Callable[..., Any]] = {
    "addmm": _addmm, "block_masked_mm": _block_masked_mm, "convolve": _convolve, "dequantize": _dequantize,
    "einsum": _einsum, "gather_mm": _gather_mm, "gather_qmm": _gather_qmm(True), "gather_qmm_fp": _gather_qmm(False),
    "inner": _inner, "kron": _kron, "matmul": _matmul, "outer": _outer, "quantize": _quantize,
    "quantized_matmul": _quantized_matmul, "quantized_matmul_fp": _quantized_matmul, "tensordot": _tensordot,
    "vecdot": _vecdot,
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
