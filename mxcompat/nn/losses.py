"""Loss functions. ``reduction`` is ``"none"``, ``"mean"`` or ``"sum"`` everywhere."""

from __future__ import annotations

import math
from typing import Literal, get_args

import mxcompat.core as mx

__all__ = [
    "binary_cross_entropy",
    "cosine_similarity_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_loss",
    "huber_loss",
    "kl_div_loss",
    "l1_loss",
    "log_cosh_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
    "triplet_loss",
]

Reduction = Literal["none", "mean", "sum"]


def _reduce(loss: mx.array, reduction: Reduction = "none") -> mx.array:
    if reduction not in get_args(Reduction):
        raise ValueError(f"Invalid reduction. Must be one of {get_args(Reduction)}.")
    if reduction == "mean":
        return mx.mean(loss)
    return mx.sum(loss) if reduction == "sum" else loss


def _check_predictions(predictions: mx.array, targets: mx.array) -> None:
    if predictions.shape != targets.shape:
        raise ValueError(f"Predictions shape {predictions.shape} does not match targets shape {targets.shape}.")


def _check_inputs(inputs: mx.array, targets: mx.array) -> None:
    if inputs.shape != targets.shape:
        raise ValueError(f"Inputs shape {inputs.shape} does not match targets shape {targets.shape}.")


def _check_weights(weights: mx.array, loss: mx.array) -> None:
    if weights.shape != loss.shape:
        raise ValueError(f"Weights with shape {weights.shape} is not the same as output loss with shape {loss.shape}.")


def _at(scores: mx.array, targets: mx.array, axis: int) -> mx.array:
    """The scores that integer targets point at, ``axis`` removed."""
    return mx.take_along_axis(scores, mx.expand_dims(targets, axis), axis).squeeze(axis)


def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """Cross entropy of a softmax.

    Args:
        logits: unnormalized scores, the classes along ``axis``.
        targets: class indices (the shape of ``logits`` without ``axis``) or probabilities (its shape).
        weights: a weight for each loss, of the shape of the unreduced result.
        axis: the axis of the classes.
        label_smoothing: how much of the target is spread evenly over the classes, in [0, 1).
        reduction: how to reduce.

    Raises:
        ValueError: shapes that do not match, ``label_smoothing`` out of range or an unknown reduction.

    Example:
        >>> nn.losses.cross_entropy(mx.array([[2.0, -1.0], [-1.0, 2.0]]), mx.array([0, 1]))
        array([0.0485874, 0.0485874], dtype=float32)
    """
    if label_smoothing < 0 or label_smoothing >= 1:
        raise ValueError(f"Label smoothing must be in [0, 1), got {label_smoothing}.")
    as_probabilities = targets.ndim == logits.ndim
    expected = list(logits.shape)
    if not as_probabilities:
        expected.pop(axis)
    if list(targets.shape) != expected:
        raise ValueError(f"Targets shape {targets.shape} does not match logits shape {logits.shape}.")
    # Scores relative to the largest: half precision resolves them better, and unnormalized targets see them.
    logits = logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))
    score = mx.sum(logits * targets, axis=axis) if as_probabilities else _at(logits, targets, axis)
    normalizer = mx.logsumexp(logits, axis=axis)
    if label_smoothing > 0:
        smooth = label_smoothing * mx.mean(logits, axis=axis)
        loss = normalizer - ((1 - label_smoothing) * score + smooth)
    else:
        loss = normalizer - score
    if weights is not None:
        _check_weights(weights, loss)
        loss = loss * weights
    return _reduce(loss, reduction)


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    """Cross entropy of independent binary predictions.

    Args:
        inputs: logits, or probabilities if ``with_logits`` is false.
        targets: values in [0, 1], of the same shape.
        weights: a weight for each loss, of the same shape.
        with_logits: what ``inputs`` are.
        reduction: how to reduce.

    Raises:
        ValueError: shapes that do not match or an unknown reduction.
    """
    _check_inputs(inputs, targets)
    if with_logits:
        loss = mx.logaddexp(0.0, inputs) - inputs * targets
    else:
        # The logarithm of a probability of zero is cut at -100, so that a wrong certainty costs a finite amount.
        log_yes = mx.clip(mx.log(inputs), -100, None)
        log_no = mx.clip(mx.log(1 - inputs), -100, None)
        loss = -(targets * log_yes + (1 - targets) * log_no)
    if weights is not None:
        _check_weights(weights, loss)
        loss = loss * weights
    return _reduce(loss, reduction)


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """``|predictions - targets|``; the shapes must agree (ValueError)."""
    _check_predictions(predictions, targets)
    return _reduce(mx.abs(predictions - targets), reduction)


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """``(predictions - targets) ** 2``; the shapes must agree (ValueError)."""
    _check_predictions(predictions, targets)
    return _reduce(mx.square(predictions - targets), reduction)


