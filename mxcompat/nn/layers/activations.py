"""Modules that apply activation functions. The functions can be imported from here, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import mxcompat.core as mx
from mxcompat.nn.layers._activations import (
    celu,
    elu,
    gelu,
    gelu_approx,
    gelu_fast_approx,
    glu,
    hard_shrink,
    hard_tanh,
    hardswish,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    prelu,
    relu,
    relu2,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    step,
    tanh,
)
from mxcompat.nn.layers.base import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "HardShrink", "HardTanh", "Hardswish", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU2", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmin", "Softplus",
    "Softshrink", "Softsign", "Step", "Tanh", "celu", "elu", "gelu", "gelu_approx", "gelu_fast_approx", "glu",
    "hard_shrink", "hard_tanh", "hardswish", "leaky_relu", "log_sigmoid", "log_softmax", "mish", "prelu", "relu",
    "relu2", "relu6", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "step",
    "tanh",
]  # fmt: skip


def _make_activation_module(fn: Callable[..., mx.array], *settings: str) -> Callable[[type[Module]], type[Module]]:
    """Make a module class call ``fn``; the named attributes are further arguments."""

    def apply(self: Module, x: mx.array) -> mx.array:
        return fn(x, *(getattr(self, name) for name in settings))

    def decorate(cls: type[Module]) -> type[Module]:
        cls.__call__ = apply if settings else lambda _, x: fn(x)
        return cls

    return decorate


@_make_activation_module(glu, "axis")
class GLU(Module):
    """``glu`` as a module: (..., 2 n, ...) to (..., n, ...), along ``axis``.

    Args:
        axis: the axis to halve.

    Raises:
        ValueError: at call time, for an odd size along ``axis``, or a complex input.
        IndexError: at call time, if there is no such axis.

    Example:
        >>> nn.GLU()(mx.ones((2, 8))).shape
        (2, 4)
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis


@_make_activation_module(sigmoid)
class Sigmoid(Module):
    """``sigmoid`` as a module.

    Raises:
        ValueError: at call time, for a complex input.

    Example:
        >>> nn.Sigmoid()(mx.array([-2.0, 0.0, 1.0]))
        array([0.119203, 0.5, 0.731059], dtype=float32)
    """


@_make_activation_module(mish)
class Mish(Module):
    """``mish`` as a module.

    Example:
        >>> nn.Mish()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.252501, 0, 0.865098], dtype=float32)
    """


@_make_activation_module(relu)
class ReLU(Module):
    """``relu`` as a module.

    Example:
        >>> nn.ReLU()(mx.array([-2.0, 0.0, 1.0]))
        array([0, 0, 1], dtype=float32)
    """


@_make_activation_module(relu2)
class ReLU2(Module):
    """``relu2`` as a module.

    Example:
        >>> nn.ReLU2()(mx.array([-2.0, 0.0, 3.0]))
        array([0, 0, 9], dtype=float32)
    """


@_make_activation_module(relu6)
class ReLU6(Module):
    """``relu6`` as a module.

    Example:
        >>> nn.ReLU6()(mx.array([-2.0, 4.0, 8.0]))
        array([0, 4, 6], dtype=float32)
    """


@_make_activation_module(leaky_relu, "_negative_slope")
class LeakyReLU(Module):
    """``leaky_relu`` as a module, with a given slope.

    Args:
        negative_slope: the slope below zero, at most 1.

    Example:
        >>> nn.LeakyReLU()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.02, 0, 1], dtype=float32)
    """

    def __init__(self, negative_slope: float = 1e-2) -> None:
        super().__init__()
        self._negative_slope = negative_slope


