"""Initializers: functions that return functions from an array to a new array of the same shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import mxcompat.core as mx

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "normal",
    "orthogonal",
    "sparse",
    "uniform",
]

Fan = Literal["fan_in", "fan_out"]


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Everything equal to ``value``.

    Example:
        >>> nn.init.constant(0.5)(mx.zeros((2, 2)))
        array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Normally distributed."""

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)

    return initializer


def uniform(low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Uniformly distributed in [``low``, ``high``)."""

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """The identity matrix; the argument must be a square matrix (ValueError)."""

    def initializer(arr: mx.array) -> mx.array:
        if arr.ndim != 2 or arr.shape[0] != arr.shape[1]:
            raise ValueError(f"The input array must be a square matrix but got shape {arr.shape}.")
        return mx.eye(n=arr.shape[0], dtype=dtype)

    return initializer


def _calculate_fan_in_fan_out(x: mx.array) -> tuple[int, int]:
    """Inputs and outputs per unit of a weight (out, *kernel, in)."""
    if x.ndim < 2:
        raise ValueError(
            f"Glorot / He initialization requires at least 2 dimensional input but input with {x.ndim} dimensions."
        )
    receptive = math.prod(x.shape[1:-1])
    return x.shape[-1] * receptive, x.shape[0] * receptive


def _glorot_scale(a: mx.array, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_fan_out(a)
    return gain * math.sqrt(2.0 / (fan_in + fan_out))


def _he_scale(a: mx.array, mode: Fan, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_fan_out(a)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Invalid mode: {mode}. Valid modes are: fan_in, fan_out")
    return gain / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def glorot_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Normal with variance ``gain**2 * 2 / (fan_in + fan_out)``; at least two axes needed (ValueError)."""

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=_glorot_scale(a, gain), dtype=dtype)

    return initializer


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Uniform with variance ``gain**2 * 2 / (fan_in + fan_out)``; at least two axes needed (ValueError)."""

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        limit = math.sqrt(3.0) * _glorot_scale(a, gain)
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return initializer


def he_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, Fan, float], mx.array]:
    """Normal with variance ``gain**2 / fan``, the fan that ``mode`` names; at least two axes needed (ValueError)."""

    def initializer(a: mx.array, mode: Fan = "fan_in", gain: float = 1.0) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=_he_scale(a, mode, gain), dtype=dtype)

    return initializer


def he_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, Fan, float], mx.array]:
    """Uniform with variance ``gain**2 / fan``, the fan that ``mode`` names; at least two axes needed (ValueError)."""

    def initializer(a: mx.array, mode: Fan = "fan_in", gain: float = 1.0) -> mx.array:
        limit = math.sqrt(3.0) * _he_scale(a, mode, gain)
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return initializer


def sparse(
    sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """Normal, but with the fraction ``sparsity`` of each row zero; two axes needed (ValueError)."""

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError("Only tensors with 2 dimensions are supported")
        rows, columns = a.shape
        count = math.ceil(sparsity * columns)
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        values = mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)
        values[mx.arange(rows).reshape(rows, 1), order[:, :count]] = 0
        return values

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Orthonormal rows or columns, whichever are fewer, times ``gain``; two axes needed (ValueError)."""

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"Orthogonal initialization requires a 2D array but got a {a.ndim}D array.")
        rows, columns = a.shape
        size = max(rows, columns)
        q, r = mx.linalg.qr(mx.random.normal(shape=(size, size), dtype=mx.float32), stream=mx.cpu)
        # The signs of R's diagonal make the distribution uniform.
        q = q * mx.sign(mx.diag(r))
        return (gain * q[:rows, :columns]).astype(dtype)

    return initializer
