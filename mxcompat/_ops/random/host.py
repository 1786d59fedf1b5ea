"""Host rules of the draws: the same results as the lowerings of `continuous` and `discrete` from the same words, to a
rounding.

The rules of the ops in `OF_EACH` also take several keys, an array of shape (count, 2). Then `count` is the first axis
of the result, and of the other inputs, which have as many axes as the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.rules import HOST, QUICK
from mxcompat._native import native

from ..define import TABLE
from ..elementwise.erf import erf_as_xla, erfinv
from . import continuous, discrete, state  # noqa: F401  they define the ops
from .threefry import chain, words, words_of_each

__all__ = ["OF_EACH", "SQRT2", "argsorted", "cast", "laplaces", "normals", "roots", "unit", "wide"]

SQRT2 = math.sqrt(2.0)

_OVER_2_32 = np.array(2.0**-32, np.float32)  # NumPy handles a 0-d array faster than a number
_BELOW_ONE = {d: np.nextafter(np.ones((), d), np.zeros((), d)) for d in (np.dtype(np.float32), np.dtype(np.float16))}
_LOW = np.array(np.nextafter(np.float32(-1), np.float32(0)))
_WIDTH = np.array(np.float32(1) - _LOW)
_ROOT = np.array(SQRT2, np.float32)


OF_EACH = frozenset(
    f"random_{name}"
    for name in (
        "bernoulli", "categorical", "gumbel", "laplace", "normal", "permutation", "randint", "split",
        "truncated_normal", "uniform",
    )
)  # fmt: skip


if native is not None:
    QUICK.update(TABLE[name] for name in OF_EACH)


def _bits(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return random words of this shape. With several keys, each key fills its row."""
    if key.ndim == 1:
        return words(key, math.prod(shape)).reshape(shape)
    return words_of_each(key, math.prod(shape[1:])).reshape(shape)


def unit(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype | None = None) -> np.ndarray:
    """Return uniform numbers in [0, 1), by default float32."""
    x = _bits(key, shape).astype(np.float32)
    np.multiply(x, _OVER_2_32, x)
    np.minimum(x, _BELOW_ONE[x.dtype], out=x)
    if dtype is None or dtype == x.dtype:
        return x
    x = x.astype(dtype)
    return np.minimum(x, _below_one(dtype), out=x)


def _below_one(dtype: np.dtype) -> Any:
    if dtype not in _BELOW_ONE:
        _BELOW_ONE[dtype] = np.nextafter(np.ones((), dtype), np.zeros((), dtype))
    return _BELOW_ONE[dtype]


def cast(x: Any, dtype: np.dtype) -> Any:
    """Return `x` in a dtype. For a real dtype, a complex number loses its imaginary part."""
    if x.dtype == dtype:
        return x
    return (x.real if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)


def wide(function: Any, x: Any) -> Any:
    """Apply a function to half-precision numbers in float32, and round the result."""
    return function(x) if x.dtype == np.float32 else function(x.astype(np.float32)).astype(x.dtype)


