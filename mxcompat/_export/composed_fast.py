"""MLX's primitives for `mx.fast`: norms, rotary positions, attention. See `primitives`."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from mxcompat._array.dtypes import finfo
from mxcompat._graph.ir.aval import bool_, float32, int32

from .chain import Chain, Constant, Source
from .composed_reductions import log_sum_exp

__all__ = ["FAST"]


def _scaled(c: Chain, x: Source, squares: Source, eps: int) -> int:
    """Divide by the root of a mean of squares plus epsilon."""
    number = Constant(c.numbers[eps], float32)
    return c.op("Multiply", x, c.unary("Sqrt", c.op("Add", squares, number), True))


def _rms_norm(c: Chain) -> Any:
    """Append an RMS norm, computed in float32 except for the weights."""
    if c.numbers[1] is None:
        return None
    x = c.cast(0, float32)
    squares = c.mean(c.unary("Square", x), [c.of(0).ndim - 1], True)
    normal: Source = c.cast(_scaled(c, x, squares, 1), c.out_avals[0].dtype)
    return c.op("Multiply", normal, 2) if len(c.in_avals) > 2 else normal


def _layer_norm(c: Chain, weighted: bool, biased: bool) -> Any:
    """Append a layer norm, computed in float32 except for the weights."""
    if c.numbers[1] is None:
        return None
    axes = [c.of(0).ndim - 1]
    away = c.from_mean(c.cast(0, float32), axes)
    squares = c.mean(c.squares(away), axes, True)
    out: Source = c.cast(_scaled(c, away, squares, 1), c.out_avals[0].dtype)
    if weighted:
        out = c.op("Multiply", out, 2)
    return c.op("Add", out, 2 + weighted) if biased else out


def _cross_entropy(c: Chain) -> Any:
    last = c.of(0).ndim - 1
    total = log_sum_exp(c, 0, [last], False)
    place = c.expand(1, [last])
    picked = c.squeeze(c.add("GatherAxis", [0, place], c.shape(place), last), [last])
    return c.cast(c.op("Subtract", total, picked), float32)


def _rope(c: Chain, dims: int, traditional: bool, base: float | None) -> Any:
    scale = Constant(c.numbers[2], float32) if c.numbers[2] is not None else 2
    x_shape = c.of(0).shape
    batch, (length, size), half = x_shape[0], x_shape[-2:], dims // 2
    x: Source = 0
    if len(x_shape) == 3:
        x = c.expand(x, [1])
    elif len(x_shape) > 4:
        x = c.flatten(x, 1, len(x_shape) - 3)
    shape = c.of(x).shape
    angles = _angles(c, scale, half, base, length, batch)
    cos, sin = (c.cast(c.unary(name, angles), c.dtype(0)) for name in ("Cos", "Sin"))

    def part(start: int, stop: int, step: int = 1) -> Source:
        count = len(range(start, stop, step))
        stop, step = (start + 1, 1) if count == 1 else (stop, step)
        return c.add("Slice", [x], (*shape[:3], count), (0, 0, 0, start), (*shape[:3], stop), (1, 1, 1, step))

    if traditional:
        first, second = part(0, dims, 2), part(1, dims, 2)
    else:
        first, second = part(0, half), part(half, dims)
    turned: list[Source] = [
        c.op("Subtract", c.op("Multiply", first, cos), c.op("Multiply", second, sin)),
        c.op("Add", c.op("Multiply", first, sin), c.op("Multiply", second, cos)),
    ]
    rest = [part(dims, size)] if dims < size else []
    if traditional:
        wide = c.concatenate([c.expand(side, [4]) for side in turned], 4)
        turned = [c.reshape(wide, (*shape[:3], dims))]
    return c.reshape(c.concatenate([*turned, *rest], 3), x_shape)


def _angles(c: Chain, scale: Source, half: int, base: float | None, length: int, batch: int) -> Source:
    """Return positions times frequencies, in float32."""
    offset: Source = 1 if c.numbers[1] is None else Constant(c.numbers[1], c.of(1).dtype)
    steps: Source = c.arange(0, length, dtype=float32)
    if c.of(offset).size > 1 or (c.of(offset).ndim and batch > 1):
        offset = c.expand(offset, [1, 2])
        steps = c.broadcast(steps, (batch, 1, length))
    if c.of(offset).dtype._kind == "i" and c.of(offset).dtype.size > 4:
        offset = c.cast(offset, int32)
    positions = c.op("Add", steps, c.cast(offset, float32))
    positions = c.op("Multiply", positions, scale)
    positions = c.expand(positions, [c.of(positions).ndim])
    if base is None:
        speeds = c.op("Divide", Constant(1.0, float32), 3)
    else:
        slower = c.arange(0, -half, -1, float32)
        speeds = c.unary("Exp", c.op("Multiply", slower, Constant(log(base) / half, float32)))
    shape = (*c.of(positions).shape[:-1], half)
    return c.op("Multiply", c.broadcast(positions, shape), c.broadcast(speeds, shape))


def _attention(c: Chain, causal: bool, masked: bool, sinks: bool, prefix: bool) -> Any:
    q, k, v = (c.of(n) for n in range(3))
    dtype, scale = c.out_avals[0].dtype, c.numbers[3]
    if prefix or scale is None or q.ndim != 4:
        return None
    queried, *keyed = (c.cast(n, dtype) for n in range(3))
    batch, heads, queries, _ = q.shape
    groups, keys = k.shape[1], k.shape[2]
    split = (groups, heads // groups)

    def grouped(x: Source) -> Source:
        return x if heads == groups else c.unflatten(x, 1, split)

    together = (batch, heads) if heads == groups else (batch, *split)
    scaled = grouped(c.op("Multiply", Constant(scale, dtype), queried))
    first, second = (n if heads == groups else c.expand(n, [2]) for n in keyed)
    dims = len(together)
    turned = c.swapped(first)
    scores = (*together, queries, keys)
    out: Source = c.add("Matmul", c.of_one_batch(scaled, turned), scores)
    lowest = Constant(float(finfo(dtype).min), dtype)
    if masked:
        mask = c.of(4)
        if mask.dtype not in (bool_, dtype):
            return None
        where = grouped(c.broadcast(4, (batch, heads, queries, keys)))
        if mask.dtype is bool_:
            out = c.select(where, out, lowest)
        else:
            out = c.op("Add", out, where)
    if causal:
        rows, columns = c.arange(keys - queries, keys), c.arange(0, keys)
        below = c.test("GreaterEqual", c.expand(rows, [1]), c.expand(columns, [0]))
        out = c.select(below, out, lowest)
    if sinks:
        own = 4 + masked
        if c.of(own).dtype is not dtype:
            return None
        aside = c.broadcast(_sinks(c, own, split if heads != groups else None), (*together, queries, 1))
        weights = c.unary("Softmax", c.concatenate([aside, out], dims + 1), True)
        weights = c.along(weights, dims + 1, 1, keys + 1)
    else:
        weights = c.unary("Softmax", out, True)
    out = c.add("Matmul", c.of_one_batch(weights, second), (*together, queries, v.shape[3]))
    return out if heads == groups else c.flatten(out, 1, 2)


def _sinks(c: Chain, x: Source, split: tuple[int, int] | None) -> Source:
    x = c.expand(x, [0, 2, 3])
    return x if split is None else c.unflatten(x, 1, split)


FAST: dict[str, Callable[..., Any]] = {
    "cross_entropy": _cross_entropy, "layer_norm": _layer_norm, "rms_norm": _rms_norm, "rope": _rope,
    "scaled_dot_product_attention": _attention,
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
