"""Derivatives of linear algebra in NumPy, on the host.

XLA computes the derivatives of `qr`, `svd`, `pinv`, of complex eigenvectors, and of the ops without a host rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD

from ..products.contraction import widened
from ..products.pullback import bilinear
from .decompositions import CHOLESKY
from .eigen import EIGH, EIGVALSH
from .host import cross, induced, or_xla, swapped, triangle, triangular_inverse
from .lu import DET, SLOGDET
from .norm import CROSS, NORM, is_spectral
from .solve import CHOLESKY_INV, INV, SOLVE, SOLVE_TRIANGULAR, TRI_INV

__all__: list[str] = []

_dot = np.matmul


@PULLBACK.of(INV)
def _pull_inv(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    z = swapped(y)
    return (-_dot(z, _dot(g, z)),)


@PUSHFORWARD.of(INV)
def _push_inv(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return -_dot(y, _dot(tangents[0], y))


@PULLBACK.of(TRI_INV)
def _pull_tri_inv(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    z = swapped(y)
    return (-triangle(_dot(z, _dot(g, z)), *params),)


@PUSHFORWARD.of(TRI_INV)
def _push_tri_inv(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return -_dot(y, _dot(triangle(tangents[0], *params), y))


@PULLBACK.of(CHOLESKY_INV)
@or_xla
def _pull_cholesky_inv(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    (upper,) = params
    inverse = triangular_inverse(a, upper)
    both = g + swapped(g)
    back = _dot(both, inverse) if upper else _dot(inverse, both)
    z = swapped(inverse)
    return (-triangle(_dot(z, _dot(back, z)), upper),)


@PUSHFORWARD.of(CHOLESKY_INV)
@or_xla
def _push_cholesky_inv(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    (upper,) = params
    inverse = triangular_inverse(a, upper)
    t = -_dot(inverse, _dot(triangle(tangents[0], upper), inverse))
    moved = _dot(t, swapped(inverse)) if upper else _dot(swapped(t), inverse)
    return moved + swapped(moved)


def _pull_system(g: Any, y: Any, needs_grad: tuple, a: Any, b: Any, cut: Any) -> Any:
    vector = b.ndim == 1
    g, y = (g[..., None], y[..., None]) if vector else (g, y)
    gb = np.linalg.solve(swapped(cut(a.astype(y.dtype, copy=False))), g)
    ga = -cut(_dot(gb, swapped(y))) if needs_grad[0] else None
    return ga, gb[..., 0] if vector else gb


def _push_system(tangents: Any, y: Any, a: Any, b: Any, cut: Any) -> Any:
    da, db = tangents
    vector = b.ndim == 1
    moved: Any = None if db is None else db[..., None] if vector else db
    if da is not None:
        change = _dot(cut(da), y[..., None] if vector else y)
        moved = -change if moved is None else moved - change
    moved = np.linalg.solve(cut(a.astype(y.dtype, copy=False)), moved)
    return moved[..., 0] if vector else moved


@PULLBACK.of(SOLVE)
@or_xla
def _pull_solve(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any, b: Any) -> Any:
    return _pull_system(g, y, needs_grad, a, b, lambda x: x)


@PUSHFORWARD.of(SOLVE)
@or_xla
def _push_solve(tangents: Any, y: Any, params: tuple, a: Any, b: Any) -> Any:
    return _push_system(tangents, y, a, b, lambda x: x)


@PULLBACK.of(SOLVE_TRIANGULAR)
@or_xla
def _pull_solve_triangular(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any, b: Any) -> Any:
    return _pull_system(g, y, needs_grad, a, b, lambda x: triangle(x, *params))


@PUSHFORWARD.of(SOLVE_TRIANGULAR)
@or_xla
def _push_solve_triangular(tangents: Any, y: Any, params: tuple, a: Any, b: Any) -> Any:
    return _push_system(tangents, y, a, b, lambda x: triangle(x, *params))


def _halved(x: Any) -> Any:
    """Return the lower triangle, with the diagonal divided by 2."""
    return (np.tril(x) + np.tril(x, -1)) / 2


@PULLBACK.of(CHOLESKY)
@or_xla
def _pull_cholesky(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    lower, g = (swapped(y), swapped(g)) if params[0] else (y, g)
    inverse = np.linalg.inv(lower)
    ga = _dot(swapped(inverse), _dot(_halved(_dot(swapped(lower), g)), inverse))
    return ((ga + swapped(ga)) / 2,)


@PUSHFORWARD.of(CHOLESKY)
@or_xla
def _push_cholesky(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    t = (tangents[0] + swapped(tangents[0])) / 2
    lower = swapped(y) if params[0] else y
    inverse = np.linalg.inv(lower)
    moved = _dot(lower, _halved(_dot(inverse, _dot(t, swapped(inverse)))))
    return swapped(moved) if params[0] else moved


def _inverse_gaps(values: Any) -> Any:
    """Return 1 / (v[j] - v[i]) for each pair, and 0 where two are equal."""
    gaps = values[..., None, :] - values[..., :, None]
    return np.where(gaps == 0, gaps, 1 / np.where(gaps == 0, 1, gaps))


@PULLBACK.of(EIGH)
@or_xla
def _pull_eigh(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    if a.dtype.kind == "c":
        return None
    (gw, gv), (w, v) = g, y
    d: Any = 0
    if gv is not None:
        d = _inverse_gaps(w) * _dot(swapped(v), gv)
    if gw is not None:
        d = d + gw[..., None] * np.eye(w.shape[-1], dtype=w.dtype)
    ga = _dot(v, _dot(d, swapped(v)))
    return ((ga + swapped(ga)) / 2,)


@PUSHFORWARD.of(EIGH)
@or_xla
def _push_eigh(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    if a.dtype.kind == "c":
        return None
    w, v = y
    d = _turned(tangents[0], v)
    return d.diagonal(0, -2, -1), _dot(v, _inverse_gaps(w) * d)


def _turned(t: Any, v: Any) -> Any:
    """Return the symmetric part of a tangent, in the basis of the eigenvectors."""
    return _dot(swapped(v.conj()), _dot((t + swapped(t.conj())) / 2, v))


@PUSHFORWARD.of(EIGVALSH)
@or_xla
def _push_eigvalsh(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    v = np.linalg.eigh(a, "L" if params[0] else "U")[1]
    return _turned(tangents[0], v).diagonal(0, -2, -1).real


@PULLBACK.of(EIGVALSH)
@or_xla
def _pull_eigvalsh(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    v = np.linalg.eigh(a, "L" if params[0] else "U")[1]
    # The gradient is not conjugated, because the change of each eigenvalue is linear in the matrix.
    return (_dot(v.conj() * g[..., None, :], swapped(v)),)


@PULLBACK.of(DET)
@or_xla
def _pull_det(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    inverse = np.linalg.inv(widened(a, a.dtype))
    return ((g * y)[..., None, None] * swapped(inverse),)


@PULLBACK.of(SLOGDET)
@or_xla
def _pull_slogdet(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    if g[1] is None:
        return (None,)
    return (g[1][..., None, None] * swapped(np.linalg.inv(widened(a, a.dtype))),)


def _trace_of(inverse: Any, t: Any) -> Any:
    """Return the trace of the product of two matrices."""
    return (swapped(inverse) * t).sum((-1, -2))


@PUSHFORWARD.of(DET)
@or_xla
def _push_det(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return y * _trace_of(np.linalg.inv(widened(a, a.dtype)), tangents[0])


@PUSHFORWARD.of(SLOGDET)
@or_xla
def _push_slogdet(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    return None, _trace_of(np.linalg.inv(widened(a, a.dtype)), tangents[0]).real


def _norm_slopes(y: Any, params: tuple, a: Any, choose: Any) -> Any:
    """Return the derivative of a norm with respect to each element; None if XLA is to compute it.

    Args:
        y: the norm, with its axes kept.
        choose: the function that gives the shares of elements that equal a maximum or minimum.
    """
    order, axes, _ = params
    plain = order is None or (order == 2 and len(axes) == 1)
    if is_spectral(order, axes) or (a.dtype.kind == "c" and not plain):
        return None
    x = widened(a, a.dtype)
    if plain:
        return (x.conj() if x.dtype.kind == "c" else x) / y
    size, order = np.abs(x), float(params[0])
    if len(axes) == 2:
        sums, norm = induced(size, order, axes)
        return choose(sums == norm, axes) * np.sign(x)
    if np.isinf(order):
        return choose(size == y, axes) * np.sign(x)
    if order in (0, 1):
        return np.sign(x) if order else np.zeros_like(x)
    power = x.dtype.type(order - 1)
    return y**-power * size**power * np.sign(x)


def _with_axes(y: Any, params: tuple) -> Any:
    """Return a result of `norm` with its axes kept."""
    y = widened(y, y.dtype)
    return y if params[2] else np.expand_dims(y, params[1])


@PULLBACK.of(NORM)
def _pull_norm(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    slopes = _norm_slopes(_with_axes(y, params), params, a, _shares)
    return None if slopes is None else (_with_axes(g, params) * slopes,)


@PUSHFORWARD.of(NORM)
def _push_norm(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    slopes = _norm_slopes(_with_axes(y, params), params, a, _first)
    return None if slopes is None else (slopes * tangents[0]).real.sum(params[1]).reshape(y.shape)


def _shares(chosen: Any, axes: tuple[int, ...]) -> Any:
    """Return weights that are equal for all chosen elements along the axes, and 0 for the others."""
    return chosen / np.float32(1) / chosen.sum(axes, np.float32, keepdims=True)


def _first(chosen: Any, axes: tuple[int, ...]) -> Any:
    """Return weights of 1 for the first chosen element along each axis, and 0 for the others."""
    for axis in axes:
        chosen = chosen & (np.add.accumulate(chosen, axis, np.int32) == 1)
    return chosen


def _components(g: Any, x: Any, axis: int) -> Any:
    """Return the leading components of `g`: as many as x has."""
    return g if x.shape[axis] == 3 else np.moveaxis(np.moveaxis(g, axis, 0)[:2], 0, axis)


@PULLBACK.of(CROSS)
def _pull_cross(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any, b: Any) -> Any:
    (axis,) = params
    if a.ndim != b.ndim and axis >= 0:
        return None
    g, left, right = widened(g, y.dtype), widened(a, y.dtype), widened(b, y.dtype)
    ga = _components(cross(right, g, axis, y.shape), a, axis) if needs_grad[0] else None
    gb = _components(cross(g, left, axis, y.shape), b, axis) if needs_grad[1] else None
    return ga, gb


@PUSHFORWARD.of(CROSS)
def _push_cross(tangents: Any, y: Any, params: tuple, a: Any, b: Any) -> Any:
    (axis,) = params
    if a.ndim != b.ndim and axis >= 0:
        return None
    return bilinear(lambda a, b: cross(a, b, axis, y.shape), tangents, y.dtype, a, b)
