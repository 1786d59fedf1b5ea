"""Optimizers that look at a matrix as a whole: Adafactor and Muon."""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat.optimizers._base import LearningRate, Optimizer


class Adafactor(Optimizer):
    """Adam with the squares' means kept, for matrices, as one number per row and one per column.

    State: ``exp_avg_sq_row`` and ``exp_avg_sq_col`` for matrices, ``exp_avg_sq`` for vectors and scalars, and
    ``exp_avg`` if ``beta_1`` is given.

    Args:
        learning_rate: the learning rate, if ``relative_step`` is false.
        eps: added to squared gradients; the least scale of a parameter.
        clip_threshold: the largest root mean square of an update.
        decay_rate: the means of squares keep ``1 - t ** decay_rate`` at step t.
        beta_1: how much of the last update is kept; ``None`` keeps nothing.
        weight_decay: how much parameters shrink.
        scale_parameter: scale the learning rate by the parameter's root mean square.
        relative_step: a learning rate of ``min(0.01, 1 / sqrt(t))``.
        warmup_init: with ``relative_step``, let the learning rate grow from 1e-6 at first.
    """

    def __init__(
        self,
        learning_rate: LearningRate | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ) -> None:
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: dict) -> None:
        shape, dtype = parameter.shape, parameter.dtype
        if parameter.ndim >= 2:
            state["exp_avg_sq_row"] = mx.zeros(shape[:-1], dtype=dtype)
            state["exp_avg_sq_col"] = mx.zeros(shape[:-2] + shape[-1:], dtype=dtype)
        else:
            state["exp_avg_sq"] = mx.zeros_like(parameter)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros_like(parameter)

    def _compute_rms(self, inputs: mx.array) -> mx.array:
        return mx.sqrt(mx.mean(mx.square(inputs)))

    def _compute_learning_rate(self, step: mx.array, parameter_rms: mx.array) -> mx.array:
        if self.relative_step:
            highest = 1e-6 * step if self.warmup_init else 1e-2
            rate = mx.minimum(highest, mx.rsqrt(step))
        else:
            rate = self.learning_rate
        rate = rate.astype(parameter_rms.dtype)
        return mx.maximum(self.eps[1], parameter_rms) * rate if self.scale_parameter else 1.0 * rate

    def _approximate_exp_moving_avg(self, exp_avg_sq_row: mx.array, exp_avg_sq_col: mx.array) -> mx.array:
        """The reciprocal root of the mean square of every element, from those of rows and columns."""
        rows = mx.rsqrt(exp_avg_sq_row / mx.mean(exp_avg_sq_row, axis=-1, keepdims=True))
        return mx.expand_dims(rows, -1) * mx.expand_dims(mx.rsqrt(exp_avg_sq_col), -2)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        step = self.step
        parameter_rms = self._compute_rms(parameter)
        learning_rate = self._compute_learning_rate(step, parameter_rms)
        new = (step**self.decay_rate).astype(parameter_rms.dtype)
        beta_2 = 1.0 - new
        squares = mx.square(gradient) + self.eps[0]

        def keep(name: str, value: mx.array) -> mx.array:
            state[name] = beta_2 * state[name] + (1 - beta_2) * value
            return state[name]

        if gradient.ndim >= 2:
            scale = self._approximate_exp_moving_avg(
                keep("exp_avg_sq_row", mx.mean(squares, axis=-1)),
                keep("exp_avg_sq_col", mx.mean(squares, axis=-2)),
            )
        else:
            scale = mx.rsqrt(keep("exp_avg_sq", squares))
        update = scale * gradient
        update = update / mx.maximum(1.0, self._compute_rms(update) / self.clip_threshold)
        update = learning_rate * update
        if self.beta_1 is not None:
            update = self.beta_1 * state["exp_avg"] + (1 - self.beta_1) * update
            state["exp_avg"] = update
        if self.weight_decay != 0:
            parameter = parameter + parameter * (-self.weight_decay * learning_rate)
        return parameter - update


class Muon(Optimizer):
    """Momentum, with the direction of a matrix replaced by (nearly) the nearest orthogonal matrix.

    ``v = momentum v + (1 - momentum) g``; for parameters of more than two axes all but the first are taken together;
    vectors are updated with the direction itself. State: ``v``.

    Args:
        learning_rate: the learning rate; for tall matrices it grows with the root of their proportion.
        momentum: how much of the last direction is kept.
        weight_decay: adds ``weight_decay w`` to the gradient.
        nesterov: look one step ahead.
        ns_steps: how many Newton-Schulz iterations.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def init_single(self, parameter: mx.array, state: dict) -> None:
        state["v"] = mx.zeros_like(parameter)

    def _zeropower_via_newtonschulz5(self, X: mx.array, steps: int) -> mx.array:
        """Push the singular values of a matrix towards one by a polynomial of degree five, ``steps`` times."""
        if X.ndim != 2:
            raise AssertionError(f"Expected a 2D array for Newton-Schulz iteration, got shape {X.shape} instead.")
        a, b, c = 3.4445, -4.7750, 2.0315
        tall = X.shape[0] > X.shape[1]
        X = X.T if tall else X
        X = X / (mx.linalg.norm(X, keepdims=True) + 1e-7)
        for _ in range(steps):
            A = X @ X.T
            B = mx.addmm(b * A, A, A, alpha=c)
            X = mx.addmm(a * X, B, X)
        return X.T if tall else X

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        keep, new = self.momentum, 1 - self.momentum
        v = keep * state["v"] + new * gradient
        state["v"] = v
        update = gradient * new + v * keep if self.nesterov else v
        lr = self.learning_rate.astype(gradient.dtype)
        if update.ndim >= 2:
            shape = update.shape
            matrix = update if update.ndim == 2 else update.reshape(shape[0], -1)
            update = self._zeropower_via_newtonschulz5(matrix, steps=self.ns_steps).reshape(shape)
            lr = lr * max(1, shape[-2] / shape[-1]) ** 0.5
        return parameter - lr * update
