"""Discrete random draws: integers, coin flips, categories and permutations.

For one key they equal real MLX's draws. (A category may differ if two candidates are within a rounding error.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import converted
from mxcompat._array.errors import bad_cast, expected
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy
from mxcompat._graph.ir.aval import bool_ as _bool
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.aval import int32 as _int32
from mxcompat._graph.ir.aval import uint32 as _uint32
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.rules import TANGENT_DTYPE
from mxcompat._jax import jnp

from ..arguments import axis_of, integer, plain, require_array
from ..define import broadcast, op
from ..reductions.sorting import argsorted
from .bits import bits, check_bits, unit
from .common import between, cast, check_uniform, dtype_of
from .continuous import gumbel_noise
from .state import key_node

__all__ = [
    "BERNOULLI", "CATEGORICAL", "CATEGORICAL_LINE", "PERMUTE", "PERMUTED", "RANDINT", "bernoulli", "categorical",
    "permutation", "randint",
]  # fmt: skip


def _randint(key: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: Dtype) -> Any:
    low, high = jnp.asarray(low), jnp.asarray(high)
    x = converted(jnp.floor(between(key, low, high, shape, np.float32)), dtype)
    # Rounding to float32 may leave the bounds. Subtract 1 before the cast, so that 256 is a valid bound for uint8.
    last = high.astype(np.int32) - np.int32(1) if high.dtype == bool else high - jnp.asarray(1, high.dtype)
    last, low = converted(last, dtype), converted(low, dtype)
    if dtype._kind == "b":  # XLA would merge the minimum and maximum into a clamp, which it does not have for bools
        return (x & last) | low
    return jnp.maximum(jnp.minimum(x, last), low)


def _infer_randint(key: Aval, low: Aval, high: Aval, shape: tuple[int, ...], dtype: Dtype) -> Aval:
    check_uniform(key, low, high, shape, _float32)
    return aval(shape, dtype)


RANDINT = op("random_randint", _randint, _infer_randint, ("shape", "dtype"), draws=True)


def randint(
    low: Any,
    high: Any,
    shape: Sequence[int] = [],
    dtype: Dtype | None = _int32,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return random integers in [low, high).

    They are drawn as float32 numbers, so not every integer beyond 2**24 can occur.

    Args:
        low: lower bound; a number, or an array that broadcasts to `shape`.
        high: upper bound; a number, or an array that broadcasts to `shape`.
        shape: the shape of the result.
        dtype: an integer dtype, or bool.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        An array of the given shape and dtype.

    Raises:
        ValueError: if the dtype is not an integer dtype, or if the bounds do not broadcast to `shape`.

    Example:
        >>> mx.random.randint(0, 10, (3,), key=mx.random.key(0))
        array([9, 3, 6], dtype=int32)
    """
    check_stream(stream)
    if dtype is None:
        dtype = _int32
    dtype, size = dtype_of(dtype, "randint"), plain(shape)
    drawn = key_node(key, "randint", low, high)
    if dtype._kind not in "iub":
        raise ValueError("[randint] randint only accepts integer dtypes and bool.")
    inputs = drawn, operands.node(low), operands.node(high)
    return wrap(apply(RANDINT, inputs, (size, dtype)))


def _bernoulli(key: Any, p: Any, shape: tuple[int, ...]) -> Any:
    p = jnp.asarray(p)
    kind = promote(from_numpy(p.dtype), _float32)._numpy  # type: ignore[arg-type]
    return unit(key, shape).astype(kind) < p.astype(kind)


def _infer_bernoulli(key: Aval, p: Aval, shape: tuple[int, ...]) -> Aval:
    if p.dtype._kind != "f":
        raise ValueError("[bernoulli] bernoulli probability `p` must be a float type.")
    check_bits(key, shape)
    if broadcast(shape, p.shape) != shape:
        raise ValueError("[bernoulli] shape of `p` is incompatible with argument `shape`.")
    return aval(shape, _bool)


BERNOULLI = op("random_bernoulli", _bernoulli, _infer_bernoulli, ("shape",), draws=True)


