"""The optimizers. In the formulas ``w`` is a parameter, ``g`` its gradient and ``lr`` the learning rate; a learning
rate may be a number or a schedule, a function of the step."""

from __future__ import annotations

from typing import Any

import mxcompat.core as mx
from mxcompat.optimizers._base import LearningRate, MultiOptimizer, Optimizer
from mxcompat.optimizers._matrix import Adafactor, Muon
from mxcompat.utils import tree_map, tree_reduce

__all__ = [
    "SGD",
    "AdaDelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "MultiOptimizer",
    "Muon",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm",
]


def _check_betas(name: str, betas: Any) -> None:
    for i, beta in enumerate(betas, 1):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"{name} beta{i} should be in [0, 1), {beta} was provided instead")


class SGD(Optimizer):
    """Stochastic gradient descent: ``v = momentum v + (1 - dampening) g``, ``w -= lr v``.

    State: ``v``.

    Args:
        learning_rate: lr.
        momentum: how much of the last direction is kept.
        weight_decay: adds ``weight_decay w`` to g.
        dampening: how much less than all of g enters the direction.
        nesterov: look one step ahead: ``w -= lr (g + momentum v)``.

    Raises:
        ValueError: ``nesterov`` without momentum or with dampening.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening.")
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        if self.momentum <= 0:
            return parameter - lr * gradient
        fresh = (1 - self.dampening) * gradient if self.dampening > 0 else gradient
        v = self.momentum * state["v"] + fresh
        state["v"] = v
        return parameter - lr * (gradient + self.momentum * v if self.nesterov else v)


class RMSprop(Optimizer):
    """``v = alpha v + (1 - alpha) g^2``, ``w -= lr g / (sqrt(v) + eps)``.

    State: ``v``.

    Args:
        learning_rate: lr.
        alpha: how slowly the mean of squares changes.
        eps: added to the root.

    Raises:
        ValueError: ``alpha`` negative or ``eps`` not positive.
    """

    def __init__(self, learning_rate: LearningRate, alpha: float = 0.99, eps: float = 1e-8) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.alpha = alpha
        self.eps = eps
        if alpha < 0.0:
            raise ValueError(f"RMSprop alpha should be >=0, {alpha} was provided instead")
        if eps <= 0.0:
            raise ValueError(f"RMSprop epsilon should be >0, {eps} was provided instead")

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        v = self.alpha * state["v"] + (1 - self.alpha) * mx.square(gradient)
        state["v"] = v
        return parameter - lr * gradient / (mx.sqrt(v) + self.eps)


class Adagrad(Optimizer):
    """``v += g^2``, ``w -= lr g / (sqrt(v) + eps)``.

    State: ``v``.

    Args:
        learning_rate: lr.
        eps: added to the root.

    Raises:
        ValueError: ``eps`` not positive.
    """

    def __init__(self, learning_rate: LearningRate, eps: float = 1e-8) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps
        if eps <= 0.0:
            raise ValueError(f"Adagrad epsilon should be >0, {eps} was provided instead")

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        v = state["v"] + mx.square(gradient)
        state["v"] = v
        return parameter - lr * gradient / (mx.sqrt(v) + self.eps)


class AdaDelta(Optimizer):
    """``v = rho v + (1 - rho) g^2``, ``d = sqrt((u + eps) / (v + eps)) g``, ``u = rho u + (1 - rho) d^2``,
    ``w -= lr d``.

    State: ``v`` and ``u``.

    Args:
        learning_rate: lr.
        rho: how slowly the means of squares change.
        eps: added under the roots.

    Raises:
        ValueError: ``rho`` negative or ``eps`` not positive.
    """

    def __init__(self, learning_rate: LearningRate, rho: float = 0.9, eps: float = 1e-6) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.rho = rho
        self.eps = eps
        if rho < 0.0:
            raise ValueError(f"AdaDelta rho should be >=0, {rho} was provided instead")
        if eps <= 0.0:
            raise ValueError(f"AdaDelta epsilon should be >0, {eps} was provided instead")

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["v"] = mx.zeros_like(parameter)
        state["u"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        rho, eps, u = self.rho, self.eps, state["u"]
        v = rho * state["v"] + (1 - rho) * mx.square(gradient)
        d = mx.sqrt(u + eps) / mx.sqrt(v + eps) * gradient
        state["v"] = v
        state["u"] = rho * u + (1 - rho) * mx.square(d)
        return parameter - lr * d


class Adam(Optimizer):
    """``m = b1 m + (1 - b1) g``, ``v = b2 v + (1 - b2) g^2``, ``w -= lr m / (sqrt(v) + eps)``.

    State: ``m`` and ``v``.

    Args:
        learning_rate: lr.
        betas: b1 and b2.
        eps: added to the root.
        bias_correction: divide m and v by ``1 - b1^t`` and ``1 - b2^t`` at step t.

    Raises:
        ValueError: betas outside [0, 1) or ``eps`` negative.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__()
        _check_betas("Adam", betas)
        if eps < 0.0:
            raise ValueError(f"Adam epsilon should be >=0, {eps} was provided instead")
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.eps = eps
        self.bias_correction = bias_correction

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["m"] = mx.zeros_like(parameter)
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        dtype = gradient.dtype
        lr = self.learning_rate.astype(dtype)
        b1, b2 = self.betas
        m = b1 * state["m"] + (1 - b1) * gradient
        v = b2 * state["v"] + (1 - b2) * mx.square(gradient)
        state["m"] = m
        state["v"] = v
        root = mx.sqrt(v)
        if self.bias_correction:
            step = self.step
            lr = (lr / (1 - b1**step)).astype(dtype)
            root = root * mx.rsqrt(1 - b2**step).astype(dtype)
        return parameter - lr * m / (root + self.eps)


