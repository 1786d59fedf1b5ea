"""Activation functions."""

from __future__ import annotations

import math

import mxcompat.core as mx
from mxcompat._transforms.compiling import checked_as_compiled

__all__ = [
    "celu", "elu", "gelu", "gelu_approx", "gelu_fast_approx", "glu", "hard_shrink", "hard_tanh", "hardswish",
    "leaky_relu", "log_sigmoid", "log_softmax", "mish", "prelu", "relu", "relu2", "relu6", "selu", "sigmoid", "silu",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "step", "tanh",
]  # fmt: skip


@checked_as_compiled
def sigmoid(x: mx.array) -> mx.array:
    """Compute ``1 / (1 + exp(-x))``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Raises:
        ValueError: if ``x`` is complex.

    Example:
        >>> nn.sigmoid(mx.array([-2.0, 0.0, 1.0]))
        array([0.119203, 0.5, 0.731059], dtype=float32)
    """
    return mx.sigmoid(x)


@checked_as_compiled
def relu(x: mx.array) -> mx.array:
    """Compute ``max(x, 0)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (int32 for bool).

    Example:
        >>> nn.relu(mx.array([-2.0, 0.0, 1.0]))
        array([0, 0, 1], dtype=float32)
    """
    return mx.maximum(x, 0)


@checked_as_compiled
def relu2(x: mx.array) -> mx.array:
    """Compute ``max(x, 0) ** 2``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (int32 for bool).

    Example:
        >>> nn.relu2(mx.array([-2.0, 0.0, 3.0]))
        array([0, 0, 9], dtype=float32)
    """
    return mx.square(mx.maximum(x, 0))


@checked_as_compiled
def relu6(x: mx.array) -> mx.array:
    """Compute ``min(max(x, 0), 6)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.relu6(mx.array([-2.0, 4.0, 8.0]))
        array([0, 4, 6], dtype=float32)
    """
    return mx.minimum(mx.maximum(x, 0), 6.0)


@checked_as_compiled
def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    """Return ``x`` where positive, else ``negative_slope * x``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        negative_slope: the slope below zero, at most 1.

    Example:
        >>> nn.leaky_relu(mx.array([-2.0, 0.0, 1.0]))
        array([-0.02, 0, 1], dtype=float32)
    """
    return mx.maximum(negative_slope * x, x)


@checked_as_compiled
def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    """Compute ``x - log(sum(exp(x)))`` along ``axis``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        axis: the axis of the sum.

    Raises:
        IndexError: if ``x`` has no such axis.
        ValueError: if the axis has size 0.

    Example:
        >>> nn.log_softmax(mx.zeros(4))
        array([-1.38629, -1.38629, -1.38629, -1.38629], dtype=float32)
    """
    # Subtract the largest element first, to keep precision.
    x = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return x - mx.logsumexp(x, axis=axis, keepdims=True)


@checked_as_compiled
def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """Return ``x`` where positive, else ``alpha * (exp(x) - 1)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        alpha: minus the limit far below zero.

    Example:
        >>> nn.elu(mx.array([-2.0, 0.0, 1.0]))
        array([-0.864665, 0, 1], dtype=float32)
    """
    return mx.where(x > 0, x, alpha * (mx.exp(x) - 1))