@TANGENT_DTYPE.of(BERNOULLI)
def _tangent_of_bernoulli(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    """Return the tangent dtype of the comparison with float32 numbers."""
    return promote(next(filter(None, tangents)), _float32)


def bernoulli(p: Any = 0.5, shape: Sequence[int] | None = None, key: array | None = None, stream: Any = None) -> array:
    """Return random bools that are True with probability `p`.

    Args:
        p: a number, or an array of a floating dtype that broadcasts to `shape`.
        shape: the shape of the result; by default that of `p`.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        A bool array of the given shape.

    Raises:
        ValueError: if `p` is not floating, or if it does not broadcast to `shape`.

    Example:
        >>> mx.random.bernoulli(0.5, (4,), key=mx.random.key(0))
        array([False, True, False, True], dtype=bool)
    """
    check_stream(stream)
    size = None if shape is None else plain(shape)
    drawn = key_node(key, "bernoulli", p)
    probability = operands.node(p)
    return wrap(apply(BERNOULLI, (drawn, probability), (probability.aval.shape if size is None else size,)))


def _categorical(key: Any, logits: Any, axis: int, shape: tuple[int, ...], samples: bool) -> Any:
    """Return draws from the Gumbel noise and the logits.

    Args:
        axis: a negative axis.
        shape: the shape of the noise, which includes the axis.
    """
    kind = promote(from_numpy(logits.dtype), _float32)._numpy  # type: ignore[arg-type]
    if samples:
        logits = logits[..., None]
    x = cast(logits, np.float32 if kind.kind == "c" else kind) + gumbel_noise(key, shape, np.float32)
    return jnp.argmax(x, axis=axis).astype(np.uint32)


def _infer_categorical(key: Aval, logits: Aval, axis: int, shape: tuple[int, ...], samples: bool) -> Aval:
    check_bits(key, shape)
    if 0 in shape:
        raise ValueError("[argmax] Cannot argmax reduce zero size array.")
    axis += len(shape)
    return aval(shape[:axis] + shape[axis + 1 :], _uint32)


CATEGORICAL = op("random_categorical", _categorical, _infer_categorical, ("axis", "shape", "samples"), draws=True)


def _categorical_line(key: Any, logits: Any, shape: tuple[int, ...]) -> Any:
    """Return draws from one distribution: for each uniform number, the index of its place in the cumulative weights."""
    kind = np.float32 if logits.dtype.kind == "c" else promote(from_numpy(logits.dtype), _float32)._numpy  # type: ignore[arg-type]
    line = cast(logits, kind).reshape(-1)
    most = jnp.max(line)  # infinite logits share the probability equally
    bounds = jnp.cumsum(jnp.where(jnp.isinf(most), (line == most).astype(kind), jnp.exp(line - most)))
    goals = unit(key, shape).astype(kind) * bounds[-1]
    # A NaN among the logits makes all bounds NaN. The result is then the last index, as in MLX.
    place = jnp.sum(~(bounds >= goals[..., None]), axis=-1)
    return jnp.minimum(place, line.size - 1).astype(np.uint32)


def _infer_categorical_line(key: Aval, logits: Aval, shape: tuple[int, ...]) -> Aval:
    check_bits(key, shape)
    return aval(shape, _uint32)


CATEGORICAL_LINE = op("random_categorical_line", _categorical_line, _infer_categorical_line, ("shape",), draws=True)


def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: array | None = None,
    stream: Any = None,
) -> array:
    """Return random categories, from unnormalised log-probabilities.

    Args:
        logits: an array; each line along `axis` is a distribution.
        axis: the axis of the categories.
        shape: the shape of the result. The shape of `logits` without `axis` must broadcast to it, and is the default.
        num_samples: the number of draws from each distribution, in place of `shape`. The draws are the last axis of the
            result.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        A uint32 array of indices along `axis`.

    Raises:
        IndexError: if the axis is out of range.
        ValueError: if both `shape` and `num_samples` are given, or if `shape` does not fit.

    Example:
        >>> mx.random.categorical(mx.zeros((2, 5)), num_samples=3).shape
        (2, 3)
    """
    check_stream(stream)
    x = require_array(logits, "categorical", "an array as logits")
    try:
        axis = integer(axis)
        num_samples = None if num_samples is None else integer(num_samples)
    except TypeError:
        raise expected("categorical", "ints as axis and num_samples", num_samples) from None
    full = None if shape is None else plain(shape)
    drawn = key_node(key, "categorical")
    if full is not None and num_samples is not None:
        raise ValueError("[categorical] At most one of shape or num_samples can be specified.")
    size, ndim = x.aval.shape, x.aval.ndim
    axis = axis_of(axis, ndim, message="[categorical] Invalid axis {axis} for logits with {ndim} dimensions.") - ndim
    reduced = size[: axis + ndim] + size[axis + ndim + 1 :]
    single = size[axis] == x.aval.size != 0  # MLX uses another method for one distribution than for several
    if num_samples is not None and single:
        return wrap(apply(CATEGORICAL_LINE, (drawn, x), ((*reduced, num_samples),)))
    if num_samples is not None:
        return wrap(apply(CATEGORICAL, (drawn, x), (axis - 1, (*size, num_samples), True)))
    if full is not None:
        if broadcast(full, reduced) != full:
            raise ValueError(
                f"[categorical] Requested shape {format_shape(full)} is not broadcast compatible with reduced logits "
                f"shape{format_shape(reduced)}."
            )
        if single and full:
            return wrap(apply(CATEGORICAL_LINE, (drawn, x), (full,)))
        place = len(full) + 1 + axis
        size = (*full[:place], size[axis], *full[place:])
    elif single and reduced:
        return wrap(apply(CATEGORICAL_LINE, (drawn, x), (reduced,)))
    return wrap(apply(CATEGORICAL, (drawn, x), (axis, size, False)))


