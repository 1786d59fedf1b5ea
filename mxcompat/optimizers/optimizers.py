"""The optimizers. In the formulas ``w`` is a parameter, ``g`` its gradient and ``lr`` the learning rate. A learning
rate may be a number or a schedule, which is a function of the step."""

from __future__ import annotations

from typing import Any

import mxcompat.core as mx
from mxcompat.nn import Module
from mxcompat.optimizers._base import (
    LearningRate,
    MultiOptimizer,
    Optimizer,
    SlotOptimizer,
    blend,
    blended,
    check_value,
    keep,
    rate_of,
)
from mxcompat.optimizers._matrix import Adafactor, Muon
from mxcompat.utils import tree_flatten, tree_map, tree_merge, tree_reduce, tree_unflatten

__all__ = [
    "SGD",
    "AdaDelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Module",
    "MultiOptimizer",
    "Muon",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm",
    "mx",
    "tree_flatten",
    "tree_map",
    "tree_merge",
    "tree_reduce",
    "tree_unflatten",
]


def _check_betas(name: str, betas: Any) -> None:
    for i, beta in enumerate(betas, 1):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"{name} beta{i} should be in [0, 1), {beta} was provided instead")


class SGD(SlotOptimizer):
    """Stochastic gradient descent: ``v = momentum v + (1 - dampening) g``, ``w -= lr v``.

    State: ``v``.

    Args:
        learning_rate: lr.
        momentum: the share of the last direction that is kept.
        weight_decay: adds ``weight_decay w`` to g.
        dampening: the share of g that does not enter the direction.
        nesterov: whether to use Nesterov momentum: ``w -= lr (g + momentum v)``.

    Raises:
        ValueError: if ``nesterov`` is set without momentum or with dampening.

    Example:
        >>> optimizer = optim.SGD(learning_rate=0.5)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.zeros(2)})
        {'w': array([-0.5, 1], dtype=float32)}
    """

    _mx_slots = ("v",)

    def __init__(
        self,
        learning_rate: LearningRate,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and not (momentum > 0 and dampening == 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening.")
        super().__init__(learning_rate)
        self.momentum, self.weight_decay = momentum, weight_decay
        self.dampening, self.nesterov = dampening, nesterov

    def _mx_direction(self, gradient: mx.array, state: dict) -> mx.array:
        if self.momentum <= 0:
            return gradient
        fresh = gradient if self.dampening <= 0 else (1 - self.dampening) * gradient
        v = keep(state, "v", self.momentum * state.get("v") + fresh)  # TypeError without a slot, as in MLX
        return gradient + self.momentum * v if self.nesterov else v

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        return parameter - rate_of(self, gradient) * self._mx_direction(gradient, state)


class _RootOptimizer(SlotOptimizer):
    """Base class that divides the gradient by the root of :meth:`_mx_squares` plus ``eps``."""

    eps: float
    _mx_slots = ("v",)

    def _mx_squares(self, squares: mx.array, state: dict) -> mx.array:
        """Store and return the next value of ``v``."""
        raise NotImplementedError

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        v = self._mx_squares(mx.square(gradient), state)
        return parameter - rate_of(self, gradient) * gradient / (mx.sqrt(v) + self.eps)


class RMSprop(_RootOptimizer):
    """RMSprop: ``v = alpha v + (1 - alpha) g^2``, ``w -= lr g / (sqrt(v) + eps)``.

    State: ``v``.

    Args:
        learning_rate: lr.
        alpha: the share of the running mean of squares that is kept.
        eps: added to the root.

    Raises:
        ValueError: if ``alpha`` is negative or ``eps`` is not positive.

    Example:
        >>> optimizer = optim.RMSprop(learning_rate=0.1)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.zeros(2)})
        {'w': array([-1, 1], dtype=float32)}
    """

    def __init__(self, learning_rate: LearningRate, alpha: float = 0.99, eps: float = 1e-8) -> None:
        super().__init__(learning_rate)
        check_value("RMSprop alpha", alpha)
        check_value("RMSprop epsilon", eps, positive=True)
        self.alpha, self.eps = alpha, eps

    def _mx_squares(self, squares: mx.array, state: dict) -> mx.array:
        return blend(state, "v", self.alpha, squares)


class Adagrad(_RootOptimizer):
    """Adagrad: ``v += g^2``, ``w -= lr g / (sqrt(v) + eps)``.

    State: ``v``.

    Args:
        learning_rate: lr.
        eps: added to the root.

    Raises:
        ValueError: if ``eps`` is not positive.

    Example:
        >>> optimizer = optim.Adagrad(learning_rate=0.5)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.zeros(2)})
        {'w': array([-0.5, 0.5], dtype=float32)}
    """

    def __init__(self, learning_rate: LearningRate, eps: float = 1e-8) -> None:
        super().__init__(learning_rate)
        check_value("Adagrad epsilon", eps, positive=True)
        self.eps = eps

    def _mx_squares(self, squares: mx.array, state: dict) -> mx.array:
        return keep(state, "v", state["v"] + squares)


class AdaDelta(SlotOptimizer):
    """AdaDelta: ``v = rho v + (1 - rho) g^2``, ``d = sqrt((u + eps) / (v + eps)) g``, ``u = rho u + (1 - rho) d^2``,
    ``w -= lr d``.

    State: ``v`` and ``u``.

    Args:
        learning_rate: lr.
        rho: the share of the running means of squares that is kept.
        eps: added under the roots.

    Raises:
        ValueError: if ``rho`` is negative or ``eps`` is not positive.

    Example:
        >>> optimizer = optim.AdaDelta(learning_rate=1.0)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, 0.0])}, {"w": mx.zeros(2)})
        {'w': array([-0.00316226, 0], dtype=float32)}
    """

    _mx_slots = ("v", "u")

    def __init__(self, learning_rate: LearningRate, rho: float = 0.9, eps: float = 1e-6) -> None:
        super().__init__(learning_rate)
        check_value("AdaDelta rho", rho)
        check_value("AdaDelta epsilon", eps, positive=True)
        self.rho, self.eps = rho, eps

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        v, u = blended(state["v"], self.rho, mx.square(gradient)), state["u"]
        change = mx.sqrt(u + self.eps) / mx.sqrt(v + self.eps) * gradient
        state["v"], state["u"] = v, blended(u, self.rho, mx.square(change))
        return parameter - rate_of(self, gradient) * change


class Adam(SlotOptimizer):
    """Adam: ``m = b1 m + (1 - b1) g``, ``v = b2 v + (1 - b2) g^2``, ``w -= lr m / (sqrt(v) + eps)``.

    State: ``m`` and ``v``.

    Args:
        learning_rate: lr.
        betas: b1 and b2.
        eps: added to the root.
        bias_correction: whether to divide m and v by ``1 - b1^t`` and ``1 - b2^t`` at step t.

    Raises:
        ValueError: for betas outside [0, 1) or a negative ``eps``.

    Example:
        >>> optimizer = optim.Adam(learning_rate=0.1)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.zeros(2)})
        {'w': array([-0.316228, 0.316228], dtype=float32)}
    """

    _mx_slots = ("m", "v")

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate)
        _check_betas("Adam", betas)
        check_value("Adam epsilon", eps)
        self.betas, self.eps = betas, eps
        self.bias_correction = bias_correction

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        first, second = self.betas
        m, v = state["m"], state["v"]
        rate, v, m = rate_of(self, gradient), blended(v, second, mx.square(gradient)), blended(m, first, gradient)
        size = mx.sqrt(v)
        state["m"], state["v"] = m, v
        if self.bias_correction:
            m_share, v_share = (1 - beta**self.step for beta in self.betas)
            rate = (rate / m_share).astype(gradient.dtype)
            size = size * mx.rsqrt(v_share).astype(gradient.dtype)
        return parameter - rate * m / (size + self.eps)


class AdamW(Adam):
    """AdamW: ``w *= 1 - lr weight_decay``, then ``Adam``.

    State: ``m`` and ``v``.

    Args:
        learning_rate: lr.
        betas: as for ``Adam``.
        eps: as for ``Adam``.
        weight_decay: the rate of weight decay.
        bias_correction: as for ``Adam``.

    Raises:
        ValueError: for betas outside [0, 1) or a negative ``eps``.

    Example:
        >>> optimizer = optim.AdamW(learning_rate=0.1)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.ones(2)})
        {'w': array([0.682772, 1.31523], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate, betas, eps, bias_correction)
        self.weight_decay = weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        shrunk = parameter * (1 - rate_of(self, gradient) * self.weight_decay)
        return super().apply_single(gradient, shrunk, state)


class Adamax(Adam):
    """Adamax: ``m`` as in ``Adam``, ``v = max(b2 v, |g|)``, ``w -= lr m / (v + eps)``.

    State: ``m`` and ``v``.

    Args:
        learning_rate: lr.
        betas: b1 and b2.
        eps: added to v.

    Raises:
        ValueError: for betas outside [0, 1) or a negative ``eps``.

    Example:
        >>> optimizer = optim.Adamax(learning_rate=0.5)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.zeros(2)})
        {'w': array([-0.05, 0.05], dtype=float32)}
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, betas, eps)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        first, second = self.betas
        m, v = blended(state["m"], first, gradient), mx.maximum(second * state["v"], mx.abs(gradient))
        state["m"], state["v"] = m, v
        return parameter - rate_of(self, gradient) * m / (v + self.eps)


