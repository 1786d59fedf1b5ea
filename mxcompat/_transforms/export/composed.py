"""What MLX makes of the ops that are one here and several primitives there: statistics, copies, tests of numbers.

A rule lays the primitives down one after the other, on a `Chain`. One that cannot tell, or has a case that MLX computes
in another way, returns None: the op is then told as one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, Dtype, aval, bool_

from .chain import Chain, Constant, Part, Source

__all__ = ["COMPOSED", "is_equal", "rolled"]


def _mean(c: Chain, axes: tuple[int, ...], keepdims: bool) -> Any:
    return c.mean(0, axes, keepdims) if c.of(0).dtype._kind == "f" and axes else None


def _var(c: Chain, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    return c.variance(0, axes, keepdims, ddof)[0] if c.of(0).dtype._kind == "f" and axes else None


def _std(c: Chain, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Any:
    variance = _var(c, axes, keepdims, ddof)
    return None if variance is None else c.unary("Sqrt", variance, False)


def _repeat(c: Chain, repeats: int, axis: int | None) -> Any:
    if axis is None:
        return _repeat_along(c, c.flat(0), repeats, 0)
    return _repeat_along(c, 0, repeats, axis % c.of(0).ndim)


def _repeat_along(c: Chain, x: Source, repeats: int, axis: int) -> Any:
    shape = c.of(x).shape
    if repeats == 1 or not c.of(x).size:
        return None
    lead, rest = shape[: axis + 1], shape[axis + 1 :]
    apart = c.add("ExpandDims", [x], (*lead, 1, *rest), [axis + 1])
    return c.reshape(c.broadcast(apart, (*lead, repeats, *rest)), (*shape[:axis], shape[axis] * repeats, *rest))


def _tile(c: Chain, reps: tuple[int, ...]) -> Any:
    ndim = max(len(reps), c.of(0).ndim)
    shape = (1,) * (ndim - c.of(0).ndim) + c.of(0).shape
    reps = (1,) * (ndim - len(reps)) + tuple(reps)
    apart = [m for n, r in zip(shape, reps, strict=True) for m in ((1, n) if r != 1 else (n,))]
    wide = tuple([m for n, r in zip(shape, reps, strict=True) for m in ((r, n) if r != 1 else (n,))])
    if all(r == 1 for r in reps):
        return None
    return c.reshape(c.broadcast(c.reshape(0, apart), wide), [n * r for n, r in zip(shape, reps, strict=True)])


def _outer(c: Chain) -> Any:
    shape = (c.of(0).size, c.of(1).size)
    if c.of(0).dtype is not c.of(1).dtype:
        return None
    first, second = c.reshape(c.flat(0), (shape[0], 1)), c.flat(1)
    return c.add("Multiply", [c.broadcast(first, shape), c.broadcast(second, shape)], shape)


def _norm(c: Chain, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    x = c.of(0)
    if order is not None or x.dtype._kind != "f" or (len(axes) > 1 and (keepdims or len(axes) < x.ndim)):
        return None
    if len(axes) > 1:
        return c.unary("Sqrt", c.sum(c.unary("Square", c.flat(0)), [0], False), False)
    return c.unary("Sqrt", c.sum(c.unary("Square", 0), axes, keepdims), False)


def _inner(c: Chain) -> Any:
    x, y = c.of(0), c.of(1)
    if x.ndim != 2 or y.ndim != 2 or x.dtype is not y.dtype:
        return None
    first = c.add("Transpose", [0], x.shape, [0, 1])
    second = c.add("Transpose", [1], y.shape[::-1], [1, 0])
    return c.add("Matmul", [first, second], (x.shape[0], y.shape[0]))


def _roll(c: Chain, axes: tuple[int, ...] | None) -> Any:
    shifts = c.numbers[1:]
    if None in shifts or not c.of(0).size:
        return None
    shape = c.of(0).shape
    if axes is None:
        return c.reshape(rolled(c, c.flat(0), shifts[0], 0), shape) if len(shifts) == 1 else None
    if len(shifts) not in (1, len(axes)):
        return None
    x: Source = 0
    for k, axis in enumerate(axes):
        x = rolled(c, x, shifts[k % len(shifts)], axis % len(shape))
    return x if c.steps else None


def rolled(c: Chain, x: Source, shift: int, axis: int) -> Source:
    a = c.of(x)
    size = a.shape[axis]
    at = -shift % size
    if not at:
        return x
    parts = [aval((*a.shape[:axis], n, *a.shape[axis + 1 :]), a.dtype) for n in (at, size - at)]
    split = Part(c.add("Split", [x], parts[0].shape, (at,), axis), 0)
    c.steps[~split.of] = c.steps[~split.of]._replace(results=parts)
    return c.add("Concatenate", [split._replace(number=1), split], a.shape, axis, dtype=a.dtype)


def _topk(c: Chain, k: int, axis: int | None) -> Any:
    if axis is None:
        return None
    shape = list(c.of(0).shape)
    axis %= len(shape)
    start = shape[axis] - k
    parted = c.unary("Partition", 0, start, axis)
    starts = [start if n == axis else 0 for n in range(len(shape))]
    lengths = [k if n == axis else size for n, size in enumerate(shape)]
    return c.add("Slice", [parted], lengths, tuple(starts), tuple(shape), (1,) * len(shape))


def _scale(factor: float) -> Callable[..., Any]:
    return lambda c: c.binary("Multiply", 0, c.constant(factor, 0)) if c.of(0).dtype._kind == "f" else None


def _round(c: Chain, decimals: int) -> Any:
    if c.of(0).dtype._kind != "f" or not decimals:
        return c.unary("Round", 0)
    raised = c.unary("Round", c.binary("Multiply", 0, c.constant(10.0**decimals, 0)))
    return c.binary("Multiply", raised, c.constant(10.0**-decimals, 0))


def _addmm(c: Chain) -> Any:
    alpha, beta = c.numbers[3:] or (1.0, 1.0)
    if alpha is None or beta is None or len({a.dtype for a in c.given[:3]}) > 1:
        return None
    shape = (*c.of(1).shape[:-1], c.of(2).shape[-1])
    if c.of(1).ndim != 2 or c.of(2).ndim != 2:
        return None
    return c.add("AddMM", [1, 2, c.broadcast(0, shape)], shape, alpha, beta)


def _isinf(c: Chain) -> Any:
    if c.of(0).dtype._kind != "f":
        return None
    return c.add("LogicalOr", [is_equal(c, 0, inf), is_equal(c, 0, -inf)], c.of(0).shape)


def is_equal(c: Chain, x: Source, number: float) -> int:
    shape = c.of(x).shape
    return c.add("Equal", [x, c.broadcast(c.constant(number, x), shape)], shape, False, dtype=bool_)


def _isclose(c: Chain, equal_nan: bool) -> Any:
    relative, absolute = c.numbers[2:]
    if c.of(0) != c.of(1) or c.of(0).dtype._kind != "f" or relative is None or absolute is None:
        return None
    shape = c.of(0).shape

    def logical(name: str, *inputs: Source) -> int:
        return c.add(name, inputs, shape, dtype=bool_)

    away = c.unary("Abs", c.binary("Subtract", 0, 1))
    allowed = c.binary("Multiply", c.broadcast(c.constant(relative, 0), shape), c.unary("Abs", 1))
    near = logical("LessEqual", away, c.binary("Add", c.broadcast(c.constant(absolute, 0), shape), allowed))
    high, low = ([is_equal(c, x, sign * inf) for x in (0, 1)] for sign in (1, -1))
    infinite = logical("LogicalOr", *[logical("LogicalOr", h, n) for h, n in zip(high, low, strict=True)])
    finite = logical("LogicalAnd", near, logical("LogicalNot", infinite))
    found = logical("LogicalOr", finite, logical("LogicalOr", *[logical("LogicalAnd", *same) for same in (high, low)]))
    if not equal_nan:
        return found
    unknown = [logical("NotEqual", x, x) for x in (0, 1)]
    return logical("LogicalOr", found, logical("LogicalAnd", *unknown))


def _allclose(c: Chain, equal_nan: bool) -> Any:
    found = _isclose(c, equal_nan)
    axes = list(range(c.of(0).ndim))
    if found is None or not axes:
        return None
    return c.squeeze(c.add("Reduce", [found], [1] * len(axes), 0, axes), axes)


def _nan_to_num(c: Chain) -> Any:
    x = c.of(0)
    if x.dtype._kind != "f" or None in c.numbers[1:]:
        return None
    nan, high, low = (c.broadcast(c.constant(n, 0), x.shape) for n in c.numbers[1:])
    out: Source = 0
    unknown = c.add("NotEqual", [0, 0], x.shape, dtype=bool_)
    for where, number in ((unknown, nan), (is_equal(c, 0, inf), high), (is_equal(c, 0, -inf), low)):
        out = c.add("Select", [where, number, out], x.shape, dtype=x.dtype)
    return out


def _trunc(c: Chain) -> Any:
    if c.of(0).dtype._kind != "f":
        return None
    negative = c.binary("Less", 0, c.constant(0, 0), bool_)
    ways = [c.unary("Ceil", 0), c.unary("Floor", 0)]
    return c.add("Select", [negative, *ways], c.of(0).shape, dtype=c.of(0).dtype)


def _full(c: Chain, shape: tuple[int, ...]) -> Any:
    return c.unary("Full", c.broadcast(0, shape))


def _full_like(c: Chain) -> Any:
    shape = np.broadcast_shapes(c.of(0).shape, c.of(1).shape)
    return c.unary("Full", c.broadcast(1, shape))


def _constant(c: Chain, out: Aval, value: int) -> Any:
    return c.unary("Full", c.broadcast(Constant(value, out.dtype), out.shape))


def _constant_like(c: Chain, dtype: Dtype, value: int) -> Any:
    return c.unary("Full", c.broadcast(Constant(value, dtype), c.of(0).shape))


def _arange(c: Chain, length: int) -> Any:
    start, step = c.numbers
    if start is None or step is None:
        return None
    return c.add("Arange", [], (length,), float(start), float(start + length * step), float(step), dtype=c.of(0).dtype)


def _linspace(c: Chain, num: int, endpoint: bool, dtype: Dtype) -> Any:
    start, stop = c.numbers
    if num < 2 or start is None or stop is None:
        return None
    kind, steps = c.of(0).dtype, num - 1 if endpoint else num
    one, first, last = (c.broadcast(Constant(n, kind), (num,)) for n in (1.0, start, stop))
    passed = c.binary("Divide", c.arange(0, num, dtype=kind), Constant(float(steps), kind))
    before = c.binary("Multiply", c.binary("Subtract", one, passed), first)
    return c.cast(c.binary("Add", before, c.binary("Multiply", passed, last)), dtype)


def _hadamard(c: Chain) -> Any:
    scale = c.numbers[1]
    return None if scale is None else c.unary("Hadamard", 0, float(np.float32(scale)))


COMPOSED: dict[str, Callable[..., Any]] = {
    "addmm": _addmm, "allclose": _allclose, "arange": _arange, "constant": _constant, "constant_like": _constant_like,
    "degrees": _scale(180 / pi), "full": _full, "full_like": _full_like, "hadamard_transform": _hadamard,
    "inner": _inner, "isclose": _isclose, "isinf": _isinf, "linalg_norm": _norm, "linspace": _linspace, "mean": _mean,
    "nan_to_num": _nan_to_num, "outer": _outer, "radians": _scale(pi / 180), "repeat": _repeat, "roll": _roll,
    "round": _round, "std": _std, "tile": _tile, "topk": _topk, "trunc": _trunc, "var": _var,
}  # fmt: skip
"""`rule(chain, **params)`: lays down the primitives of an op, of which the last gives its result."""
