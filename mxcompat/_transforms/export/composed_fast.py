"""What MLX makes of `mx.fast`: norms, rotary positions, attention. See `composed`."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from mxcompat._array.dtypes import finfo
from mxcompat._graph.ir.aval import bool_, float32, int32

from .chain import Chain, Constant, Source

__all__ = ["FAST"]


def _scaled(c: Chain, x: Source, squares: Source, eps: int) -> int:
    """Over the root of a mean of squares."""
    number = Constant(c.numbers[eps], float32)
    return c.binary("Multiply", x, c.unary("Sqrt", c.binary("Add", squares, number), True))


def _rms_norm(c: Chain) -> Any:
    x = c.of(0)
    if x.dtype is not float32 or c.numbers[1] is None:
        return None
    normal = _scaled(c, 0, c.mean(c.unary("Square", 0), [x.ndim - 1], True), 1)
    return c.binary("Multiply", normal, 2) if len(c.given) > 2 else normal


def _layer_norm(c: Chain, weighted: bool, biased: bool) -> Any:
    x = c.of(0)
    if x.dtype is not float32 or c.numbers[1] is None:
        return None
    squares, away = c.variance(0, [x.ndim - 1], True, 0)
    out = _scaled(c, away, squares, 1)
    if weighted:
        out = c.binary("Multiply", out, 2)
    return c.binary("Add", out, 2 + weighted) if biased else out


def _rope(c: Chain, dims: int, traditional: bool, base: float | None) -> Any:
    scale = Constant(c.numbers[2], float32) if c.numbers[2] is not None else 2
    given = c.of(0).shape
    batch, (length, size), half = given[0], given[-2:], dims // 2
    x: Source = 0
    if len(given) == 3:
        x = c.expand(x, [1])
    elif len(given) > 4:
        heads = c.of(0).size // (batch * length * size)
        x = c.add("Flatten", [x], (batch, heads, length, size), 1, len(given) - 3)
    shape = c.of(x).shape
    angles = _angles(c, scale, half, base, length, batch)
    cos, sin = (c.cast(c.unary(name, angles), c.of(0).dtype) for name in ("Cos", "Sin"))
    cos, sin = (c.broadcast(part, (*shape[:3], half)) for part in (cos, sin))

    def part(start: int, stop: int, step: int = 1) -> Source:
        count = len(range(start, stop, step))
        stop, step = (start + 1, 1) if count == 1 else (stop, step)
        return c.add("Slice", [x], (*shape[:3], count), (0, 0, 0, start), (*shape[:3], stop), (1, 1, 1, step))

    if traditional:
        first, second = part(0, dims, 2), part(1, dims, 2)
    else:
        first, second = part(0, half), part(half, dims)
    turned: list[Source] = [
        c.binary("Subtract", c.binary("Multiply", first, cos), c.binary("Multiply", second, sin)),
        c.binary("Add", c.binary("Multiply", first, sin), c.binary("Multiply", second, cos)),
    ]
    rest = [part(dims, size)] if dims < size else []
    if traditional:
        pairs = [c.expand(side, [4]) for side in turned]
        wide = c.add("Concatenate", pairs, (*shape[:3], half, 2), 4)
        turned = [c.reshape(wide, (*shape[:3], dims))]
    whole = [*turned, *rest]
    out = whole[0] if len(whole) == 1 else c.add("Concatenate", whole, shape, 3)
    return c.reshape(out, given)


def _angles(c: Chain, scale: Source, half: int, base: float | None, length: int, batch: int) -> Source:
    """Positions times frequencies, float32."""
    offset: Source = 1 if c.numbers[1] is None else Constant(c.numbers[1], c.of(1).dtype)
    steps: Source = c.arange(0, length, dtype=float32)
    if c.of(offset).size > 1 or (c.of(offset).ndim and batch > 1):
        offset = c.expand(offset, [1, 2])
        steps = c.broadcast(steps, (batch, 1, length))
    if c.of(offset).dtype._kind == "i" and c.of(offset).dtype.size > 4:
        offset = c.cast(offset, int32)
    positions = c.binary("Add", steps, c.cast(offset, float32))
    positions = c.binary("Multiply", positions, scale)
    positions = c.expand(positions, [c.of(positions).ndim])
    if base is None:
        speeds = c.binary("Divide", Constant(1.0, float32), 3)
    else:
        slower = c.arange(0, -half, -1, float32)
        speeds = c.unary("Exp", c.binary("Multiply", slower, Constant(log(base) / half, float32)))
    shape = (*c.of(positions).shape[:-1], half)
    return c.binary("Multiply", c.broadcast(positions, shape), c.broadcast(speeds, shape))


def _attention(c: Chain, causal: bool, masked: bool, sinks: bool, prefix: bool) -> Any:
    q, k, v = (c.of(n) for n in range(3))
    dtype, scale = q.dtype, c.numbers[3]
    if prefix or scale is None or {q.dtype, k.dtype, v.dtype} != {dtype} or q.ndim != 4:
        return None
    batch, heads, queries, _ = q.shape
    groups, keys = k.shape[1], k.shape[2]
    split = (groups, heads // groups)

    def grouped(x: Source) -> Source:
        shape = c.of(x).shape
        return x if heads == groups else c.add("Unflatten", [x], (batch, *split, *shape[2:]), 1, split)

    together = (batch, heads) if heads == groups else (batch, *split)
    scaled = grouped(c.binary("Multiply", Constant(scale, dtype), 0))
    first, second = (n if heads == groups else c.expand(n, [2]) for n in (1, 2))
    dims = len(together)
    turned = c.transpose(first, [*range(dims), dims + 1, dims])
    scores = (*together, queries, keys)
    out: Source = c.add("Matmul", [scaled, c.broadcast(turned, (*together, k.shape[3], keys))], scores)
    lowest = Constant(float(finfo(dtype).min), dtype)
    if masked:
        mask = c.of(4)
        if mask.dtype not in (bool_, dtype):
            return None
        where = grouped(c.broadcast(4, (batch, heads, queries, keys)))
        if mask.dtype is bool_:
            out = c.add("Select", [where, out, c.broadcast(lowest, scores)], scores, dtype=dtype)
        else:
            out = c.binary("Add", out, where)
    if causal:
        seen = c.broadcast(c.below(queries, keys, keys - queries), scores)
        out = c.add("Select", [seen, out, c.broadcast(lowest, scores)], scores, dtype=dtype)
    if sinks:
        own = 4 + masked
        if c.of(own).dtype is not dtype:
            return None
        aside = c.broadcast(_sinks(c, own, split if heads != groups else None), (*together, queries, 1))
        wide = (*together, queries, keys + 1)
        weights = c.unary("Softmax", c.add("Concatenate", [aside, out], wide, dims + 1), True)
        weights = c.add("Slice", [weights], scores, (*[0] * (dims + 1), 1), wide, (1,) * (dims + 2))
    else:
        weights = c.unary("Softmax", out, True)
    out = c.add("Matmul", [weights, c.broadcast(second, (*together, *v.shape[2:]))], (*together, queries, v.shape[3]))
    return out if heads == groups else c.add("Flatten", [out], (batch, heads, queries, v.shape[3]), 1, 2)


def _sinks(c: Chain, x: Source, split: tuple[int, int] | None) -> Source:
    x = c.expand(x, [0, 2, 3])
    return x if split is None else c.add("Unflatten", [x], (1, *split, 1, 1), 1, split)


FAST: dict[str, Callable[..., Any]] = {
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "rope": _rope, "scaled_dot_product_attention": _attention,
}  # fmt: skip
"""`rule(chain, **params)`, as in `composed.COMPOSED`."""
