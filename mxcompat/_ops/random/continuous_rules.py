"""Rules of the continuous draws. NumPy gives the same results as the lowerings from the same words, to a rounding.

The derivatives are those with respect to non-random inputs: bounds, means, scales, covariances. The noise is drawn
again from the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD

from ..elementwise.erf import erf_as_xla, erfinv
from ..linalg.failures import SVD_FAILED, fails, holds_nan
from .continuous import GUMBEL, LAPLACE, MULTIVARIATE_NORMAL, NORMAL, TRUNCATED, UNIFORM
from .noise import SQRT2, between, cast, gumbel_noise, unit, wide
from .rows import one_by_one, takes_several_keys

__all__: list[str] = []


@HOST.of(UNIFORM)
def _uniform(out: Aval, params: tuple, key: np.ndarray, low: Any, high: Any) -> np.ndarray:
    return between(key, low, high, out.shape, out.dtype._numpy)


def _uniform_noise(params: tuple, key: Any) -> Any:
    shape, dtype = params
    return unit(key, shape, dtype._numpy).astype(np.float32)


@PULLBACK.of(UNIFORM)
def _uniform_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, low: Any, high: Any) -> tuple:
    rising = g * _uniform_noise(params, key)
    return None, g - rising, rising


def _total(*terms: Any) -> Any:
    """Return the sum of the terms that are not None."""
    present = [t for t in terms if t is not None]
    return sum(present[1:], present[0])


def _stretch(tangent: Any, noise: Any) -> Any:
    return None if tangent is None else tangent * noise


@PUSHFORWARD.of(UNIFORM)
def _uniform_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, low: Any, high: Any) -> Any:
    noise = _uniform_noise(params, key)
    return _total(_stretch(tangents[1], 1 - noise), _stretch(tangents[2], noise))


_ROOT = np.array(SQRT2, np.float32)

_LOW = np.array(np.nextafter(np.float32(-1), np.float32(0)))
_WIDTH = np.array(np.float32(1) - _LOW)


def _symmetric(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return uniform numbers in (-1, 1), float32."""
    x = unit(key, shape)
    np.multiply(x, _WIDTH, x)
    np.add(x, _LOW, x)
    return x


