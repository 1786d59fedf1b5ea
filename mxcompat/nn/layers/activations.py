"""Activation functions, and modules that apply them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "HardShrink",
    "HardTanh",
    "Hardswish",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU2",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Step",
    "Tanh",
    "celu",
    "elu",
    "gelu",
    "gelu_approx",
    "gelu_fast_approx",
    "glu",
    "hard_shrink",
    "hard_tanh",
    "hardswish",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu2",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "step",
    "tanh",
]


def sigmoid(x: mx.array) -> mx.array:
    """``1 / (1 + exp(-x))``."""
    return mx.sigmoid(x)


def relu(x: mx.array) -> mx.array:
    """``max(x, 0)``."""
    return mx.maximum(x, 0)


def relu2(x: mx.array) -> mx.array:
    """``max(x, 0) ** 2``."""
    return mx.square(mx.maximum(x, 0))


def relu6(x: mx.array) -> mx.array:
    """``min(max(x, 0), 6)``."""
    return mx.minimum(mx.maximum(x, 0), 6.0)


def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    """``x`` where positive, else ``negative_slope * x``."""
    return mx.maximum(negative_slope * x, x)


def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    """``x - log(sum(exp(x)))`` along ``axis``."""
    # Relative to the largest, whose size would else swallow the logarithm.
    x = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return x - mx.logsumexp(x, axis=axis, keepdims=True)


def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return mx.where(x > 0, x, alpha * (mx.exp(x) - 1))


def softmax(x: mx.array, axis: int = -1) -> mx.array:
    """``exp(x) / sum(exp(x))`` along ``axis``."""
    return mx.softmax(x, axis=axis)


def softplus(x: mx.array) -> mx.array:
    """``log(1 + exp(x))``."""
    return mx.logaddexp(x, 0)


def softsign(x: mx.array) -> mx.array:
    """``x / (1 + |x|)``."""
    return mx.divide(x, 1 + mx.abs(x))


def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """``x`` moved towards zero by ``lambd``, and zero within it."""
    return mx.where(mx.abs(x) > lambd, x - mx.sign(x) * lambd, 0)


def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    """``max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)``."""
    return mx.maximum(x, 0.0) + alpha * (mx.exp(mx.minimum(x, 0.0) / alpha) - 1)


def silu(x: mx.array) -> mx.array:
    """``x * sigmoid(x)``."""
    return x * mx.sigmoid(x)


def log_sigmoid(x: mx.array) -> mx.array:
    """``log(sigmoid(x))``."""
    return -softplus(-x)


def gelu(x: mx.array) -> mx.array:
    """``x * Phi(x)``, Phi being the normal distribution function."""
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def gelu_approx(x: mx.array) -> mx.array:
    """``gelu`` through a hyperbolic tangent."""
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_fast_approx(x: mx.array) -> mx.array:
    """``gelu`` as ``x * sigmoid(1.702 * x)``."""
    return x * mx.sigmoid(1.702 * x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """The first half of ``x`` along ``axis``, times the sigmoid of the second."""
    a, b = mx.split(x, indices_or_sections=2, axis=axis)
    return a * mx.sigmoid(b)


def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """1 where ``x >= threshold``, else 0."""
    return mx.where(x >= threshold, 1, 0)


def selu(x: mx.array) -> mx.array:
    """``elu`` with the constants that keep activations normalized."""
    return elu(x, 1.67326) * 1.0507


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """``max(x, 0) + alpha * min(x, 0)``, ``alpha`` an array of one or of a value per channel."""
    return mx.maximum(0, x) + alpha * mx.minimum(0, x)


def mish(x: mx.array) -> mx.array:
    """``x * tanh(softplus(x))``."""
    return x * mx.tanh(softplus(x))


def hardswish(x: mx.array) -> mx.array:
    """``x * min(max(x + 3, 0), 6) / 6``."""
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """``x`` limited to [``min_val``, ``max_val``]."""
    return mx.minimum(mx.maximum(x, min_val), max_val)


def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """``x``, but zero within ``lambd`` of zero."""
    return mx.where(mx.abs(x) > lambd, x, 0)


def softmin(x: mx.array, axis: int = -1) -> mx.array:
    """``softmax(-x)`` along ``axis``."""
    return mx.softmax(-x, axis=axis)


def tanh(x: mx.array) -> mx.array:
    """The hyperbolic tangent."""
    return mx.tanh(x)


def _applies(fn: Callable[..., mx.array], *settings: str) -> Callable[[type[Module]], type[Module]]:
    """Makes a module class call ``fn``, with the attributes that are named as further arguments."""

    def apply(self: Module, x: mx.array) -> mx.array:
        return fn(x, *(getattr(self, name) for name in settings))

    def decorate(cls: type[Module]) -> type[Module]:
        cls.__call__ = apply if settings else lambda _, x: fn(x)
        return cls

    return decorate


@_applies(glu, "axis")
class GLU(Module):
    """``glu`` along ``axis``."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis


@_applies(sigmoid)
class Sigmoid(Module):
    """``sigmoid`` as a module."""


@_applies(mish)
class Mish(Module):
    """``mish`` as a module."""


@_applies(relu)
class ReLU(Module):
    """``relu`` as a module."""


@_applies(relu2)
class ReLU2(Module):
    """``relu2`` as a module."""


@_applies(relu6)
class ReLU6(Module):
    """``relu6`` as a module."""


@_applies(leaky_relu, "_negative_slope")
class LeakyReLU(Module):
    """``leaky_relu`` with a given slope."""

    def __init__(self, negative_slope: float = 1e-2) -> None:
        super().__init__()
        self._negative_slope = negative_slope


@_applies(elu, "_alpha")
class ELU(Module):
    """``elu`` with a given ``alpha``."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha


@_applies(softmax)
class Softmax(Module):
    """``softmax`` over the last axis as a module."""


@_applies(softplus)
class Softplus(Module):
    """``softplus`` as a module."""


@_applies(softsign)
class Softsign(Module):
    """``softsign`` as a module."""


@_applies(softshrink, "lambd")
class Softshrink(Module):
    """``softshrink`` with a given ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


@_applies(celu, "_alpha")
class CELU(Module):
    """``celu`` with a given ``alpha``."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha


@_applies(silu)
class SiLU(Module):
    """``silu`` as a module."""


@_applies(log_softmax)
class LogSoftmax(Module):
    """``log_softmax`` over the last axis as a module."""


@_applies(log_sigmoid)
class LogSigmoid(Module):
    """``log_sigmoid`` as a module."""


@_applies(prelu, "weight")
class PReLU(Module):
    """``prelu`` with a learned ``weight`` (num_parameters,)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full([num_parameters], init)


class GELU(Module):
    """``gelu``, exact or approximate.

    Args:
        approx: ``"none"``, ``"precise"`` or ``"tanh"`` (through a hyperbolic tangent), ``"fast"`` (a sigmoid).

    Raises:
        ValueError: another word.
    """

    _FUNCTIONS: ClassVar = {"none": gelu, "precise": gelu_approx, "tanh": gelu_approx, "fast": gelu_fast_approx}

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in [*self._FUNCTIONS]:
            raise ValueError(f"The approximation should be in {[*self._FUNCTIONS]} but '{approx}' was given")
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return self._FUNCTIONS[self._approx](x)


@_applies(tanh)
class Tanh(Module):
    """``tanh`` as a module."""


@_applies(hardswish)
class Hardswish(Module):
    """``hardswish`` as a module."""


@_applies(step, "threshold")
class Step(Module):
    """``step`` with a given threshold."""

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold


@_applies(selu)
class SELU(Module):
    """``selu`` as a module."""


@_applies(hard_tanh)
class HardTanh(Module):
    """``hard_tanh`` within [-1, 1] as a module."""


@_applies(hard_shrink, "lambd")
class HardShrink(Module):
    """``hard_shrink`` with a given ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


@_applies(softmin)
class Softmin(Module):
    """``softmin`` over the last axis as a module."""