def _permuted(key: Any, size: int) -> Any:
    """Return a random permutation of 0 … size-1: the sorting order of random words."""
    return argsorted(bits(key, (size,)), 0)


def _infer_permuted(key: Aval, size: int) -> Aval:
    check_bits(key, (size,))
    return aval((size,), _uint32)


def _permute(key: Any, x: Any, axis: int) -> Any:
    return jnp.take(x, _permuted(key, x.shape[axis]), axis=axis, mode="clip", unique_indices=True)


def _infer_permute(key: Aval, x: Aval, axis: int) -> Aval:
    check_bits(key, ())
    return x


PERMUTED = op("random_permutation", _permuted, _infer_permuted, ("size",), draws=True)
PERMUTE = op("random_permute", _permute, _infer_permute, ("axis",), draws=True)


def permutation(x: int | array, axis: int = 0, key: array | None = None, stream: Any = None) -> array:
    """Return a random permutation of integers, or of the entries of an array along an axis.

    Args:
        x: an int n, for a permutation of 0 … n-1; or an array.
        axis: the axis of the array to permute.
        key: a key; by default a new key, split off the implicit key.

    Returns:
        A uint32 array of shape (n,), or an array with the shape and dtype of `x`.

    Raises:
        IndexError: if the axis is out of range.
        RuntimeError: if the int has more than 32 bits.
        ValueError: if the int is negative.

    Example:
        >>> mx.random.permutation(4, key=mx.random.key(0))
        array([1, 3, 2, 0], dtype=uint32)
    """
    check_stream(stream)
    axis = integer(axis)
    if isinstance(x, array):
        drawn = key_node(key, "permutation")
        along = axis_of(axis, x._node.aval.ndim, message="SmallVector out of range.")  # MLX's message, word for word
        return wrap(apply(PERMUTE, (drawn, x._node), (along,)))
    if not isinstance(x, int):
        raise expected("permutation", "an int or an array as x", x)
    drawn = key_node(key, "permutation")
    if not -(2**31) <= x < 2**31:
        raise bad_cast("a size is a number of 32 bits")
    return wrap(apply(PERMUTED, (drawn,), (int(x),)))