def normals(key: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Return normal numbers of variance 1/2, float32."""
    return erfinv(_symmetric(key, shape))


@HOST.of(NORMAL)
def _normal(out: Aval, params: tuple, key: np.ndarray, *rest: Any) -> Any:
    shape, dtype, (shifted, stretched) = params
    if key.ndim > 1:
        shape = (len(key), *[1] * (len(out.shape) - 1 - len(shape)), *shape)
    kind = dtype._numpy
    loc = cast(rest[0], kind) if shifted else None
    scale = cast(rest[-1], kind) if stretched else None
    if dtype._kind == "c":
        x = normals(key, (*shape, 2)).view(np.complex64)[..., 0]
        if scale is not None:
            x = x * scale
        return x if loc is None else x + loc
    x = normals(key, shape)
    if kind == np.float32:
        x = x * (_ROOT if scale is None else _ROOT * scale)
    else:
        factor = np.array(SQRT2, kind)
        x = x.astype(kind) * (factor if scale is None else (factor * scale).astype(kind))
    return x if loc is None else x + loc


def _normal_noise(params: tuple, key: Any) -> Any:
    """Return the noise that the scale multiplies; None if there is no scale."""
    shape, dtype, (_, stretched) = params
    if not stretched:
        return None
    if dtype._kind == "c":
        return normals(key, (*shape, 2)).view(np.complex64)[..., 0]
    x = normals(key, shape)
    return (x.astype(np.float64) * SQRT2) if dtype.size == 8 else x * _ROOT


@PULLBACK.of(NORMAL)
def _normal_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, *rest: Any) -> tuple:
    shifted, stretched = params[2]
    loc = (g,) if shifted else ()
    if not stretched:
        return (None, *loc)
    return (None, *loc, g * _normal_noise(params, key) if needs_grad[-1] else None)


@PUSHFORWARD.of(NORMAL)
def _normal_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, *rest: Any) -> Any:
    shifted, stretched = params[2]
    loc = tangents[1] if shifted else None
    scale = tangents[-1] if stretched else None
    return _total(loc, _stretch(scale, _normal_noise(params, key)) if scale is not None else None)


def roots(cov: Any) -> tuple[Any, Any, Any] | None:
    """Return the singular vectors of covariances and the roots of their singular values; None if NumPy cannot find
    them."""
    if cov.size == 0:
        return None
    try:
        left, values, right = np.linalg.svd(cast(cov, np.dtype(np.float32)), full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    return left, np.sqrt(values), right


@HOST.of(MULTIVARIATE_NORMAL)
def _multivariate_normal(out: Aval, params: tuple, key: np.ndarray, mean: Any, cov: Any) -> Any:
    decomposed = roots(cov)
    if decomposed is None:
        return None
    left, values, right = decomposed
    x = normals(key, out.shape) * _ROOT
    x = np.matmul(x[..., None, :], (left * values[..., None, :]) @ right)[..., 0, :]
    return x.astype(out.dtype._numpy) + cast(mean, out.dtype._numpy)


def _through_root(parts: tuple[Any, Any, Any], moved: Any) -> Any:
    """Return the X with R X + X R = `moved`: the derivative of the square root R. It is its own transpose."""
    left, values, _ = parts
    sums = values[..., :, None] + values[..., None, :]
    turned = np.swapaxes(left, -1, -2) @ moved @ left
    inner = np.where(sums > 0, turned / np.where(sums > 0, sums, 1), 0).astype(np.float32)
    return left @ inner @ np.swapaxes(left, -1, -2)


@PULLBACK.of(MULTIVARIATE_NORMAL)
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


_FLOAT32 = np.dtype(np.float32)


@PUSHFORWARD.of(MULTIVARIATE_NORMAL)
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


fails(MULTIVARIATE_NORMAL, SVD_FAILED, lambda _, key, mean, cov: holds_nan(cov))


@HOST.of(TRUNCATED)
def _truncated_normal(out: Aval, params: tuple, key: np.ndarray, lower: Any, upper: Any) -> Any:
    kind = out.dtype._numpy
    lower, upper = cast(lower, kind), cast(upper, kind)
    root = np.array(SQRT2, kind)
    x = between(key, wide(erf_as_xla, lower / root), wide(erf_as_xla, upper / root), out.shape, kind)
    return np.maximum(np.minimum(root * wide(erfinv, x), upper), lower)


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


@PULLBACK.of(TRUNCATED)
def _truncated_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, lower: Any, upper: Any) -> tuple:
    at_lower, at_upper = _truncated_slopes(params, key, lower, upper)
    return None, g * at_lower, g * at_upper


@PUSHFORWARD.of(TRUNCATED)
def _truncated_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, lower: Any, upper: Any) -> Any:
    at_lower, at_upper = _truncated_slopes(params, key, lower, upper)
    return _total(_stretch(tangents[1], at_lower), _stretch(tangents[2], at_upper))


@HOST.of(GUMBEL)
def _gumbel(out: Aval, params: tuple, key: np.ndarray) -> Any:
    return gumbel_noise(key, out.shape, out.dtype._numpy)


def laplaces(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return standard Laplace numbers."""
    x = _symmetric(key, shape)
    return (np.sign(x) * np.log1p(-np.abs(x))).astype(dtype, copy=False)


@HOST.of(LAPLACE)
def _laplace(out: Aval, params: tuple, key: np.ndarray, loc: Any, scale: Any) -> Any:
    kind = out.dtype._numpy
    return laplaces(key, out.shape, kind) * cast(scale, kind) + cast(loc, kind)


takes_several_keys(UNIFORM, NORMAL, TRUNCATED, GUMBEL, LAPLACE)


def _laplace_noise(params: tuple, key: Any) -> Any:
    shape, dtype = params
    return laplaces(key, shape, dtype._numpy)


@PULLBACK.of(LAPLACE)
def _laplace_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, loc: Any, scale: Any) -> tuple:
    return None, g, g * _laplace_noise(params, key)


@PUSHFORWARD.of(LAPLACE)
def _laplace_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, loc: Any, scale: Any) -> Any:
    return _total(tangents[1], _stretch(tangents[2], _laplace_noise(params, key)))


BATCH.of(UNIFORM, NORMAL, MULTIVARIATE_NORMAL, TRUNCATED, GUMBEL, LAPLACE)(one_by_one)
