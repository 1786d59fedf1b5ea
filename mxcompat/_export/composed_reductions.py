"""MLX's primitives for reductions, scans and sorting. See `primitives`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

from mxcompat._graph.ir.aval import bool_, complex64, int32, uint32

from .chain import ALL, ANY, MAX, MIN, PROD, SUM, Chain, Constant, Source
from .composed_elementwise import absolute, infinite, real_dtype, unknown

__all__ = ["REDUCTIONS", "log_sum_exp"]


def _reduce(kind: int) -> Callable[..., Any]:
    return lambda c, axes, keepdims: c.reduced(0, kind, axes, keepdims)


def _mean(c: Chain, axes: tuple[int, ...], keepdims: bool) -> Any:
    return c.mean(0, axes, keepdims)


def _var(c: Chain, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    return c.variance(0, axes, keepdims, ddof)


def _std(c: Chain, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    return c.unary("Sqrt", _var(c, axes, keepdims, ddof), False)


def _logsumexp(c: Chain, axes: tuple[int, ...], keepdims: bool) -> Any:
    return log_sum_exp(c, 0, axes, keepdims)


def log_sum_exp(c: Chain, x: Source, axes: Sequence[int], keepdims: bool) -> Source:
    """Compute log-sum-exp; over the last axis, it is one primitive."""
    axes, shape = sorted(axes), c.shape(x)
    if axes == [len(shape) - 1] and c.dtype(x) is not complex64:
        kept = c.add("LogSumExp", [c.floating(x)], (*shape[:-1], 1))
        return kept if keepdims else c.squeeze(kept, axes)
    most = c.unary("StopGradient", c.reduced(x, MAX, axes, True))
    away = c.unary("Exp", c.floating(c.op("Subtract", x, most)))
    total = c.unary("Log", c.sum(away, axes, keepdims), 2)
    out = c.op("Add", total, c.reshape(most, c.shape(total)))
    if not keepdims:
        most = c.squeeze(most, axes)
    return c.select(infinite(c, most), most, out)


def _softmax(c: Chain, axes: tuple[int, ...], precise: bool) -> Any:
    """Compute softmax; over the last axes, it is one primitive."""
    dtype, axes = c.dtype(0), tuple(sorted(axes))
    last = range(c.of(0).ndim - len(axes), c.of(0).ndim)
    whole = all(c.shape(0)[k] == 1 for k in axes[:-1])
    if axes and axes == tuple(last) and whole and dtype is not complex64:
        return c.cast(c.unary("Softmax", c.floating(0), precise), c.float_of(0))
    if not c.of(0).size:
        return 0
    most = c.unary("StopGradient", c.reduced(0, MAX, axes, True))
    powers = c.unary("Exp", c.floating(c.op("Subtract", 0, most)))
    return c.cast(c.op("Divide", powers, c.sum(powers, axes, True)), dtype)


def _arg_reduce(kind: int) -> Callable[..., Any]:
    def rule(c: Chain, axis: int | None, keepdims: bool) -> Any:
        flat = axis is None or not c.of(0).ndim
        x, at = (c.flat(0), 0) if flat else (0, axis % c.of(0).ndim)  # type: ignore[operator]
        kept = [1 if k == at else n for k, n in enumerate(c.shape(x))]
        if c.shape(x)[at] == 1 and not c.any_shape:
            indices: Source = c.filled(0, kept, uint32)
        else:
            indices = c.add("ArgReduce", [x], kept, kind, at, dtype=uint32)
        ndim = c.out_avals[0].ndim
        if flat and ndim:
            return c.expand(indices, range(ndim - 1)) if ndim > 1 else indices
        return indices if keepdims and not flat else c.squeeze(indices, [at])

    return rule


def _count_nonzero(c: Chain, axes: tuple[int, ...], keepdims: bool) -> Any:
    nonzero = c.test("NotEqual", 0, c.constant(0, 0))
    return c.sum(c.cast(nonzero, int32), axes, keepdims)


def _median(c: Chain, axes: tuple[int, ...], keepdims: bool) -> Any:
    a = c.of(0)
    if not axes:
        return None
    rest = [k for k in range(a.ndim) if k not in axes]
    x = c.flatten(c.transpose(0, [*rest, *axes]), len(rest), a.ndim - 1)
    axis, n = len(rest), prod(a.shape[k] for k in axes)
    ordered = c.unary("Sort", x, axis)

    def at(k: int) -> Source:
        return c.floating(c.along(ordered, axis, k, k + 1))

    middle = at(n // 2)
    if n % 2 == 0:
        middle = c.op("Add", middle, at(n // 2 - 1))
        middle = c.op("Multiply", middle, c.constant(0.5, middle))
    if a.dtype._kind in "fc":
        nan = c.constant(float("nan"), middle)
        middle = c.select(c.reduced(unknown(c, x), ANY, [axis], True), nan, middle)
    out = c.squeeze(middle, [axis])
    return c.expand(out, sorted(axes)) if keepdims else out


def _topk(c: Chain, k: int, axis: int | None) -> Any:
    x, axis = _line(c, axis)
    start = c.shape(x)[axis] - k
    if not start:
        return x
    return c.along(c.unary("Partition", x, start, axis), axis, start, c.shape(x)[axis])


def _line(c: Chain, axis: int | None) -> tuple[Source, int]:
    """Return the sorted array and axis; without an axis, all elements as one row."""
    if axis is None:
        return c.reshape(0, (c.of(0).size,)), 0
    return 0, axis % max(c.of(0).ndim, 1)


def _sort(name: str) -> Callable[..., Any]:
    def rule(c: Chain, axis: int | None) -> Any:
        x, at = _line(c, axis)
        return c.add(name, [x], c.shape(x), at, dtype=c.out_avals[0].dtype)

    return rule


def _partition(name: str) -> Callable[..., Any]:
    def rule(c: Chain, kth: int, axis: int | None) -> Any:
        x, at = _line(c, axis)
        return c.add(name, [x], c.shape(x), kth % c.shape(x)[at], at, dtype=c.out_avals[0].dtype)

    return rule


_SCANS = ("cummax", "cummin", "cumsum", "cumprod", "logcumsumexp")
"""The ops of scans in the order of MLX's numbers."""


