"""MLX's primitives for random numbers: random bits, uniform numbers made of bits, and distributions made of uniform
numbers. See `primitives`."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Dtype, aval, complex64, float32, int32, uint32

from .chain import MAX, Chain, Constant, Group, Member, Source
from .composed_elementwise import infinite

__all__ = ["RANDOM"]


def _bits(c: Chain, key: Source, shape: tuple[int, ...]) -> int:
    return c.add("RandomBits", [key], shape, tuple(shape), 4, dtype=uint32)


def _split(c: Chain, num: int) -> Any:
    return _bits(c, 0, (num, 2))


def _chain(c: Chain, count: int) -> Any:
    """Split the implicit key once for each draw. Return the last key, and a Group with the two keys of each split."""
    key: Source = 0
    links: list[Source] = []
    for _ in range(count):
        rows = c.split(_bits(c, key, (2, 2)), [1], 0)
        links += [c.reshape(row, (2,)) for row in rows]
        key = links[-2]
    return [key, Group(links)]


def _link(c: Chain, column: int) -> Any:
    row = c.numbers[1]
    return None if row is None else Member(0, 2 * row + column)


def _bound(c: Chain, x: Source, dtype: Dtype | None = None) -> Source:
    """Cast a bound. If it is a Python number, MLX first makes an array of it."""
    number = c.numbers[x] if isinstance(x, int) and x >= 0 else None
    if number is not None:
        x = Constant(number, int32 if isinstance(number, int) else float32)
    return c.cast(x, dtype or c.dtype(x))


def _between(c: Chain, low: Source, high: Source, shape: tuple[int, ...], dtype: Dtype) -> Source:
    """Draw uniform numbers between two bounds."""
    width = c.op("Subtract", high, low)
    whole = Constant(2.0**32, float32)
    unit = c.op("Divide", c.cast(_bits(c, 0, shape), float32), whole)
    unit = c.cast(c.op("Minimum", unit, Constant(_below_one(dtype), float32)), dtype)
    return c.op("Add", c.op("Multiply", width, unit), low)


def _below_one(dtype: Dtype) -> float:
    kind = dtype._numpy.type  # type: ignore[union-attr]
    return float(np.nextafter(kind(1), kind(0)))


def _uniform(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    return _between(c, _bound(c, 1, dtype), _bound(c, 2, dtype), shape, dtype)


def _symmetric(c: Chain, shape: tuple[int, ...], dtype: Dtype = float32) -> Source:
    low = Constant(-_below_one(dtype), dtype)
    return _between(c, low, Constant(1.0, dtype), shape, dtype)


def _normal(c: Chain, shape: tuple[int, ...], dtype: Dtype, given: tuple[bool, bool]) -> Any:
    scale = c.cast(1 + given[0], dtype) if given[1] else None
    if dtype is complex64:
        pairs = c.unary("ErfInv", _symmetric(c, (*shape, 2)))
        x = c.squeeze(c.add("View", [pairs], (*shape, 1), dtype, dtype=dtype), [len(shape)])
        x = x if scale is None else c.op("Multiply", scale, x)
    else:
        x = c.cast(c.unary("ErfInv", _symmetric(c, shape)), dtype)
        root = Constant(sqrt(2), dtype)
        x = c.op("Multiply", root if scale is None else c.op("Multiply", root, scale), x)
    return c.op("Add", c.cast(1, dtype), x) if given[0] else x


def _truncated_normal(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    root = Constant(sqrt(2), dtype)
    low, high = _bound(c, 1, dtype), _bound(c, 2, dtype)
    first, last = (c.unary("Erf", c.op("Divide", x, root)) for x in (low, high))
    x = c.op("Multiply", root, c.unary("ErfInv", _between(c, first, last, shape, dtype)))
    return c.op("Maximum", c.op("Minimum", high, x), low)


def _noise(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Source:
    """Sample from the standard Gumbel distribution."""
    x = _between(c, Constant(0.0, dtype), Constant(1.0, dtype), shape, dtype)
    for _ in range(2):
        x = c.unary("Negative", c.unary("Log", x, 2))
    return x


def _gumbel(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    return _noise(c, shape, dtype)


def _laplace(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    loc, scale = c.numbers[1:]
    if loc is None or scale is None:
        return None
    x = _symmetric(c, shape)
    size = c.unary("Log1p", c.op("Multiply", Constant(-1.0, dtype), c.unary("Abs", x)))
    x = c.cast(c.op("Multiply", c.unary("Sign", x), size), dtype)
    x = c.op("Multiply", Constant(scale, dtype), x) if scale != 1 else x
    return c.op("Add", Constant(loc, dtype), x) if loc else x


def _randint(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    low, high = _bound(c, 1), _bound(c, 2)
    x = _between(c, c.cast(low, float32), c.cast(high, float32), shape, float32)
    x = c.cast(c.unary("Floor", x), dtype)
    last = c.op(
        "Subtract", high, Constant(1, promote(c.dtype(high), int32) if c.dtype(high)._kind == "b" else c.dtype(high))
    )
    return c.op("Maximum", c.op("Minimum", x, c.cast(last, dtype)), c.cast(low, dtype))


def _bernoulli(c: Chain, shape: tuple[int, ...]) -> Any:
    limit = c.op(
        "Multiply", _bound(c, 1), Constant(float(np.nextafter(np.float32(2**32), np.float32(np.inf))), float32)
    )
    return c.test("Less", _bits(c, 0, shape), limit)


def _categorical(c: Chain, axis: int, shape: tuple[int, ...], samples: bool) -> Any:
    ndim = len(shape)
    logits: Source = c.expand(1, [ndim - 1]) if samples else 1
    x = c.op("Add", _noise(c, shape, float32), logits)
    kept = [1 if k == axis % ndim else n for k, n in enumerate(shape)]
    if shape[axis] == 1:
        drawn: Source = c.filled(0, kept, uint32)
    else:
        drawn = c.add("ArgReduce", [x], kept, 1, axis % ndim, dtype=uint32)
    return c.squeeze(drawn, [axis % ndim])


def _categorical_line(c: Chain, shape: tuple[int, ...]) -> Any:
    """Sample from one row of logits, by inverting the cumulative sum of its weights at uniform numbers."""
    x = c.expand(1, [c.of(1).ndim]) if len(shape) == c.of(1).ndim else 1
    x = c.reshape(x, (c.of(1).size,))
    x = c.cast(x, promote(c.dtype(x), float32))
    most = c.reduced(x, MAX, [0])
    alike = c.cast(c.equal(x, most), c.dtype(x))
    weights = c.select(infinite(c, most), alike, c.unary("Exp", c.op("Subtract", x, most)))
    bounds = c.unary("Scan", weights, 2, 0, False, False)
    place = _between(c, Constant(0.0, float32), Constant(1.0, float32), shape, float32)
    place = c.op("Multiply", place, c.sum(weights, [0]))
    drawn = c.add("SearchSorted", [bounds, place], shape, True, dtype=uint32)
    return c.op("Subtract", drawn, Constant(1, uint32))


def _permutation(c: Chain, size: int) -> Any:
    return c.unary("ArgSort", _bits(c, 0, (size,)), 0)


def _permute(c: Chain, axis: int) -> Any:
    shape = c.shape(1)
    axis %= len(shape)
    sizes = [1 if k == axis else n for k, n in enumerate(shape)]
    permuted: Source = c.gather(1, [_permutation(c, shape[axis])], [axis], sizes)
    if axis:
        permuted = c.transpose(permuted, [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)])
    return c.squeeze(permuted, [axis + 1])


def _multivariate_normal(c: Chain, shape: tuple[int, ...]) -> Any:
    batch, n = c.shape(2)[:-2], c.shape(1)[-1]
    x = c.op("Multiply", Constant(sqrt(2), float32), c.unary("ErfInv", _symmetric(c, (*shape, n))))
    avals = [aval((*batch, *s), float32) for s in ((n, n), (n,), (n, n))]
    u, s, vt = c.several("SVD", [c.cast(2, float32)], avals, True)
    roots = c.expand(c.unary("Sqrt", s, False), [len(batch)])
    root = c.matmul(c.op("Multiply", u, roots), vt)
    x = c.squeeze(c.matmul(c.expand(x, [len(shape)]), root), [len(shape)])
    return c.op("Add", 1, x)


RANDOM: dict[str, Callable[..., Any]] = {
    "random_bernoulli": _bernoulli, "random_categorical": _categorical,
    "random_categorical_line": _categorical_line, "random_chain": _chain,
    "random_gumbel": _gumbel, "random_laplace": _laplace, "random_link": _link,
    "random_multivariate_normal": _multivariate_normal, "random_normal": _normal,
    "random_permutation": _permutation, "random_permute": _permute, "random_randint": _randint,
    "random_split": _split, "random_truncated_normal": _truncated_normal, "random_uniform": _uniform,
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
