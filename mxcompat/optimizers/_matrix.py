"""Optimizers that treat a matrix as a whole: Adafactor and Muon."""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat.optimizers._base import LearningRate, Optimizer, SlotOptimizer, blend, rate_of

__all__ = ["Adafactor", "Muon"]


class Adafactor(Optimizer):
    """Adam with less memory: for a matrix, the running mean of squares is kept as one number per row and per column.

    State: ``exp_avg_sq_row`` and ``exp_avg_sq_col`` for matrices, ``exp_avg_sq`` for vectors and scalars, and
    ``exp_avg`` if ``beta_1`` is given.

    Args:
        learning_rate: the learning rate, if ``relative_step`` is false.
        eps: a pair: the first is added to squared gradients, the second is the least scale of a parameter.
        clip_threshold: the largest root mean square of an update.
        decay_rate: at step t the running means keep the share ``1 - t ** decay_rate``.
        beta_1: the share of the last update that is kept; ``None`` keeps nothing.
        weight_decay: the rate of weight decay.
        scale_parameter: whether to scale the learning rate by the parameter's root mean square.
        relative_step: whether to use the learning rate ``min(0.01, 1 / sqrt(t))``.
        warmup_init: whether to let the learning rate grow from 1e-6 at first, with ``relative_step``.

    Raises:
        KeyError: at the first update, if there is neither ``learning_rate`` nor ``relative_step``.

    Example:
        >>> optimizer = optim.Adafactor()
        >>> optimizer.apply_gradients({"w": mx.ones((2, 2))}, {"w": mx.ones((2, 2))})
        {'w': array([[0.99, 0.99],
               [0.99, 0.99]], dtype=float32)}
    """

    _mx_together = 1

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
        self.eps, self.clip_threshold, self.decay_rate = eps, clip_threshold, decay_rate
        self.beta_1, self.weight_decay = beta_1, weight_decay
        self.scale_parameter, self.relative_step, self.warmup_init = scale_parameter, relative_step, warmup_init

    def init_single(self, parameter: mx.array, state: dict) -> None:
        shape = parameter.shape
        shapes = {"exp_avg_sq": shape}
        if parameter.ndim >= 2:
            shapes = {"exp_avg_sq_row": shape[:-1], "exp_avg_sq_col": (*shape[:-2], shape[-1])}
        if self.beta_1 is not None:
            shapes["exp_avg"] = shape
        state.update((name, mx.zeros(size, parameter.dtype)) for name, size in shapes.items())

    def _compute_rms(self, inputs: mx.array) -> mx.array:
        return mx.sqrt(mx.mean(mx.square(inputs)))

    def _compute_learning_rate(self, step: mx.array, parameter_rms: mx.array) -> mx.array:
        rate = self._mx_relative_rate(step) if self.relative_step else self.learning_rate
        scale = mx.maximum(self.eps[1], parameter_rms) if self.scale_parameter else 1.0
        return scale * rate.astype(parameter_rms.dtype)

    def _mx_relative_rate(self, step: mx.array) -> mx.array:
        """Return a learning rate that falls with the root of the step, limited by a constant, or by a rising line
        during warm-up."""
        return mx.minimum(1e-6 * step if self.warmup_init else 1e-2, mx.rsqrt(step))

    def _approximate_exp_moving_avg(self, exp_avg_sq_row: mx.array, exp_avg_sq_col: mx.array) -> mx.array:
        """Return the reciprocal root of every element's mean square, estimated from those of rows and columns."""
        rows = exp_avg_sq_row / exp_avg_sq_row.mean(axis=-1, keepdims=True)
        return mx.rsqrt(rows)[..., None] * mx.rsqrt(exp_avg_sq_col)[..., None, :]

    def _mx_scale(self, squares: mx.array, share: mx.array, state: dict) -> mx.array:
        """Update the running means of squares with the share ``share``, and return their reciprocal root."""

        along = {"exp_avg_sq": None} if squares.ndim < 2 else {"exp_avg_sq_row": -1, "exp_avg_sq_col": -2}
        means, old = [state[name] for name in along], 1.0 - share
        for k, (name, axis) in enumerate(along.items()):
            new = squares if axis is None else squares.mean(axis=axis)
            state[name] = means[k] = old * means[k] + (1 - old) * new
        return mx.rsqrt(means[0]) if squares.ndim < 2 else self._approximate_exp_moving_avg(*means)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        size = self._compute_rms(parameter)
        rate = self._compute_learning_rate(self.step, size)
        share = (self.step**self.decay_rate).astype(size.dtype)
        change = self._mx_scale(mx.square(gradient) + self.eps[0], share, state) * gradient
        change = rate * (change / mx.maximum(1.0, self._compute_rms(change) / self.clip_threshold))
        if self.beta_1 is not None:
            change = state["exp_avg"] = self.beta_1 * state["exp_avg"] + (1 - self.beta_1) * change
        if self.weight_decay != 0:
            parameter = parameter + parameter * (-self.weight_decay * rate)
        return parameter - change


class Muon(SlotOptimizer):
    """Momentum, where a matrix's direction is replaced by an approximation of the nearest orthogonal matrix.

    ``v = momentum v + (1 - momentum) g``; for parameters with more than two axes, all but the first are flattened.
    Vectors are updated with the direction itself. State: ``v``.

    Args:
        learning_rate: the learning rate; for tall matrices it is multiplied by the root of rows / columns.
        momentum: the share of the last direction that is kept.
        weight_decay: adds ``weight_decay w`` to the gradient.
        nesterov: whether to use Nesterov momentum.
        ns_steps: the number of Newton-Schulz iterations.

    Example:
        >>> optimizer = optim.Muon(learning_rate=0.1)
        >>> new = optimizer.apply_gradients({"w": mx.ones((4, 2))}, {"w": mx.zeros((4, 2))})
        >>> new["w"].shape
        (4, 2)
    """

    _mx_slots = ("v",)
    _mx_together = 1

    def __init__(
        self,
        learning_rate: LearningRate,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ) -> None:
        super().__init__(learning_rate)
        self.momentum, self.weight_decay = momentum, weight_decay
        self.nesterov, self.ns_steps = nesterov, ns_steps

    def _zeropower_via_newtonschulz5(self, X: mx.array, steps: int) -> mx.array:
        """Bring the singular values of a matrix close to one, by ``steps`` iterations of an odd polynomial of degree
        five."""
        if X.ndim != 2:
            raise AssertionError(f"Expected a 2D array for Newton-Schulz iteration, got shape {X.shape} instead.")
        linear, cubic, quintic = 3.4445, -4.7750, 2.0315
        rows, columns = X.shape
        # Products below are square in the first axis, so make it the shorter one.
        turn = (lambda matrix: matrix.T) if rows > columns else (lambda matrix: matrix)
        x = turn(X)
        x = x / (mx.linalg.norm(x, keepdims=True) + 1e-7)
        for _ in range(steps):
            gram = x @ x.T
            x = mx.addmm(linear * x, mx.addmm(cubic * gram, gram, gram, alpha=quintic), x)
        return turn(x)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        change = blend(state, "v", self.momentum, gradient)
        if self.nesterov:
            change = (1 - self.momentum) * gradient + self.momentum * change
        rate = rate_of(self, gradient)
        if change.ndim >= 2:
            *_, rows, columns = shape = change.shape
            change = self._zeropower_via_newtonschulz5(change.flatten(1), steps=self.ns_steps).reshape(shape)
            rate = max(1, rows / columns) ** 0.5 * rate
        return parameter - rate * change
