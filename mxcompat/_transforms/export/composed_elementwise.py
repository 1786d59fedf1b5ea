"""What MLX makes of ops on elements, and of those that rename or move axes. See `composed`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, bool_, int32

from .chain import Chain, Constant, Source
from .composed import is_equal, rolled

__all__ = ["ELEMENTWISE"]


def _reciprocal(c: Chain) -> Any:
    return c.binary("Divide", c.constant(1.0, 0), 0) if c.of(0).dtype._kind in "fc" else None


def _logical(name: str) -> Callable[..., Any]:
    def rule(c: Chain) -> Any:
        return c.binary(name, c.cast(0, bool_), c.cast(1, bool_), bool_)

    return rule


def _logical_not(c: Chain) -> Any:
    return c.unary("LogicalNot", c.cast(0, bool_))


def _bitwise_invert(c: Chain) -> Any:
    return c.unary("LogicalNot", 0) if c.of(0).dtype is bool_ else None


def _is(number: float) -> Callable[..., Any]:
    return lambda c: is_equal(c, 0, number) if c.of(0).dtype._kind == "f" else None


def _isfinite(c: Chain) -> Any:
    if c.of(0).dtype._kind != "f":
        return None
    shape = c.of(0).shape
    infinite = c.add("LogicalOr", [is_equal(c, 0, inf), is_equal(c, 0, -inf)], shape)
    unknown = c.add("NotEqual", [0, 0], shape, dtype=bool_)
    return c.unary("LogicalNot", c.add("LogicalOr", [infinite, unknown], shape))


def _conj(c: Chain) -> Any:
    return c.unary("Conjugate", 0) if c.of(0).dtype._kind == "c" else 0


def _matmul(c: Chain) -> Any:
    """Vectors become matrices."""
    x, y = c.of(0), c.of(1)
    if (x.ndim > 1 and y.ndim > 1) or not x.size or not y.size:
        return None
    first: Source = c.expand(0, [0]) if x.ndim == 1 else 0
    second: Source = c.expand(1, [1]) if y.ndim == 1 else 1
    dtype = promote(x.dtype, y.dtype)
    sides = [c.cast(first, dtype), c.cast(second, dtype)]
    if max(c.of(side).ndim for side in sides) > 2:
        return None
    shape = (c.of(first).shape[0], c.of(second).shape[1])
    gone = [k for k, side in enumerate((x, y)) if side.ndim == 1]
    return c.squeeze(c.add("Matmul", sides, shape), gone)


def _vecdot(c: Chain, axis: int) -> Any:
    if c.of(0) != c.of(1) or c.of(0).dtype._kind != "f":
        return None
    return c.sum(c.binary("Multiply", 0, 1), [axis % c.of(0).ndim], False)


def _softmax(c: Chain, axes: tuple[int, ...]) -> Any:
    """Over axes other than the last."""
    x = c.of(0)
    if not axes or axes == (x.ndim - 1,) or x.dtype._kind != "f":
        return None
    away = c.binary("Subtract", 0, c.reduce(0, 5, sorted(axes), x.dtype))
    powers = c.unary("Exp", away)
    return c.binary("Divide", powers, c.sum(powers, sorted(axes), True))


def _expand_dims(c: Chain, axes: Any) -> Any:
    axes = (axes,) if isinstance(axes, int) else axes
    ndim = c.of(0).ndim + len(axes)
    return c.expand(0, sorted(k % ndim for k in axes))


def _squeeze(c: Chain, axes: Any) -> Any:
    x = c.of(0)
    if axes is None:
        axes = [k for k, n in enumerate(x.shape) if n == 1]
    axes = (axes,) if isinstance(axes, int) else axes
    return c.squeeze(0, sorted(k % x.ndim for k in axes))


def _unflatten(c: Chain, axis: int, sizes: tuple[int, ...]) -> Any:
    shape = c.of(0).shape
    axis %= len(shape)
    known = -prod(sizes)
    sizes = tuple([shape[axis] // known if n == -1 else n for n in sizes])
    return c.add("Unflatten", [0], (*shape[:axis], *sizes, *shape[axis + 1 :]), axis, sizes)


def _transpose(c: Chain, axes: Any) -> Any:
    ndim = c.of(0).ndim
    return c.transpose(0, list(range(ndim))[::-1] if axes is None else [k % ndim for k in axes])


def _flip(c: Chain, axes: Any) -> Any:
    shape = c.of(0).shape
    axes = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    turned = {k % len(shape) for k in axes}
    starts = tuple(n - 1 if k in turned else 0 for k, n in enumerate(shape))
    stops = tuple(-n - 1 if k in turned else n for k, n in enumerate(shape))
    return c.add("Slice", [0], shape, starts, stops, tuple(-1 if k in turned else 1 for k in range(len(shape))))


def _atleast(c: Chain, ndim: int) -> Any:
    shape = c.of(0).shape
    if ndim == 3:
        shape = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape)
    return c.reshape(0, [*[1] * (ndim - len(shape)), *shape])


def _as_strided(c: Chain, shape: Any, strides: Any, offset: int) -> Any:
    return c.add("AsStrided", [c.flat(0)], shape, shape, strides, offset)


def _fftshift(c: Chain, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    x: Source = 0
    for shift, axis in zip(shifts, axes, strict=True):
        x = rolled(c, x, shift, axis % c.of(0).ndim)
    return x


def _scan(kind: int) -> Callable[..., Any]:
    """Over all elements, in order."""

    def rule(c: Chain, axis: int | None, reverse: bool, inclusive: bool) -> Any:
        return c.add("Scan", [c.flat(0)], (c.of(0).size,), kind, 0, reverse, inclusive) if axis is None else None

    return rule


def _tri(c: Chain, out: Aval, k: int) -> Any:
    return c.cast(c.below(*out.shape, k), out.dtype)


def _eye(c: Chain, out: Aval, k: int) -> Any:
    rows, columns = out.shape
    starts = max(-k, 0), max(k, 0)
    n = min(rows - starts[0], columns - starts[1])
    if n <= 0:
        return None
    zeros = c.unary("Full", c.broadcast(Constant(0, out.dtype), out.shape))
    places = [c.arange(start, start + n, dtype=int32) for start in starts]
    ones = c.unary("Full", c.broadcast(Constant(1, out.dtype), (n, 1, 1)))
    return c.add("Scatter", [zeros, *places, ones], out.shape, 4, [0, 1], dtype=out.dtype)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "as_strided": _as_strided, "atleast": _atleast, "bitwise_invert": _bitwise_invert, "conj": _conj,
    "cumprod": _scan(3), "cumsum": _scan(2), "expand_dims": _expand_dims, "eye": _eye, "fftshift": _fftshift,
    "flip": _flip, "isfinite": _isfinite, "isneginf": _is(-inf), "isposinf": _is(inf),
    "logical_and": _logical("LogicalAnd"), "logical_not": _logical_not, "logical_or": _logical("LogicalOr"),
    "logical_xor": _logical("NotEqual"), "matmul": _matmul, "reciprocal": _reciprocal,
    "rsqrt": lambda c: c.unary("Sqrt", 0, True), "softmax": _softmax, "sqrt": lambda c: c.unary("Sqrt", 0, False),
    "squeeze": _squeeze, "transpose": _transpose, "tri": _tri, "unflatten": _unflatten, "vecdot": _vecdot,
}  # fmt: skip
"""`rule(chain, **params)`, as in `composed.COMPOSED`."""