@_make_activation_module(elu, "_alpha")
class ELU(Module):
    """``elu`` as a module, with a given ``alpha``.

    Args:
        alpha: minus the limit far below zero.

    Example:
        >>> nn.ELU()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.864665, 0, 1], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha


@_make_activation_module(softmax)
class Softmax(Module):
    """``softmax`` over the last axis as a module.

    Raises:
        ValueError: at call time, for an input without axes.

    Example:
        >>> nn.Softmax()(mx.zeros((1, 4)))
        array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """


@_make_activation_module(softplus)
class Softplus(Module):
    """``softplus`` as a module.

    Example:
        >>> nn.Softplus()(mx.array([-2.0, 0.0, 1.0]))
        array([0.126928, 0.693147, 1.31326], dtype=float32)
    """


@_make_activation_module(softsign)
class Softsign(Module):
    """``softsign`` as a module.

    Example:
        >>> nn.Softsign()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.666667, 0, 0.5], dtype=float32)
    """


@_make_activation_module(softshrink, "lambd")
class Softshrink(Module):
    """``softshrink`` as a module, with a given ``lambd``.

    Args:
        lambd: how far values move towards zero.

    Example:
        >>> nn.Softshrink(0.5)(mx.array([-2.0, 0.25, 1.0]))
        array([-1.5, 0, 0.5], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


@_make_activation_module(celu, "_alpha")
class CELU(Module):
    """``celu`` as a module, with a given ``alpha``.

    Args:
        alpha: minus the limit far below zero, not 0.

    Example:
        >>> nn.CELU()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.864665, 0, 1], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha


@_make_activation_module(silu)
class SiLU(Module):
    """``silu`` as a module.

    Raises:
        ValueError: at call time, for a complex input.

    Example:
        >>> nn.SiLU()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.238406, 0, 0.731059], dtype=float32)
    """


@_make_activation_module(log_softmax)
class LogSoftmax(Module):
    """``log_softmax`` over the last axis as a module.

    Raises:
        IndexError: at call time, for an input without axes.
        ValueError: at call time, for a last axis of size 0.

    Example:
        >>> nn.LogSoftmax()(mx.zeros((1, 4)))
        array([[-1.38629, -1.38629, -1.38629, -1.38629]], dtype=float32)
    """


@_make_activation_module(log_sigmoid)
class LogSigmoid(Module):
    """``log_sigmoid`` as a module.

    Raises:
        ValueError: at call time, for a bool input.

    Example:
        >>> nn.LogSigmoid()(mx.array([-2.0, 0.0, 1.0]))
        array([-2.12693, -0.693147, -0.313262], dtype=float32)
    """


@_make_activation_module(prelu, "weight")
class PReLU(Module):
    """``prelu`` as a module.

    Parameter: ``weight`` (num_parameters,), the slopes below zero.

    Args:
        num_parameters: 1, or the number of channels, the last axis.
        init: the initial slopes.

    Raises:
        ValueError: at call time, for another number of channels.

    Example:
        >>> nn.PReLU()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.5, 0, 1], dtype=float32)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full([num_parameters], init)


class GELU(Module):
    """``gelu`` as a module, exact or approximate.

    Args:
        approx: ``"none"``; ``"precise"`` or ``"tanh"`` for a hyperbolic tangent; ``"fast"`` for a sigmoid.

    Raises:
        ValueError: for an unknown ``approx``.

    Example:
        >>> nn.GELU()(mx.array([-1.0, 0.0, 1.0]))
        array([-0.158655, 0, 0.841345], dtype=float32)
    """

    _mx_functions: ClassVar = {"none": gelu, "precise": gelu_approx, "tanh": gelu_approx, "fast": gelu_fast_approx}

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in [*self._mx_functions]:
            raise ValueError(f"The approximation should be in {[*self._mx_functions]} but '{approx}' was given")
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return self._mx_functions[self._approx](x)


@_make_activation_module(tanh)
class Tanh(Module):
    """``tanh`` as a module.

    Example:
        >>> nn.Tanh()(mx.array([-2.0, 0.0, 1.0]))
        array([-0.964028, 0, 0.761594], dtype=float32)
    """


@_make_activation_module(hardswish)
class Hardswish(Module):
    """``hardswish`` as a module.

    Example:
        >>> nn.Hardswish()(mx.array([-4.0, 1.0, 4.0]))
        array([-0, 0.666667, 4], dtype=float32)
    """


@_make_activation_module(step, "threshold")
class Step(Module):
    """``step`` as a module, with a given threshold; the result is int32.

    Args:
        threshold: the position of the step.

    Example:
        >>> nn.Step()(mx.array([-2.0, 0.0, 1.0]))
        array([0, 1, 1], dtype=int32)
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold


@_make_activation_module(selu)
class SELU(Module):
    """``selu`` as a module.

    Example:
        >>> nn.SELU()(mx.array([-2.0, 0.0, 1.0]))
        array([-1.52016, 0, 1.0507], dtype=float32)
    """


@_make_activation_module(hard_tanh)
class HardTanh(Module):
    """``hard_tanh`` within [-1, 1] as a module.

    Example:
        >>> nn.HardTanh()(mx.array([-2.0, 0.5, 3.0]))
        array([-1, 0.5, 1], dtype=float32)
    """


@_make_activation_module(hard_shrink, "lambd")
class HardShrink(Module):
    """``hard_shrink`` as a module, with a given ``lambd``.

    Args:
        lambd: the limit below which values become zero.

    Example:
        >>> nn.HardShrink(0.5)(mx.array([-2.0, 0.25, 1.0]))
        array([-2, 0, 1], dtype=float32)
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


@_make_activation_module(softmin)
class Softmin(Module):
    """``softmin`` over the last axis as a module.

    Raises:
        ValueError: at call time, for an input without axes, or a bool one.

    Example:
        >>> nn.Softmin()(mx.zeros((1, 4)))
        array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
