"""Initializers: functions that return functions from an array to a new array of the same shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import mxcompat.core as mx

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "math",
    "mx",
    "normal",
    "orthogonal",
    "sparse",
    "uniform",
]

Fan = Literal["fan_in", "fan_out"]


Initializer = Callable[[mx.array], mx.array]


def _normal(shape: tuple[int, ...], std: float, dtype: mx.Dtype) -> mx.array:
    return mx.random.normal(shape=shape, scale=std, dtype=dtype)


def _uniform(shape: tuple[int, ...], limit: float, dtype: mx.Dtype) -> mx.array:
    """Draw uniform numbers in [-limit, limit]; the limit is sqrt(3) standard deviations."""
    return mx.random.uniform(-limit, limit, shape, dtype=dtype)


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Return an initializer that fills arrays with ``value``.

    Args:
        value: the value.
        dtype: the dtype of the result.

    Returns:
        A function that maps an array of any shape to a new array of that shape, with dtype ``dtype``.

    Raises:
        ValueError: when called, if ``value`` is an array that does not broadcast to the shape.

    Example:
        >>> nn.init.constant(0.5)(mx.zeros((2, 2)))
        array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Return an initializer with a normal distribution.

    Args:
        mean: the mean.
        std: the standard deviation.
        dtype: the dtype of the result.

    Returns:
        A function that maps an array of any shape to a new array of that shape, with dtype ``dtype``.

    Raises:
        ValueError: when called, if ``dtype`` is an integer or bool.

    Example:
        >>> nn.init.normal()(mx.zeros((2, 3))).shape
        (2, 3)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)

    return initializer


def uniform(low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Return an initializer with a uniform distribution in [``low``, ``high``).

    Args:
        low: the lower limit, included.
        high: the upper limit, excluded.
        dtype: the dtype of the result.

    Returns:
        A function that maps an array of any shape to a new array of that shape, with dtype ``dtype``.

    Raises:
        ValueError: when called, if ``dtype`` is not floating-point.

    Example:
        >>> w = nn.init.uniform(-1, 1)(mx.zeros((2, 3)))
        >>> mx.max(mx.abs(w)).item() <= 1
        True
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Initializer:
    """Return an initializer that makes identity matrices.

    Args:
        dtype: the dtype of the result.

    Returns:
        A function that maps an array (n, n) to a new array of that shape, with dtype ``dtype``.

    Raises:
        ValueError: when called, for an array that is not a square matrix.

    Example:
        >>> nn.init.identity()(mx.zeros((2, 2)))
        array([[1, 0],
               [0, 1]], dtype=float32)
    """

    def initializer(arr: mx.array) -> mx.array:
        if len(arr.shape) != 2 or len(set(arr.shape)) != 1:
            raise ValueError(f"The input array must be a square matrix but got shape {arr.shape}.")
        return mx.eye(n=arr.shape[0], dtype=dtype)

    return initializer


def _calculate_fan_in_fan_out(x: mx.array) -> tuple[int, int]:
    """Return the numbers of inputs and outputs per unit, for a weight (out, *kernel, in)."""
    if x.ndim < 2:
        raise ValueError(
            f"Glorot / He initialization requires at least 2 dimensional input but input with {x.ndim} dimensions."
        )
    outputs, *kernel, inputs = x.shape
    receptive = math.prod(kernel)
    return inputs * receptive, outputs * receptive


def _glorot(draw: Callable[..., mx.array], squared: float, dtype: mx.Dtype) -> Callable[..., mx.array]:
    """Return an initializer with the scale ``gain * sqrt(2 * squared / (fan_in + fan_out))``."""

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        return draw(a.shape, gain * math.sqrt(2 * squared / sum(_calculate_fan_in_fan_out(a))), dtype)

    return initializer


def _he(
    draw: Callable[..., mx.array], scale: Callable[[float, int], float], dtype: mx.Dtype
) -> Callable[..., mx.array]:
    """Return an initializer whose scale depends on the gain and the fan."""

    def initializer(a: mx.array, mode: Fan = "fan_in", gain: float = 1.0) -> mx.array:
        fans = dict(zip(get_args(Fan), _calculate_fan_in_fan_out(a), strict=True))
        if mode not in list(fans):
            raise ValueError(f"Invalid mode: {mode}. Valid modes are: {', '.join(fans)}")
        return draw(a.shape, scale(gain, fans[mode]), dtype)

    return initializer


def glorot_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Return an initializer with a normal distribution around zero, of variance ``gain**2 * 2 / (fan_in + fan_out)``.

    Args:
        dtype: the dtype of the result.

    Returns:
        A function of an array (out, ..., in) and ``gain=1.0`` that returns a new array of that shape, with dtype
        ``dtype``.

    Raises:
        ValueError: when called, for an array of fewer than two axes, or if ``dtype`` is an integer or bool.

    Example:
        >>> nn.init.glorot_normal()(mx.zeros((2, 3))).shape
        (2, 3)
    """
    return _glorot(_normal, 1.0, dtype)


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Return an initializer with a uniform distribution around zero, of variance ``gain**2 * 2 / (fan_in + fan_out)``.

    Args:
        dtype: the dtype of the result.

    Returns:
        A function of an array (out, ..., in) and ``gain=1.0`` that returns a new array of that shape, with dtype
        ``dtype``.

    Raises:
        ValueError: when called, for an array of fewer than two axes, or if ``dtype`` is not floating-point.

    Example:
        >>> nn.init.glorot_uniform()(mx.zeros((2, 3))).shape
        (2, 3)
    """
    return _glorot(_uniform, 3.0, dtype)


def he_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, Fan, float], mx.array]:
    """Return an initializer with a normal distribution around zero, of variance ``gain**2 / fan``; ``mode`` selects the
    fan.

    Args:
        dtype: the dtype of the result.

    Returns:
        A function of an array (out, ..., in), a ``mode`` and ``gain=1.0`` that returns a new array of that shape, with
        dtype ``dtype``. The ``mode`` is ``"fan_in"`` (the default) or ``"fan_out"``.

    Raises:
        ValueError: when called, for an array of fewer than two axes or an unknown mode, or if ``dtype`` is an integer
            or bool.

    Example:
        >>> nn.init.he_normal()(mx.zeros((2, 3)), mode="fan_out").shape
        (2, 3)
    """
    return _he(_normal, lambda gain, fan: gain / math.sqrt(fan), dtype)


def he_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, Fan, float], mx.array]:
    """Return an initializer with a uniform distribution around zero, of variance ``gain**2 / fan``; ``mode`` selects
    the fan.

    Args:
        dtype: the dtype of the result.

    Returns:
        A function of an array (out, ..., in), a ``mode`` and ``gain=1.0`` that returns a new array of that shape, with
        dtype ``dtype``. The ``mode`` is ``"fan_in"`` (the default) or ``"fan_out"``.

    Raises:
        ValueError: when called, for an array of fewer than two axes or an unknown mode, or if ``dtype`` is not
            floating-point.

    Example:
        >>> nn.init.he_uniform()(mx.zeros((2, 3)), mode="fan_out").shape
        (2, 3)
    """
    return _he(_uniform, lambda gain, fan: gain * math.sqrt(3 / fan), dtype)


def sparse(sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Return an initializer with a normal distribution that sets a part of each row to zero.

    Args:
        sparsity: the fraction of zeros, rounded up to whole elements.
        mean: the mean of the other elements.
        std: the standard deviation of the other elements.
        dtype: the dtype of the result.

    Returns:
        A function that maps an array (rows, columns) to a new array of that shape, with dtype ``dtype``.

    Raises:
        ValueError: when called, for an array that is not a matrix or has no elements, or if ``dtype`` is an integer or
            bool.

    Example:
        >>> w = nn.init.sparse(0.5)(mx.zeros((2, 4)))
        >>> mx.sum(w == 0, axis=1)
        array([2, 2], dtype=int32)
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError("Only tensors with 2 dimensions are supported")
        zeros = math.ceil(sparsity * a.shape[1])
        # This is a random permutation of each row's indices; the first ones are set to zero.
        places = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)[:, :zeros]
        drawn = mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)
        drawn[mx.arange(a.shape[0])[:, None], places] = 0
        return drawn

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """Return an initializer that makes orthonormal rows or columns (the fewer of the two), times ``gain``.

    Args:
        gain: the factor.
        dtype: the dtype of the result.

    Returns:
        A function that maps an array (rows, columns) to a new array of that shape, with dtype ``dtype``.

    Raises:
        ValueError: when called, for an array that is not a matrix.

    Example:
        >>> w = nn.init.orthogonal()(mx.zeros((2, 3)))
        >>> mx.allclose(w @ w.T, mx.eye(2), atol=1e-5)
        array(True, dtype=bool)
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"Orthogonal initialization requires a 2D array but got a {a.ndim}D array.")
        rows, columns = a.shape
        size = max(rows, columns)
        q, r = mx.linalg.qr(mx.random.normal(shape=(size, size)), stream=mx.cpu)
        # Multiplying by the signs of R's diagonal makes the distribution uniform.
        q = q * mx.sign(mx.diag(r))
        return (q[:rows, :columns] * gain).astype(dtype)

    return initializer