class AdamW(Adam):
    """``Adam`` after ``w *= 1 - lr weight_decay``.

    Args:
        learning_rate: lr.
        betas: as for ``Adam``.
        eps: as for ``Adam``.
        weight_decay: how much parameters shrink.
        bias_correction: as for ``Adam``.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate=learning_rate, betas=betas, eps=eps, bias_correction=bias_correction)
        self.weight_decay = weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        return super().apply_single(gradient, parameter * (1 - lr * self.weight_decay), state)


class Adamax(Adam):
    """``m`` as in ``Adam``, ``v = max(b2 v, |g|)``, ``w -= lr m / (v + eps)``.

    Args:
        learning_rate: lr.
        betas: b1 and b2.
        eps: added to v.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, betas, eps)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        b1, b2 = self.betas
        m = b1 * state["m"] + (1 - b1) * gradient
        v = mx.maximum(b2 * state["v"], mx.abs(gradient))
        state["m"] = m
        state["v"] = v
        return parameter - lr * m / (v + self.eps)


class Lion(Optimizer):
    """``c = b1 m + (1 - b1) g``, ``m = b2 m + (1 - b2) g``, ``w -= lr (sign(c) + weight_decay w)``.

    State: ``m``.

    Args:
        learning_rate: lr.
        betas: b1 and b2.
        weight_decay: how much parameters shrink.

    Raises:
        ValueError: betas outside [0, 1).
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.99],  # noqa: B006
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        _check_betas("Lion", betas)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.weight_decay = weight_decay

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["m"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        lr = self.learning_rate.astype(gradient.dtype)
        b1, b2 = self.betas
        m = state["m"]
        direction = mx.sign(b1 * m + (1 - b1) * gradient)
        state["m"] = b2 * m + (1 - b2) * gradient
        if self.weight_decay > 0:
            parameter = (1 - lr * self.weight_decay) * parameter
        return parameter - lr * direction


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Scale gradients so that the norm of all together is at most ``max_norm``.

    Args:
        grads: a tree of arrays.
        max_norm: the largest norm.

    Returns:
        The scaled tree and the norm before scaling, a scalar array.

    Raises:
        ValueError: ``max_norm`` is negative.

    Example:
        >>> clip_grad_norm({"w": mx.array([3.0, 4.0])}, max_norm=1.0)
        ({'w': array([0.6, 0.8], dtype=float32)}, array(5, dtype=float32))
    """
    if max_norm < 0:
        raise ValueError(f"max_norm should be >=0, {max_norm} was provided instead")

    def squares(g: mx.array) -> mx.array:
        # The squares of float16 overflow early.
        return (g.astype(mx.float32) if g.dtype == mx.float16 else g).square().sum()

    norm = mx.sqrt(tree_reduce(lambda total, g: total + squares(g), grads, 0.0))
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)

    def scale(g: mx.array) -> mx.array:
        # Scale before casting: a small factor vanishes in half precision.
        scaled = g * factor
        return scaled.astype(g.dtype) if mx.issubdtype(g.dtype, mx.floating) else scaled

    return tree_map(scale, grads), norm