def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """The negative of the log-probabilities ``inputs`` that the class indices ``targets`` point at."""
    return _reduce(-_at(inputs, targets, axis), reduction)


def gaussian_nll_loss(
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    """The negative log-likelihood of ``targets`` under normal distributions.

    Args:
        inputs: the means.
        targets: the values, of the same shape.
        vars: the variances, of the same shape.
        full: include the constant ``log(2 pi) / 2``.
        eps: the least variance.
        reduction: how to reduce.

    Raises:
        ValueError: shapes that do not match or an unknown reduction.
    """
    _check_inputs(inputs, targets)
    if inputs.shape != vars.shape:
        raise ValueError(f"Inputs shape {inputs.shape} does not match vars shape {vars.shape}.")
    vars = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(vars) + mx.square(targets - inputs) / vars)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def kl_div_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """The Kullback-Leibler divergence of log-probabilities ``inputs`` from log-probabilities ``targets``."""
    return _reduce(mx.sum(mx.exp(targets) * (targets - inputs), axis), reduction)


def smooth_l1_loss(
    predictions: mx.array, targets: mx.array, beta: float = 1.0, reduction: Reduction = "mean"
) -> mx.array:
    """Quadratic where ``|predictions - targets| < beta``, linear beyond; the shapes must agree (ValueError)."""
    _check_predictions(predictions, targets)
    error = mx.abs(predictions - targets)
    return _reduce(mx.where(error < beta, 0.5 * mx.square(error) / beta, error - 0.5 * beta), reduction)


def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    """How much nearer than the negative, less a margin, the positive is to the anchor: zero if by enough.

    Args:
        anchors: the anchors.
        positives: what should be near them.
        negatives: what should be far from them.
        axis: the axis of the distance.
        p: the order of the distance's norm.
        margin: how much nearer is enough.
        eps: added inside the root.
        reduction: how to reduce.
    """

    def distance(others: mx.array) -> mx.array:
        return mx.power(mx.power(mx.abs(anchors - others), p).sum(axis) + eps, 1.0 / p)

    return _reduce(mx.maximum(distance(positives) - distance(negatives) + margin, 0), reduction)


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """``max(0, 1 - inputs * targets)``, targets being -1 or 1."""
    return _reduce(mx.maximum(1 - inputs * targets, 0), reduction)


def huber_loss(inputs: mx.array, targets: mx.array, delta: float = 1.0, reduction: Reduction = "none") -> mx.array:
    """Half the square of the error up to ``delta``, linear beyond."""
    error = inputs - targets
    size = mx.abs(error)
    quadratic = 0.5 * mx.square(error)
    linear = delta * (size - 0.5 * delta)
    return _reduce(mx.where(size <= delta, quadratic, linear), reduction)


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """``log(cosh(inputs - targets))``, without overflow."""
    error = inputs - targets
    return _reduce(mx.logaddexp(error, -error) - math.log(2), reduction)


def cosine_similarity_loss(
    x1: mx.array,
    x2: mx.array,
    axis: int = 1,
    eps: float = 1e-8,
    reduction: Reduction = "none",
) -> mx.array:
    """The cosine of the angle between ``x1`` and ``x2`` along ``axis``; ``eps`` bounds the norms' product below."""
    norms = mx.linalg.norm(x1, axis=axis) * mx.linalg.norm(x2, axis=axis)
    return _reduce(mx.sum(x1 * x2, axis=axis) / mx.maximum(norms, eps), reduction)


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """``max(0, -targets * (inputs1 - inputs2) + margin)``; the shapes must agree (ValueError)."""
    if not inputs1.shape == inputs2.shape == targets.shape:
        raise ValueError(
            "The shapes of the arguments do not match. The provided shapes are "
            f"inputs1.shape={inputs1.shape}, inputs2.shape={inputs2.shape}, and "
            f"targets.shape={targets.shape}."
        )
    return _reduce(mx.maximum(0, -targets * (inputs1 - inputs2) + margin), reduction)
