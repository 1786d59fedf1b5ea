"""Continuous random distributions: uniform, normal, and those derived from them.

Each draws its bits in one node, so that a distribution is one instruction of a program. For one key, `uniform` gives
exactly real MLX's numbers. The others agree up to the last digits of functions such as `log`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.errors import expected
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, from_numpy
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax

from ..arguments import any_number, plain
from ..define import TABLE, broadcast, op
from ..elementwise.erf import erfinv_by_xla
from ..linalg.decompositions import square_root
from .bits import check_bits, scaled, unit
from .common import between, cast, check_uniform, check_uniform_dtype, dtype_of
from .state import key_node

__all__ = [
    "GUMBEL", "LAPLACE", "MULTIVARIATE_NORMAL", "NORMAL", "TRUNCATED", "UNIFORM", "gumbel", "gumbel_noise", "laplace",
    "multivariate_normal", "normal", "truncated_normal", "uniform",
]  # fmt: skip

_SQRT2 = math.sqrt(2.0)


def _infer_uniform(key: Aval, low: Aval, high: Aval, shape: tuple[int, ...], dtype: Dtype) -> Aval:
    check_uniform(key, low, high, shape, dtype)
    return aval(shape, dtype)


UNIFORM = op(
    "random_uniform",
    lambda key, low, high, shape, dtype: between(key, low, high, shape, dtype._numpy),
    _infer_uniform,
    ("shape", "dtype"),
    draws=True,
)


def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: Sequence[int] = [],
    dtype: Dtype | None = _float32,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return uniform random numbers in [low, high).

    Args:
        low: lower bound; a number, or an array that broadcasts to `shape`.
        high: upper bound; a number, or an array that broadcasts to `shape`.
        shape: the shape of the result.
        dtype: float32, float16 or bfloat16.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of the given shape and dtype.

    Raises:
        ValueError: if the dtype is not a real floating dtype, if the bounds do not broadcast to `shape`, or if `key` is
            not a key.
        RuntimeError: for float64.

    Example:
        >>> mx.random.uniform(-1, 1, shape=(2, 3), key=mx.random.key(0))
        array([[0.149001, -0.800628, 0.483932],
               [0.788357, 0.193133, -0.0934961]], dtype=float32)
    """
    check_stream(stream)
    dtype, size = dtype_of(dtype, "uniform"), plain(shape)
    drawn = key_node(key, "uniform", low, high)
    bounds = operands.node(low), operands.node(high)
    check_uniform_dtype(dtype)
    inputs = drawn, *bounds
    return wrap(apply(UNIFORM, inputs, (size, dtype)))


def _symmetric(key: Any, shape: tuple[int, ...]) -> Any:
    """Return uniform numbers in (-1, 1), float32."""
    return between(key, np.nextafter(np.float32(-1), np.float32(0)), np.float32(1), shape, np.float32)


def _normal(key: Any, *rest: Any, shape: tuple[int, ...], dtype: Dtype, given: tuple[bool, bool]) -> Any:
    kind = dtype._numpy
    parameters = iter(rest)
    loc = cast(next(parameters), kind) if given[0] else None
    scale = cast(next(parameters), kind) if given[1] else None
    if dtype._kind == "c":
        parts = erfinv_by_xla(_symmetric(key, (*shape, 2)))  # each of the two parts has variance 1/2
        x = lax.complex(parts[..., 0], parts[..., 1])
        if scale is not None:
            x = x * scale
        return x if loc is None else x + loc
    factor = jnp.asarray(_SQRT2, kind)
    if scale is not None:
        factor = factor * scale
    x = scaled(erfinv_by_xla(_symmetric(key, shape)).astype(kind), factor, 8.0)
    return x if loc is None else x + loc


def _infer_normal(key: Aval, *rest: Aval, shape: tuple[int, ...], dtype: Dtype, given: tuple[bool, bool]) -> Aval:
    check_bits(key, shape)
    for a in reversed(rest):
        shape = broadcast(a.shape, shape)
    return aval(shape, dtype)


NORMAL = op("random_normal", _normal, _infer_normal, ("shape", "dtype", "given"), draws=True)