def _between(key: np.ndarray, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    low, high = cast(low, dtype), cast(high, dtype)
    x = unit(key, shape, dtype)
    return np.add(np.multiply(x, high - low, x), low, x)


def _symmetric(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return uniform numbers in (-1, 1), float32."""
    x = unit(key, shape)
    np.multiply(x, _WIDTH, x)
    np.add(x, _LOW, x)
    return x


def normals(key: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Return normal numbers of variance 1/2, float32."""
    return erfinv(_symmetric(key, shape))


@HOST.of(TABLE["random_split"])
def _split(out: Aval, params: tuple, key: np.ndarray) -> np.ndarray:
    return _bits(key, out.shape)


@HOST.of(TABLE["random_chain"])
def _chain(out: tuple[Aval, Aval], params: tuple, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    links = chain(key, params[0])
    return (links[-1, 0].copy() if len(links) else key), links


@HOST.of(TABLE["random_link"])
def _link(out: Aval, params: tuple, links: np.ndarray, row: Any) -> np.ndarray:
    return links[int(row), params[0]]


@HOST.of(TABLE["random_uniform"])
def _uniform(out: Aval, params: tuple, key: np.ndarray, low: Any, high: Any) -> np.ndarray:
    return _between(key, low, high, out.shape, out.dtype._numpy)


@HOST.of(TABLE["random_normal"])
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


@HOST.of(TABLE["random_multivariate_normal"])
def _multivariate_normal(out: Aval, params: tuple, key: np.ndarray, mean: Any, cov: Any) -> Any:
    decomposed = roots(cov)
    if decomposed is None:
        return None
    left, values, right = decomposed
    x = normals(key, out.shape) * _ROOT
    x = np.matmul(x[..., None, :], (left * values[..., None, :]) @ right)[..., 0, :]
    return x.astype(out.dtype._numpy) + cast(mean, out.dtype._numpy)


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


@HOST.of(TABLE["random_truncated_normal"])
def _truncated_normal(out: Aval, params: tuple, key: np.ndarray, lower: Any, upper: Any) -> Any:
    kind = out.dtype._numpy
    lower, upper = cast(lower, kind), cast(upper, kind)
    root = np.array(SQRT2, kind)
    x = _between(key, wide(erf_as_xla, lower / root), wide(erf_as_xla, upper / root), out.shape, kind)
    return np.maximum(np.minimum(root * wide(erfinv, x), upper), lower)


def _gumbel_noise(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype | None = None) -> Any:
    x = unit(key, shape, dtype)
    return -wide(np.log, -wide(np.log, x))


@HOST.of(TABLE["random_gumbel"])
def _gumbel(out: Aval, params: tuple, key: np.ndarray) -> Any:
    return _gumbel_noise(key, out.shape, out.dtype._numpy)


@HOST.of(TABLE["random_laplace"])
def _laplace(out: Aval, params: tuple, key: np.ndarray, loc: Any, scale: Any) -> Any:
    kind = out.dtype._numpy
    return laplaces(key, out.shape, kind) * cast(scale, kind) + cast(loc, kind)


def laplaces(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return standard Laplace numbers."""
    x = _symmetric(key, shape)
    return (np.sign(x) * np.log1p(-np.abs(x))).astype(dtype, copy=False)


@HOST.of(TABLE["random_randint"])
def _randint(out: Aval, params: tuple, key: np.ndarray, low: Any, high: Any) -> np.ndarray:
    dtype = out.dtype
    x = converted_on_host(np.floor(_between(key, low, high, out.shape, _float32._numpy)), dtype)
    last = high.astype(np.int32) - np.int32(1) if high.dtype == bool else high - np.ones((), high.dtype)
    return np.maximum(np.minimum(x, converted_on_host(last, dtype)), converted_on_host(low, dtype))


@HOST.of(TABLE["random_bernoulli"])
def _bernoulli(out: Aval, params: tuple, key: np.ndarray, p: Any) -> np.ndarray:
    if p.dtype.itemsize < 4:
        p = p.astype(np.float32)
    return unit(key, out.shape) < p


@HOST.of(TABLE["random_categorical"])
def _categorical(out: Aval, params: tuple, key: np.ndarray, logits: Any) -> np.ndarray:
    axis, shape, samples = params
    axis = axis - len(shape) if axis >= 0 else axis
    shape = shape if key.ndim == 1 else (len(key), *shape)
    if samples:
        logits = logits[..., None]
    return np.argmax(cast(logits, _real_dtype(logits)) + _gumbel_noise(key, shape), axis=axis).astype(np.uint32)


def _real_dtype(logits: Any) -> np.dtype:
    kind = promote(from_numpy(logits.dtype), _float32)  # type: ignore[arg-type]
    return kind._numpy if kind._kind == "f" else _float32._numpy


@HOST.of(TABLE["random_categorical_line"])
def _categorical_line(out: Aval, params: tuple, key: np.ndarray, logits: Any) -> np.ndarray:
    line = cast(logits, _real_dtype(logits)).reshape(-1)
    most = np.max(line)
    weights = (line == most).astype(line.dtype) if np.isinf(most) else np.exp(line - most)
    bounds = np.cumsum(weights)
    places = np.searchsorted(bounds, unit(key, out.shape) * bounds[-1])
    if np.isnan(bounds[-1]):
        places = np.full(out.shape, line.size)
    return np.minimum(places, line.size - 1).astype(np.uint32)


def argsorted(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return random permutations along the last axis: the order that sorts random words; the index breaks ties."""
    both = _bits(key, shape).astype(np.uint64)
    np.left_shift(both, 32, both)
    np.add(both, np.arange(shape[-1], dtype=np.uint64), both)
    both.sort()
    return both.astype(np.uint32)


@HOST.of(TABLE["random_permutation"])
def _permutation(out: Aval, params: tuple, key: np.ndarray) -> np.ndarray:
    return argsorted(key, out.shape)


@HOST.of(TABLE["random_permute"])
def _permute(out: Aval, params: tuple, key: np.ndarray, x: Any) -> np.ndarray:
    (axis,) = params
    return np.take(x, argsorted(key, (x.shape[axis],)), axis=axis)