def _scan(name: str) -> Callable[..., Any]:
    """Return the rule of a scan. Without an axis, the scan runs over all elements."""

    def rule(c: Chain, axis: int | None, reverse: bool, inclusive: bool) -> Any:
        x: Source = 0
        if axis is None:
            x = c.flat(0) if name in ("cumsum", "cumprod") else c.reshape(0, (c.of(0).size,), (-1,))
        at = 0 if axis is None else axis % c.of(0).ndim
        if name == "logcumsumexp":
            x = c.floating(x)
        arguments = _SCANS.index(name), at, reverse, inclusive
        return c.add("Scan", [x], c.shape(x), *arguments, dtype=c.out_avals[0].dtype)

    return rule


def _diff(c: Chain, n: int, axis: int) -> Any:
    axis %= c.of(0).ndim
    x: Source = 0
    for _ in range(n):
        size = c.shape(x)[axis]
        sides = c.along(x, axis, 1, size), c.along(x, axis, 0, size - 1)
        x = c.op("Subtract", *sides)
    return x


def _array_equal(c: Chain, equal_nan: bool) -> Any:
    if c.shape(0) != c.shape(1):
        return Constant(False, bool_)
    axes = range(c.of(0).ndim)
    floats = c.dtype(0)._kind in "fc" or c.dtype(1)._kind in "fc"
    equal = c.add("Equal", c.of_one_dtype([0, 1]), c.shape(0), equal_nan and floats, dtype=bool_)
    return c.reduced(equal, ALL, axes)


def _searchsorted(c: Chain, side: str) -> Any:
    row, values = c.of_one_dtype([0, 1])
    return c.add("SearchSorted", [row, values], c.shape(values), side == "right", dtype=uint32)


def _norm(c: Chain, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    ndim = c.of(0).ndim
    if order is None:
        if len(axes) == ndim > 1:
            return c.reshape(_length(c, c.flat(0), [0], keepdims), c.out_avals[0].shape)
        return _length(c, 0, axes, keepdims)
    return _vector_norm(c, order, axes, keepdims) if len(axes) == 1 else _matrix_norm(c, order, axes, keepdims)


def _length(c: Chain, x: Source, axes: Sequence[int], keepdims: bool) -> Any:
    if c.dtype(x) is complex64:
        sizes = absolute(c, x)
        squares: Source = c.op("Multiply", sizes, sizes)
    else:
        squares = c.unary("Square", x)
    return c.unary("Sqrt", c.floating(c.sum(squares, axes, keepdims)), False)


def _vector_norm(c: Chain, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if order == 2:
        return _length(c, 0, axes, keepdims)
    if order == 0:
        return c.cast(c.sum(c.test("NotEqual", 0, Constant(0, int32)), axes, keepdims), c.out_avals[0].dtype)
    sizes = absolute(c, 0)
    if order in (inf, -inf):
        return c.cast(c.reduced(sizes, MAX if order > 0 else MIN, axes, keepdims), c.out_avals[0].dtype)
    if order == 1:
        return c.cast(c.sum(sizes, axes, keepdims), c.out_avals[0].dtype)
    powers = c.op("Power", sizes, Constant(order, c.out_avals[0].dtype))
    total = c.sum(powers, axes, keepdims)
    return c.op("Power", total, Constant(1 / order, c.out_avals[0].dtype))


def _matrix_norm(c: Chain, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if order in ("f", "fro"):
        return _length(c, 0, axes, keepdims)
    if order in ("nuc", 2, -2):
        if tuple(axes) != (c.of(0).ndim - 2, c.of(0).ndim - 1):
            return None
        shape = c.shape(0)
        values = c.add("SVD", [0], (*shape[:-2], min(shape[-2:])), False, dtype=real_dtype(c.dtype(0)))
        kind = {"nuc": SUM, 2: MAX, -2: MIN}[order]
        out = c.cast(c.reduced(values, kind, [len(shape) - 2]), c.out_avals[0].dtype)
        return c.expand(out, sorted(axes)) if keepdims else out
    if order not in (1, -1, inf, -inf):
        return None
    rows, columns = axes
    first, second = (rows, columns) if order in (1, -1) else (columns, rows)
    total = c.sum(absolute(c, 0), [first], keepdims)
    left = second if keepdims or second < first else second - 1
    return c.cast(c.reduced(total, MAX if order > 0 else MIN, [left], keepdims), c.out_avals[0].dtype)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _scan(name) for name in _SCANS},
    "all": _reduce(ALL), "any": _reduce(ANY), "argmax": _arg_reduce(1), "argmin": _arg_reduce(0),
    "argpartition": _partition("ArgPartition"), "argsort": _sort("ArgSort"), "array_equal": _array_equal,
    "count_nonzero": _count_nonzero, "diff": _diff, "linalg_norm": _norm,
    "logsumexp": _logsumexp, "max": _reduce(MAX), "mean": _mean, "median": _median, "min": _reduce(MIN),
    "partition": _partition("Partition"), "prod": _reduce(PROD), "searchsorted": _searchsorted, "softmax": _softmax,
    "sort": _sort("Sort"), "std": _std, "sum": _reduce(SUM), "topk": _topk, "var": _var,
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
