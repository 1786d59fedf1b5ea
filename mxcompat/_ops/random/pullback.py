"""Derivatives, on the host, of draws with respect to their non-random inputs: bounds, means, scales, covariances.

The noise is drawn again from the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD

from ..define import TABLE
from ..elementwise.erf import erf_as_xla, erfinv
from .host import SQRT2, argsorted, cast, laplaces, normals, roots, unit, wide

__all__: list[str] = []

_FLOAT32 = np.dtype(np.float32)
_ROOT = np.float32(SQRT2)


def _total(*terms: Any) -> Any:
    """Return the sum of the terms that are not None."""
    present = [t for t in terms if t is not None]
    return sum(present[1:], present[0])


def _stretch(tangent: Any, noise: Any) -> Any:
    return None if tangent is None else tangent * noise


def _uniform_noise(params: tuple, key: Any) -> Any:
    shape, dtype = params
    return unit(key, shape, dtype._numpy).astype(np.float32)


@PULLBACK.of(TABLE["random_uniform"])
def _uniform_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, low: Any, high: Any) -> tuple:
    rising = g * _uniform_noise(params, key)
    return None, g - rising, rising


@PUSHFORWARD.of(TABLE["random_uniform"])
def _uniform_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, low: Any, high: Any) -> Any:
    noise = _uniform_noise(params, key)
    return _total(_stretch(tangents[1], 1 - noise), _stretch(tangents[2], noise))


def _normal_noise(params: tuple, key: Any) -> Any:
    """Return the noise that the scale multiplies; None if there is no scale."""
    shape, dtype, (_, stretched) = params
    if not stretched:
        return None
    if dtype._kind == "c":
        return normals(key, (*shape, 2)).view(np.complex64)[..., 0]
    x = normals(key, shape)
    return (x.astype(np.float64) * SQRT2) if dtype.size == 8 else x * _ROOT


@PULLBACK.of(TABLE["random_normal"])
def _normal_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, *rest: Any) -> tuple:
    shifted, stretched = params[2]
    loc = (g,) if shifted else ()
    if not stretched:
        return (None, *loc)
    return (None, *loc, g * _normal_noise(params, key) if needs_grad[-1] else None)


@PUSHFORWARD.of(TABLE["random_normal"])
def _normal_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, *rest: Any) -> Any:
    shifted, stretched = params[2]
    loc = tangents[1] if shifted else None
    scale = tangents[-1] if stretched else None
    return _total(loc, _stretch(scale, _normal_noise(params, key)) if scale is not None else None)


def _laplace_noise(params: tuple, key: Any) -> Any:
    shape, dtype = params
    return laplaces(key, shape, dtype._numpy)


@PULLBACK.of(TABLE["random_laplace"])
def _laplace_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, loc: Any, scale: Any) -> tuple:
    return None, g, g * _laplace_noise(params, key)


@PUSHFORWARD.of(TABLE["random_laplace"])
def _laplace_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, loc: Any, scale: Any) -> Any:
    return _total(tangents[1], _stretch(tangents[2], _laplace_noise(params, key)))


def _truncated_slopes(params: tuple, key: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return the derivatives with respect to the bounds."""
    shape, dtype = params
    kind = dtype._numpy
    lower, upper = cast(lower, kind), cast(upper, kind)
    root = np.array(SQRT2, kind)
    a, b = lower / root, upper / root
    low, high = wide(erf_as_xla, a), wide(erf_as_xla, b)
    drawn = unit(key, shape, kind)
    x = drawn * (high - low) + low
    z = root * wide(erfinv, x)
    top = np.minimum(z, upper)
    above = top > lower  # at a tie of a minimum or maximum, the second operand gets the whole derivative
    shares = above & (z < upper), above & (z >= upper), top <= lower
    inside, at_upper, at_lower = (share.astype(np.float32) for share in shares)
    noise = drawn.astype(np.float32)
    e, a, b = z.astype(np.float32) / _ROOT, a.astype(np.float32), b.astype(np.float32)
    moving = inside * np.exp(e * e)
    falling, rising = (1 - noise) * np.exp(-a * a), noise * np.exp(-b * b)
    return moving * falling + at_lower, moving * rising + at_upper


@PULLBACK.of(TABLE["random_truncated_normal"])
def _truncated_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, lower: Any, upper: Any) -> tuple:
    at_lower, at_upper = _truncated_slopes(params, key, lower, upper)
    return None, g * at_lower, g * at_upper


@PUSHFORWARD.of(TABLE["random_truncated_normal"])
def _truncated_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, lower: Any, upper: Any) -> Any:
    at_lower, at_upper = _truncated_slopes(params, key, lower, upper)
    return _total(_stretch(tangents[1], at_lower), _stretch(tangents[2], at_upper))


def _through_root(parts: tuple[Any, Any, Any], moved: Any) -> Any:
    """Return the X with R X + X R = `moved`: the derivative of the square root R. It is its own transpose."""
    left, values, _ = parts
    sums = values[..., :, None] + values[..., None, :]
    turned = np.swapaxes(left, -1, -2) @ moved @ left
    inner = np.where(sums > 0, turned / np.where(sums > 0, sums, 1), 0).astype(np.float32)
    return left @ inner @ np.swapaxes(left, -1, -2)


@PULLBACK.of(TABLE["random_multivariate_normal"])
def _multivariate_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, mean: Any, cov: Any) -> tuple | None:
    if not needs_grad[2]:
        return None, g, None
    parts = roots(cov)
    if parts is None:
        return None
    outer = (normals(key, g.shape) * _ROOT)[..., :, None] * g.real[..., None, :]
    extra = outer.ndim - cov.ndim
    if extra:
        outer = outer.sum(axis=tuple(range(extra)))
    repeated = tuple([k for k, n in enumerate(cov.shape[:-2]) if n == 1 != outer.shape[k]])
    return None, g, _through_root(parts, outer.sum(axis=repeated, keepdims=True) if repeated else outer)


@PUSHFORWARD.of(TABLE["random_multivariate_normal"])
def _multivariate_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, mean: Any, cov: Any) -> Any:
    _, shift, moved = tangents
    if moved is None:
        return shift
    parts = roots(cov)
    if parts is None:
        return None
    x = normals(key, y.shape) * _ROOT
    turned = np.matmul(x[..., None, :], _through_root(parts, cast(moved, _FLOAT32)))[..., 0, :]
    return _total(turned, shift)


@PULLBACK.of(TABLE["random_permute"])
def _permute_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, x: Any) -> tuple:
    (axis,) = params
    return None, np.take(g, np.argsort(argsorted(key, (x.shape[axis],))), axis=axis)


@PUSHFORWARD.of(TABLE["random_permute"])
def _permute_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, x: Any) -> Any:
    (axis,) = params
    return np.take(tangents[1], argsorted(key, (x.shape[axis],)), axis=axis)