def normal(
    shape: Sequence[int] = [],
    dtype: Dtype | None = _float32,
    loc: Any = None,
    scale: Any = None,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return normally distributed random numbers.

    Args:
        shape: the shape of the result, before it broadcasts with `loc` and `scale`.
        dtype: a floating dtype or complex64, whose real and imaginary parts have variance 1/2.
        loc: the mean, a number or an array; by default 0.
        scale: the standard deviation, a number or an array; by default 1.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of the given dtype.

    Raises:
        ValueError: if the dtype is an integer dtype, if shapes do not broadcast, or if `key` is not a key.

    Example:
        >>> mx.random.normal((2, 3), loc=1.0, scale=0.5).shape
        (2, 3)
    """
    check_stream(stream)
    dtype, size = dtype_of(dtype, "normal"), plain(shape)
    inputs = [key_node(key, "normal"), *[operands.node(x, dtype) for x in (loc, scale) if x is not None]]
    if dtype._kind not in "fc":
        raise ValueError("[normal] Only floating point and complex64 types are supported.")
    params = (size, dtype, (loc is not None, scale is not None))
    return wrap(apply(NORMAL, tuple(inputs), params))


def _with_mean(dtype: Dtype) -> Dtype:
    """Return the promoted dtype of float32 and a mean of this dtype."""
    return promote(_float32, dtype)


def _multivariate_normal(key: Any, mean: Any, cov: Any, shape: tuple[int, ...]) -> Any:
    root = square_root(cast(cov, np.float32))
    x = scaled(erfinv_by_xla(_symmetric(key, (*shape, mean.shape[-1]))), np.float32(_SQRT2), 8.0)
    x = jnp.matmul(x[..., None, :], root, precision="highest")[..., 0, :]
    mean = jnp.asarray(mean)
    dtype = _with_mean(from_numpy(mean.dtype))._numpy
    return x.astype(dtype) + mean.astype(dtype)


def _infer_multivariate(key: Aval, mean: Aval, cov: Aval, shape: tuple[int, ...]) -> Aval:
    check_bits(key, shape)
    return aval((*shape, mean.shape[-1]), _with_mean(mean.dtype))


MULTIVARIATE_NORMAL = op(
    "random_multivariate_normal", _multivariate_normal, _infer_multivariate, ("shape",), draws=True
)


def multivariate_normal(
    mean: array,
    cov: array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = _float32,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return jointly normal random vectors.

    Args:
        mean: an array of shape (..., n).
        cov: an array of shape (..., n, n), symmetric positive semi-definite.
        shape: a shape that broadcasts with the leading axes of `mean` and `cov`, to give those of the result.
        dtype: float32.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of shape (..., n) with dtype float32, or the dtype of the mean if that is float64 or complex64.

    Raises:
        ValueError: if the dtype is not float32, or if shapes do not fit.
        RuntimeError: at evaluation, for a `cov` with a NaN.

    Note:
        Unlike MLX's function, this one can be differentiated with respect to `cov`.

    Example:
        >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), shape=(5,)).shape
        (5, 2)
    """
    check_stream(stream)
    dtype = dtype_of(dtype, "multivariate_normal")
    if not isinstance(mean, array) or not isinstance(cov, array):
        raise expected("multivariate_normal", "arrays as mean and cov", cov if isinstance(mean, array) else mean)
    batch = plain(shape)
    drawn = key_node(key, "multivariate_normal")
    m, c = mean._node, cov._node
    if dtype is not _float32:
        raise ValueError("[multivariate_normal] dtype must be float32.")
    if m.aval.ndim < 1:
        raise ValueError("[multivariate_normal] mean must have at least one dimension.")
    if c.aval.ndim < 2:
        raise ValueError("[multivariate_normal] cov must have at least two dimensions.")
    if c.aval.shape[-1] != c.aval.shape[-2]:
        raise ValueError("[multivariate_normal] last two dimensions of cov must be equal.")
    if m.aval.shape[-1] != c.aval.shape[-1]:
        raise ValueError("[multivariate_normal] mean and cov must have compatible shapes.")
    full = broadcast(broadcast(c.aval.shape[:-2], m.aval.shape[:-1]), batch)
    return wrap(apply(MULTIVARIATE_NORMAL, (drawn, m, c), (full,)))


def _truncated_normal(key: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: Dtype) -> Any:
    kind = dtype._numpy
    lower, upper = cast(lower, kind), cast(upper, kind)
    root = jnp.asarray(_SQRT2, kind)
    x = between(key, _wide(lax.erf, lower / root), _wide(lax.erf, upper / root), shape, kind)
    z = root * _wide(erfinv_by_xla, x)
    return TABLE["maximum"].lower((), [TABLE["minimum"].lower((), [z, upper]), lower])


def _wide(function: Any, x: Any) -> Any:
    """Apply a function to half-precision numbers in float32, and round the result."""
    return function(x.astype(np.float32)).astype(x.dtype)


TRUNCATED = op("random_truncated_normal", _truncated_normal, _infer_uniform, ("shape", "dtype"), draws=True)


def truncated_normal(
    lower: Any,
    upper: Any,
    shape: Sequence[int] | None = None,
    dtype: Dtype | None = _float32,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return standard normal random numbers within (lower, upper).

    Args:
        lower: lower bound; a number, or an array that broadcasts to `shape`.
        upper: upper bound; a number, or an array that broadcasts to `shape`.
        shape: the shape of the result; by default the broadcast shape of the bounds.
        dtype: float32, float16 or bfloat16.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of the given shape and dtype.

    Raises:
        ValueError: if the dtype is not a real floating dtype, or if the bounds do not broadcast to `shape`.

    Example:
        >>> mx.abs(mx.random.truncated_normal(-2, 2, shape=(3,))) <= 2
        array([True, True, True], dtype=bool)
    """
    check_stream(stream)
    dtype, size = dtype_of(dtype, "truncated_normal"), None if shape is None else plain(shape)
    drawn = key_node(key, "truncated_normal", lower, upper)
    if dtype._kind != "f":
        raise ValueError("[trunc_normal] trunc_normal only accepts floating point dtypes.")
    low, high = operands.node(lower), operands.node(upper)
    if size is None:
        size = broadcast(low.aval.shape, high.aval.shape)
    return wrap(apply(TRUNCATED, (drawn, low, high), (size, dtype)))


def gumbel_noise(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return standard Gumbel noise."""
    x = unit(key, shape, dtype)
    return -_wide(jnp.log, -_wide(jnp.log, x))


def _infer_gumbel(key: Aval, shape: tuple[int, ...], dtype: Dtype) -> Aval:
    return _infer_uniform(key, _POINT, _POINT, shape, dtype)


_POINT = aval((), _float32)
GUMBEL = op(
    "random_gumbel",
    lambda key, shape, dtype: gumbel_noise(key, shape, dtype._numpy),
    _infer_gumbel,
    ("shape", "dtype"),
    draws=True,
)


def gumbel(
    shape: Sequence[int] = [],
    dtype: Dtype | None = _float32,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return random numbers of the standard Gumbel distribution, whose CDF is exp(-exp(-x)).

    Args:
        shape: the shape of the result.
        dtype: float32, float16 or bfloat16.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of the given shape and dtype.

    Raises:
        ValueError: if the dtype is not a real floating dtype.

    Example:
        >>> mx.random.gumbel((3,)).shape
        (3,)
    """
    check_stream(stream)
    params = plain(shape), dtype_of(dtype, "gumbel")
    return wrap(apply(GUMBEL, (key_node(key, "gumbel"),), params))


def _laplace(key: Any, loc: Any, scale: Any, shape: tuple[int, ...], dtype: Dtype) -> Any:
    x = _symmetric(key, shape)
    x = (jnp.sign(x) * jnp.log1p(-jnp.abs(x))).astype(dtype._numpy)
    return scaled(x, cast(scale, dtype._numpy), 32.0) + cast(loc, dtype._numpy)


def _infer_laplace(key: Aval, loc: Aval, scale: Aval, shape: tuple[int, ...], dtype: Dtype) -> Aval:
    check_bits(key, shape)
    return aval(shape, dtype)


LAPLACE = op("random_laplace", _laplace, _infer_laplace, ("shape", "dtype"), draws=True)


def laplace(
    shape: Sequence[int] = [],
    dtype: Dtype | None = _float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return random numbers of the Laplace distribution.

    Args:
        shape: the shape of the result.
        dtype: a real floating dtype.
        loc: the mean, a number.
        scale: the scale parameter, a number.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of the given shape and dtype.

    Raises:
        ValueError: if the dtype is not a real floating dtype.
        TypeError: if `loc` or `scale` is not a number.

    Example:
        >>> mx.random.laplace((3,), scale=0.5).shape
        (3,)
    """
    check_stream(stream)
    dtype, size = dtype_of(dtype, "laplace"), plain(shape)
    loc, scale = any_number(loc, "laplace", "loc"), any_number(scale, "laplace", "scale")
    drawn = key_node(key, "laplace")
    if dtype._kind != "f":
        raise ValueError("[laplace] Only real floating point types are supported.")
    inputs = drawn, operands.scalar_node(loc, dtype), operands.scalar_node(scale, dtype)
    return wrap(apply(LAPLACE, inputs, (size, dtype)))
