"""MLX's primitives for linear algebra and Fourier transforms. See `primitives`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod, sqrt
from typing import Any

from mxcompat._array.dtypes import finfo
from mxcompat._graph.ir.aval import aval, complex64, float32

from .chain import MAX, Chain, Constant, Source
from .composed_movement import padded_with_zeros

__all__ = ["LINALG"]


def _inverse(triangular: bool) -> Callable[..., Any]:
    def rule(c: Chain, upper: bool = True) -> Any:
        return c.unary("Inverse", 0, triangular, upper)

    return rule


def _cholesky_inv(c: Chain, upper: bool) -> Any:
    inverse = c.unary("Inverse", 0, True, upper)
    sides = [c.swapped(inverse), inverse]
    return c.matmul(*(sides[::-1] if upper else sides))


def _solve_triangular(c: Chain, upper: bool) -> Any:
    return c.matmul(c.unary("Inverse", 0, True, upper), 1)


def _eigh(vectors: bool) -> Callable[..., Any]:
    def rule(c: Chain, lower: bool) -> Any:
        return c.several("Eigh", [0], c.out_avals, "L" if lower else "U", vectors)

    return rule


def _several(name: str, *arguments: Any) -> Callable[..., Any]:
    return lambda c: c.several(name, [0], c.out_avals, *arguments)


def _pinv(c: Chain) -> Any:
    shape = c.shape(0)
    batch, (m, n) = shape[:-2], shape[-2:]
    k = min(m, n)
    dtype = c.dtype(0)
    avals = [aval((*batch, *s), dtype) for s in ((m, m), (k,), (n, n))]
    u, s, vt = c.several("SVD", [0], avals, True)
    u, vt = (
        c.along(u, len(batch) + 1, 0, k) if m > k else u,
        c.along(vt, len(batch), 0, k) if n > k else vt,
    )
    values = c.expand(s, [len(batch)])
    least = Constant(float(finfo(dtype).eps) * 10 * max(m, n), dtype)
    bound = c.op("Multiply", least, c.reduced(values, MAX, [len(batch) + 1], True))
    inverse = c.op("Divide", Constant(1.0, dtype), values)
    inverse = c.select(c.test("Greater", values, bound), inverse, Constant(0, dtype))
    return c.matmul(c.op("Multiply", c.swapped(vt), inverse), c.swapped(u))


def _cross(c: Chain, axis: int) -> Any:
    """Append a cross product. The third element of a vector with two elements is zero."""
    axis %= max(c.of(0).ndim, c.of(1).ndim)
    x, y = c.of_one_dtype([0, 1])
    whole = c.out_avals[0].shape
    sides = []
    for side in (x, y):
        n = c.shape(side)[axis - len(whole)]
        side = c.broadcast(side, (*whole[:axis], n, *whole[axis + 1 :]))
        sides.append([*c.split(side, range(1, n), axis)])
    (a, b, d), (e, f, g) = ([*side, *[None] * (3 - len(side))] for side in sides)

    def product(x: Source | None, y: Source | None) -> Source | None:
        return None if x is None or y is None else c.op("Multiply", x, y)

    def minor(p: Source | None, q: Source | None, r: Source | None, s: Source | None) -> Source:
        first, second = product(p, q), product(r, s)
        if second is None:
            return c.filled(0, c.shape(sides[0][0]), c.out_avals[0].dtype) if first is None else first
        return c.unary("Negative", second) if first is None else c.op("Subtract", first, second)

    last = minor(a, f, b, e)
    if d is None and g is None:
        zero = minor(b, g, d, f)
        return c.concatenate([zero, zero, last], axis)
    return c.concatenate([minor(b, g, d, f), minor(d, e, a, g), last], axis)


def _fft(c: Chain, kind: str, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Any:
    inverse, real = kind.startswith("i"), "r" in kind.removeprefix("i")[:1]
    axes = tuple([k % c.of(0).ndim for k in axes])
    taken = list(sizes)
    if inverse and real:
        taken[-1] = taken[-1] // 2 + 1
    shape = list(c.shape(0))
    for k, n in zip(axes, taken, strict=True):
        shape[k] = n
    x = padded_with_zeros(c, 0, shape)
    x = c.cast(x, float32 if real and not inverse else complex64)
    out, is_odd = c.out_avals[0], bool(inverse and real and sizes[-1] % 2)
    spectrum = c.add("FFT", [x], out.shape, list(axes), inverse, real, is_odd, dtype=out.dtype)
    size = prod(sizes)
    if norm == "backward":
        return spectrum
    factor = 1 / size if norm == "forward" else 1 / sqrt(size)
    return c.op("Multiply", spectrum, c.constant(1 / factor if inverse else factor, spectrum))


def _lu_factor(c: Chain) -> Any:
    rows = c.out_avals[1]
    size = aval((*rows.shape[:-1], c.shape(0)[-2]), rows.dtype)
    return c.several("LUF", [0], [*c.out_avals, size])[:2]


def _determinant(c: Chain) -> Source | None:
    """Expand the determinant of matrices with at most three rows."""
    ndim, n = c.of(0).ndim, c.shape(0)[-1]
    if n not in (1, 2, 3):
        return None
    x = c.floating(0)

    @cache
    def at(row: int, column: int) -> Source:
        starts, stops = [0] * ndim, list(c.shape(0))
        starts[-2:], stops[-2:] = (row, column), (row + 1, column + 1)
        return c.squeeze(c.squeeze(c.slice(x, starts, stops), [ndim - 1]), [ndim - 2])

    def minor(rows: tuple[int, int], columns: tuple[int, int]) -> Source:
        (a, b), (d, e) = rows, columns
        return c.op("Subtract", c.op("Multiply", at(a, d), at(b, e)), c.op("Multiply", at(a, e), at(b, d)))

    if n == 1:
        return at(0, 0)
    if n == 2:
        return minor((0, 1), (0, 1))
    first, second, third = (
        c.op("Multiply", at(0, k), minor((1, 2), columns)) for k, columns in enumerate(((1, 2), (0, 2), (0, 1)))
    )
    return c.op("Add", c.op("Subtract", first, second), third)


def _slogdet(c: Chain) -> Any:
    determinant = _determinant(c)
    return (
        None if determinant is None else [c.unary("Sign", determinant), c.unary("Log", c.unary("Abs", determinant), 2)]
    )


LINALG: dict[str, Callable[..., Any]] = {
    "fft": _fft, "linalg_cholesky_inv": _cholesky_inv, "linalg_cross": _cross, "linalg_det": _determinant,
    "linalg_eig": _several("Eig", True), "linalg_eigh": _eigh(True), "linalg_eigvals": _several("Eig", False),
    "linalg_eigvalsh": _eigh(False), "linalg_inv": _inverse(False), "linalg_lu_factor": _lu_factor,
    "linalg_pinv": _pinv, "linalg_singular_values": _several("SVD", False), "linalg_slogdet": _slogdet,
    "linalg_solve_triangular": _solve_triangular, "linalg_svd": _several("SVD", True),
    "linalg_tri_inv": _inverse(True),
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
