"""MLX's primitives for ops that reshape, move and repeat elements, and for ops that create arrays. See `primitives`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import pi, prod
from typing import Any

from mxcompat._graph.ir.aval import Aval, Dtype, float32, int32, uint32

from .chain import Chain, Constant, Source

__all__ = ["MOVEMENT", "padded_with_zeros"]


def _reshape(c: Chain, shape: tuple[int, ...]) -> Any:
    same = c.shape(0) == tuple(shape)
    return 0 if same else c.add("Reshape", [0], c.out_avals[0].shape, tuple(shape))


def _flatten(c: Chain, start: int, end: int) -> Any:
    ndim = c.of(0).ndim
    return c.flatten(0, start % ndim, end % ndim) if ndim else c.reshape(0, (1,))


def _unflatten(c: Chain, axis: int, sizes: tuple[int, ...]) -> Any:
    axis %= c.of(0).ndim
    known = -prod(sizes)
    return c.unflatten(0, axis, tuple([c.shape(0)[axis] // known if n == -1 else n for n in sizes]))


def _expand_dims(c: Chain, axes: Any) -> Any:
    axes = (axes,) if isinstance(axes, int) else axes
    ndim = c.of(0).ndim + len(axes)
    return c.expand(0, sorted(k % ndim for k in axes)) if axes else 0


def _squeeze(c: Chain, axes: Any) -> Any:
    shape = c.shape(0)
    if axes is None:  # MLX appends a primitive even if there are no axes to squeeze
        axes = [k for k, n in enumerate(shape) if n == 1]
        return c.add("Squeeze", [0], [n for n in shape if n != 1], axes)
    axes = (axes,) if isinstance(axes, int) else axes
    return c.squeeze(0, sorted(k % len(shape) for k in axes))


def _transpose(c: Chain, axes: Any) -> Any:
    ndim = c.of(0).ndim
    return c.transpose(0, list(range(ndim))[::-1] if axes is None else [k % ndim for k in axes])


def _atleast(c: Chain, ndim: int) -> Any:
    return c.reshape(0, c.out_avals[0].shape)


def _as_strided(c: Chain, shape: Any, strides: Any, offset: int) -> Any:
    return c.add("AsStrided", [c.flat(0)], shape, shape, strides, offset)


def _flip(c: Chain, axes: Any) -> Any:
    shape = c.shape(0)
    axes = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    turned = {k % len(shape) for k in axes}
    starts = tuple(n - 1 if k in turned else 0 for k, n in enumerate(shape))
    stops = tuple(-n - 1 if k in turned else n for k, n in enumerate(shape))
    return c.add("Slice", [0], shape, starts, stops, tuple(-1 if k in turned else 1 for k in range(len(shape))))


def _repeat(c: Chain, repeats: int, axis: int | None) -> Any:
    x, axis = (c.flat(0), 0) if axis is None else (0, axis % c.of(0).ndim)
    shape = c.shape(x)
    if repeats == 1:
        return x
    if not c.out_avals[0].size:
        return None
    lead, rest = shape[: axis + 1], shape[axis + 1 :]
    wide = c.broadcast(c.expand(x, [axis + 1]), (*lead, repeats, *rest))
    return c.reshape(wide, (*shape[:axis], shape[axis] * repeats, *rest))


def _tile(c: Chain, reps: tuple[int, ...]) -> Any:
    ndim = max(len(reps), c.of(0).ndim)
    shape = (1,) * (ndim - c.of(0).ndim) + c.shape(0)
    reps = (1,) * (ndim - len(reps)) + tuple(reps)
    apart = [m for n, r in zip(shape, reps, strict=True) for m in ((1, n) if r != 1 else (n,))]
    wide = [m for n, r in zip(shape, reps, strict=True) for m in ((r, n) if r != 1 else (n,))]
    return c.reshape(c.broadcast(c.reshape(0, apart), wide), [n * r for n, r in zip(shape, reps, strict=True)])


def _roll(c: Chain, axes: tuple[int, ...] | None) -> Any:
    shifts = c.numbers[1:]
    if None in shifts or not c.of(0).size:
        return None
    if axes is None:
        return c.reshape(_rolled(c, c.flat(0), shifts[0], 0), c.shape(0)) if len(shifts) == 1 else None
    if len(axes) == 1:
        shifts = [sum(shifts)]
    if len(shifts) not in (1, len(axes)):
        return None
    x: Source = 0
    for k, axis in enumerate(axes):
        x = _rolled(c, x, shifts[k % len(shifts)], axis % c.of(0).ndim)
    return x


def _rolled(c: Chain, x: Source, shift: int, axis: int) -> Source:
    size = c.shape(x)[axis]
    return c.concatenate(c.split(x, [size - shift % size], axis)[::-1], axis)


def _fftshift(c: Chain, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    x: Source = 0
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(c, x, shift, axis % c.of(0).ndim)
    return x


def _concatenate(c: Chain, axis: int | None) -> Any:
    xs: list[Source] = list(range(len(c.in_avals)))
    if axis is None:
        return c.concatenate([c.flat(x) for x in xs], 0)
    return c.concatenate(xs, axis % c.of(0).ndim)


def _stack(c: Chain, axis: int) -> Any:
    axis %= c.of(0).ndim + 1
    return c.concatenate([c.expand(k, [axis]) for k in range(len(c.in_avals))], axis)


def _nest(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    rows = [c.cast(c.expand(k, [0]), dtype) for k in range(len(c.in_avals))]
    return c.reshape(c.concatenate(rows, 0), shape) if len({c.shape(row)[1:] for row in rows}) == 1 else None


def _depends(c: Chain, count: int) -> Any:
    return [*c.several("Depends", range(len(c.in_avals)), c.out_avals)]


def _split(c: Chain, sections: Any, axis: int) -> Any:
    axis %= c.of(0).ndim
    sizes = [a.shape[axis] for a in c.out_avals]
    return c.split(0, list(accumulate(sizes[:-1])), axis) if len(sizes) > 1 else [0]


def _unstack(c: Chain, axis: int) -> Any:
    axis %= c.of(0).ndim
    n = c.shape(0)[axis]
    rows = c.split(0, range(1, n), axis) if n > 1 else [0] * n
    return [c.squeeze(row, [axis]) for row in rows]


def _broadcast_arrays(c: Chain) -> Any:
    return c.of_one_shape(range(len(c.out_avals)))


def _meshgrid(c: Chain, sparse: bool, indexing: str) -> Any:
    ndim = len(c.in_avals)
    reshaped: list[Source] = []
    for k in range(ndim):
        at = 1 - k if indexing == "xy" and k < 2 <= ndim else k
        shape = [c.of(k).size if n == at else 1 for n in range(ndim)]
        told = tuple([-1 if n == k else 1 for n in range(ndim)]) if at == k else tuple(shape)
        reshaped.append(c.add("Reshape", [k], shape, told))
    return reshaped if sparse else c.of_one_shape(reshaped)


def _pad(c: Chain, widths: Any, mode: str) -> Any:
    ndim = c.of(0).ndim
    widths = [widths[0]] * ndim if len(widths) == 1 else list(widths)
    low, high = ([w[side] for w in widths] for side in (0, 1))
    if mode == "constant":
        inputs = [0, c.cast(1, c.dtype(0))]
        return c.add("Pad", inputs, c.out_avals[0].shape, list(range(ndim)), tuple(low), tuple(high))
    return _padded(c, 0, low, high, mode)


def _padded(c: Chain, x: Source, low: Sequence[int], high: Sequence[int], mode: str) -> Source:
    """Pad by copying edges: the array is first placed in zeros, and then its borders are written."""
    sizes = c.shape(x)
    if not any((*low, *high)):
        return x
    shape = [a + n + b for a, n, b in zip(low, sizes, high, strict=True)]
    out = c.update(c.filled(0, shape, c.dtype(x)), x, low)
    for axis, (a, n, b) in enumerate(zip(low, sizes, high, strict=True)):
        for width, at, start in ((a, 0, a), (b, a + n, a + n - 1)):
            if not width:
                continue
            if mode == "edge":
                row = c.broadcast(
                    c.along(out, axis, start, start + 1), [width if k == axis else m for k, m in enumerate(shape)]
                )
            else:
                skipped = mode == "reflect"
                first = a + skipped if at == 0 else a + n - skipped - width
                row = c.along(out, axis, first, first + width)
                row = c.turned(row, axis) if width > 1 else c.whole(row)
            out = c.update(out, row, [at if k == axis else 0 for k in range(len(shape))])
    return out


def padded_with_zeros(c: Chain, x: Source, shape: Sequence[int]) -> Source:
    """Cut an array, or pad it with zeros at the end, to this shape."""
    sizes, shape = c.shape(x), tuple(shape)
    if any(n > m for n, m in zip(sizes, shape, strict=True)):
        ends = [min(n, m) for n, m in zip(sizes, shape, strict=True)]
        x = c.slice(x, [0] * len(shape), ends, shape)
    if c.shape(x) == shape:
        return x
    return c.update(c.filled(0, shape, c.dtype(x)), x, [0] * len(shape))


def _full(c: Chain, shape: tuple[int, ...]) -> Any:
    return c.full(0, shape)


def _full_like(c: Chain) -> Any:
    return c.full(1, c.shape(0), c.dtype(0))


def _constant(c: Chain, out: Aval, value: int) -> Any:
    return c.filled(value, out.shape, out.dtype)


def _constant_like(c: Chain, dtype: Dtype, value: int) -> Any:
    return c.filled(value, c.shape(0), dtype)


def _arange(c: Chain, length: int) -> Any:
    start, step = c.numbers
    if start is None or step is None:
        return None
    return c.add("Arange", [], (length,), *[float(n.real) for n in (start, start + length * step, step)],
                 dtype=c.dtype(0))  # fmt: skip


def _linspace(c: Chain, num: int, endpoint: bool, dtype: Dtype) -> Any:
    start, stop = c.numbers
    if start is None or stop is None:
        return None
    kind, steps = c.dtype(0), num - 1 if endpoint else num
    if num == 1:
        return c.cast(Constant(start, kind, (1,)), dtype)
    passed = c.op("Divide", c.arange(0, num, dtype=kind), Constant(float(steps), kind))
    before = c.op("Multiply", c.op("Subtract", Constant(1.0, kind), passed), Constant(start, kind))
    return c.cast(c.op("Add", before, c.op("Multiply", passed, Constant(stop, kind))), dtype)


def _fftfreq(c: Chain, n: int, half: bool) -> Any:
    spacing = c.numbers[0]
    if spacing is None:
        return None
    parts = [(0, n // 2 + 1)] if half else [(0, (n + 1) // 2), (-(n // 2), 0)]
    order = c.concatenate([c.arange(*ends, dtype=float32) for ends in parts], 0)
    return c.op("Multiply", order, Constant(1 / (n * spacing), float32))


def _window(shape: Callable[[Chain, int], Source]) -> Callable[..., Any]:
    def rule(c: Chain, length: int) -> Any:
        if length < 2:
            return c.filled(1, (1,), float32) if length else Constant(1.0, float32, (0,))
        return shape(c, length)

    return rule


def _steps(c: Chain, last: float, length: int) -> Source:
    """Return evenly spaced numbers from zero to `last`."""
    return c.op("Multiply", Constant(last / (length - 1), float32), c.arange(0, length, dtype=float32))


def _bartlett(c: Chain, length: int) -> Source:
    away = c.op("Subtract", _steps(c, 2, length), Constant(1.0, float32))
    return c.op("Subtract", Constant(1.0, float32), c.unary("Abs", away))


def _hanning(c: Chain, length: int) -> Source:
    return c.unary("Square", c.unary("Sin", _steps(c, pi, length)))


def _waves(c: Chain, length: int, parts: tuple[float, float]) -> tuple[Source, Source]:
    wave = c.unary("Cos", _steps(c, 2 * pi, length))
    first, second = (Constant(x, float32) for x in parts)
    return c.op("Subtract", first, c.op("Multiply", second, wave)), wave


def _hamming(c: Chain, length: int) -> Source:
    return _waves(c, length, (0.54, 0.46))[0]


def _blackman(c: Chain, length: int) -> Source:
    window, wave = _waves(c, length, (0.34, 0.5))
    return c.op("Add", window, c.op("Multiply", Constant(0.16, float32), c.unary("Square", wave)))


def _tri(c: Chain, out: Aval, k: int) -> Any:
    rows, columns = out.shape
    return c.cast(c.below(rows, columns, k), out.dtype)


def _eye(c: Chain, out: Aval, k: int) -> Any:
    rows, columns = out.shape
    starts = max(-k, 0), max(k, 0)
    n = min(rows - starts[0], columns - starts[1])
    zeros = c.filled(0, out.shape, out.dtype)
    if n <= 0:
        return zeros
    places = [c.arange(start, start + n, dtype=int32) for start in starts]
    ones = c.filled(1, (n, 1, 1), out.dtype)
    return c.add("Scatter", [zeros, *places, ones], out.shape, 4, [0, 1], dtype=out.dtype)


def _triangle(c: Chain, k: int, upper: bool) -> Any:
    shape = c.shape(0)
    inside = c.below(shape[-2], shape[-1], k - upper)
    zero = c.constant(0, 0)
    return c.select(inside, zero, 0) if upper else c.select(inside, 0, zero)


def _diagonal(c: Chain, offset: int, axis1: int, axis2: int) -> Any:
    shape = c.shape(0)
    axes = [axis1 % len(shape), axis2 % len(shape)]
    starts = max(-offset, 0), max(offset, 0)
    size = max(min(shape[k] - start for k, start in zip(axes, starts, strict=True)), 0)
    rows, columns = (c.arange(start, start + size) for start in starts)
    sizes = tuple(1 if k in axes else n for k, n in enumerate(shape))
    diagonal = c.squeeze(c.gather(0, [rows, columns], axes, sizes), sorted(k + 1 for k in axes))
    ndim = len(shape) - 1
    return diagonal if ndim == 1 else c.transpose(diagonal, [*range(1, ndim), 0])


def _trace(c: Chain, offset: int, axis1: int, axis2: int) -> Any:
    diagonal = _diagonal(c, offset, axis1, axis2)
    return c.sum(diagonal, [c.of(diagonal).ndim - 1])


def _diag(c: Chain, k: int) -> Any:
    n = c.of(0).size
    shape = (n + abs(k), n + abs(k))
    zeros = c.filled(0, shape, c.dtype(0))
    rows, columns = (c.arange(start, start + n, dtype=uint32) for start in (max(-k, 0), max(k, 0)))
    return c.add("Scatter", [zeros, rows, columns, c.reshape(0, (n, 1, 1))], shape, 4, [0, 1])


MOVEMENT: dict[str, Callable[..., Any]] = {
    "arange": _arange, "array": _nest, "as_strided": _as_strided, "atleast": _atleast, "bartlett": _window(_bartlett),
    "blackman": _window(_blackman), "broadcast_arrays": _broadcast_arrays,
    "broadcast_to": lambda c, shape: c.broadcast(0, c.out_avals[0].shape), "concatenate": _concatenate,
    "constant": _constant, "constant_like": _constant_like, "depends": _depends, "diag": _diag, "diagonal": _diagonal,
    "expand_dims": _expand_dims, "eye": _eye, "fftfreq": _fftfreq, "fftshift": _fftshift, "flatten": _flatten,
    "flip": _flip, "full": _full, "full_like": _full_like, "hamming": _window(_hamming), "hanning": _window(_hanning),
    "linspace": _linspace, "meshgrid": _meshgrid, "pad": _pad, "repeat": _repeat, "reshape": _reshape, "roll": _roll,
    "split": _split, "squeeze": _squeeze, "stack": _stack, "tile": _tile, "trace": _trace, "transpose": _transpose,
    "tri": _tri, "triangle": _triangle, "unflatten": _unflatten, "unstack": _unstack,
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