@checked_as_compiled
def softmax(x: mx.array, axis: int = -1) -> mx.array:
    """Compute ``exp(x) / sum(exp(x))`` along ``axis``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        axis: the axis of the sum.

    Raises:
        IndexError: if ``x`` has no such axis.
        ValueError: if ``x`` has no axes.

    Example:
        >>> nn.softmax(mx.zeros(4))
        array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return mx.softmax(x, axis=axis)


@checked_as_compiled
def softplus(x: mx.array) -> mx.array:
    """Compute ``log(1 + exp(x))``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.softplus(mx.array([-2.0, 0.0, 1.0]))
        array([0.126928, 0.693147, 1.31326], dtype=float32)
    """
    return mx.logaddexp(x, 0)


@checked_as_compiled
def softsign(x: mx.array) -> mx.array:
    """Compute ``x / (1 + |x|)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.softsign(mx.array([-2.0, 0.0, 1.0]))
        array([-0.666667, 0, 0.5], dtype=float32)
    """
    return mx.divide(x, 1 + mx.abs(x))


@checked_as_compiled
def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """Return ``x`` moved towards zero by ``lambd``; values within ``lambd`` of zero become zero.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        lambd: the distance.

    Example:
        >>> nn.softshrink(mx.array([-2.0, 0.25, 1.0]))
        array([-1.5, 0, 0.5], dtype=float32)
    """
    return mx.where(mx.abs(x) > lambd, x - mx.sign(x) * lambd, 0)


@checked_as_compiled
def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """Compute ``max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        alpha: minus the limit far below zero, not 0.

    Example:
        >>> nn.celu(mx.array([-2.0, 0.0, 1.0]), alpha=2.0)
        array([-1.26424, 0, 1], dtype=float32)
    """
    return mx.maximum(x, 0.0) + alpha * (mx.exp(mx.minimum(x, 0.0) / alpha) - 1)


@checked_as_compiled
def silu(x: mx.array) -> mx.array:
    """Compute ``x * sigmoid(x)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Raises:
        ValueError: if ``x`` is complex.

    Example:
        >>> nn.silu(mx.array([-2.0, 0.0, 1.0]))
        array([-0.238406, 0, 0.731059], dtype=float32)
    """
    return x * mx.sigmoid(x)


@checked_as_compiled
def log_sigmoid(x: mx.array) -> mx.array:
    """Compute ``log(sigmoid(x))``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers).

    Raises:
        ValueError: if ``x`` is bool.

    Example:
        >>> nn.log_sigmoid(mx.array([-2.0, 0.0, 1.0]))
        array([-2.12693, -0.693147, -0.313262], dtype=float32)
    """
    return -softplus(-x)


@checked_as_compiled
def gelu(x: mx.array) -> mx.array:
    """Compute ``x * Phi(x)``, where Phi is the normal distribution function.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Raises:
        ValueError: if ``x`` is complex.

    Example:
        >>> nn.gelu(mx.array([-1.0, 0.0, 1.0]))
        array([-0.158655, 0, 0.841345], dtype=float32)
    """
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


@checked_as_compiled
def gelu_approx(x: mx.array) -> mx.array:
    """Approximate ``gelu`` with a hyperbolic tangent.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.gelu_approx(mx.array([-1.0, 0.0, 1.0]))
        array([-0.158808, 0, 0.841192], dtype=float32)
    """
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@checked_as_compiled
def gelu_fast_approx(x: mx.array) -> mx.array:
    """Approximate ``gelu`` as ``x * sigmoid(1.702 * x)``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Raises:
        ValueError: if ``x`` is complex.

    Example:
        >>> nn.gelu_fast_approx(mx.array([-1.0, 0.0, 1.0]))
        array([-0.154204, 0, 0.845796], dtype=float32)
    """
    return x * mx.sigmoid(1.702 * x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """Multiply the first half of ``x`` along ``axis`` by the sigmoid of the second half.

    Args:
        x: an array whose size along ``axis`` is even; the result has half of it there, and the dtype of ``x``, float32
            instead of an integer or bool.
        axis: the axis to halve.

    Raises:
        ValueError: for an odd size along ``axis``, or if ``x`` is complex.
        IndexError: if ``x`` has no such axis.

    Example:
        >>> nn.glu(mx.array([[1.0, 2.0, 0.0, 0.0]]))
        array([[0.5, 1]], dtype=float32)
    """
    a, b = mx.split(x, indices_or_sections=2, axis=axis)
    return a * mx.sigmoid(b)


@checked_as_compiled
def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """Return 1 where ``x >= threshold``, else 0.

    Args:
        x: an array of any shape; the result has the same shape and is int32.
        threshold: the position of the step.

    Example:
        >>> nn.step(mx.array([-2.0, 0.0, 1.0]))
        array([0, 1, 1], dtype=int32)
    """
    return mx.where(x >= threshold, 1, 0)


@checked_as_compiled
def selu(x: mx.array) -> mx.array:
    """Compute ``elu`` with the constants that keep activations normalized.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.selu(mx.array([-2.0, 0.0, 1.0]))
        array([-1.52016, 0, 1.0507], dtype=float32)
    """
    return elu(x, 1.67326) * 1.0507


@checked_as_compiled
def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """Compute ``max(x, 0) + alpha * min(x, 0)``.

    Args:
        x: an array of any shape.
        alpha: the slope below zero: one for all, or one for each channel, the last axis; or any shape that broadcasts
            with that of ``x``.

    Raises:
        ValueError: if the shapes cannot be broadcast.

    Example:
        >>> nn.prelu(mx.array([[-2.0, -2.0], [1.0, -1.0]]), mx.array([0.5, 0.25]))
        array([[-1, -0.5],
               [1, -0.25]], dtype=float32)
    """
    return mx.maximum(0, x) + alpha * mx.minimum(0, x)


@checked_as_compiled
def mish(x: mx.array) -> mx.array:
    """Compute ``x * tanh(softplus(x))``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.mish(mx.array([-2.0, 0.0, 1.0]))
        array([-0.252501, 0, 0.865098], dtype=float32)
    """
    return x * mx.tanh(softplus(x))


@checked_as_compiled
def hardswish(x: mx.array) -> mx.array:
    """Compute ``x * min(max(x + 3, 0), 6) / 6``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.hardswish(mx.array([-4.0, 1.0, 4.0]))
        array([-0, 0.666667, 4], dtype=float32)
    """
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


@checked_as_compiled
def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """Return ``x`` limited to [``min_val``, ``max_val``].

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).
        min_val: the lower limit.
        max_val: the upper limit.

    Example:
        >>> nn.hard_tanh(mx.array([-2.0, 0.5, 3.0]))
        array([-1, 0.5, 1], dtype=float32)
    """
    return mx.minimum(mx.maximum(x, min_val), max_val)


@checked_as_compiled
def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """Return ``x``, with zero for values within ``lambd`` of zero.

    Args:
        x: an array of any shape; the result has the same shape and dtype (int32 for bool).
        lambd: the limit.

    Example:
        >>> nn.hard_shrink(mx.array([-2.0, 0.25, 1.0]))
        array([-2, 0, 1], dtype=float32)
    """
    return mx.where(mx.abs(x) > lambd, x, 0)


@checked_as_compiled
def softmin(x: mx.array, axis: int = -1) -> mx.array:
    """Compute ``softmax(-x)`` along ``axis``.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers).
        axis: the axis of the sum.

    Raises:
        ValueError: if ``x`` has no axes, or is bool.
        IndexError: if ``x`` has no such axis.

    Example:
        >>> nn.softmin(mx.array([0.0, 0.0]))
        array([0.5, 0.5], dtype=float32)
    """
    return mx.softmax(-x, axis=axis)


def tanh(x: mx.array) -> mx.array:
    """Compute the hyperbolic tangent.

    Args:
        x: an array of any shape; the result has the same shape and dtype (float32 for integers and bool).

    Example:
        >>> nn.tanh(mx.array([-2.0, 0.0, 1.0]))
        array([-0.964028, 0, 0.761594], dtype=float32)
    """
    return mx.tanh(x)