class Lion(SlotOptimizer):
    """Lion: ``c = b1 m + (1 - b1) g``, ``m = b2 m + (1 - b2) g``, ``w -= lr (sign(c) + weight_decay w)``.

    State: ``m``.

    Args:
        learning_rate: lr.
        betas: b1 and b2.
        weight_decay: the rate of weight decay.

    Raises:
        ValueError: for betas outside [0, 1).

    Example:
        >>> optimizer = optim.Lion(learning_rate=0.5)
        >>> optimizer.apply_gradients({"w": mx.array([1.0, -2.0])}, {"w": mx.zeros(2)})
        {'w': array([-0.5, 0.5], dtype=float32)}
    """

    _mx_slots = ("m",)

    def __init__(
        self,
        learning_rate: LearningRate,
        betas: list[float] = [0.9, 0.99],  # noqa: B006
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        _check_betas("Lion", betas)
        self.betas, self.weight_decay = betas, weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        rate, (first, second) = rate_of(self, gradient), self.betas
        direction = mx.sign(first * state["m"] + (1 - first) * gradient)
        blend(state, "m", second, gradient)
        if self.weight_decay > 0:
            parameter = (1 - rate * self.weight_decay) * parameter
        return parameter - rate * direction


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Scale gradients so that the norm of all together is at most ``max_norm``.

    Args:
        grads: a tree of arrays.
        max_norm: the largest norm.

    Returns:
        The scaled tree and the norm before scaling, a scalar array.

    Raises:
        ValueError: if ``max_norm`` is negative.

    Example:
        >>> optim.clip_grad_norm({"w": mx.array([3.0, 4.0])}, max_norm=1.0)
        ({'w': array([0.6, 0.8], dtype=float32)}, array(5, dtype=float32))
    """
    check_value("max_norm", max_norm)

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
