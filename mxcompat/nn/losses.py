"""Loss functions. Each computes unreduced losses. One decorator adds the ``reduction`` parameter, and makes a call one
node of the graph (`_reduction`)."""

from __future__ import annotations

import math

import mxcompat.core as mx
from mxcompat.nn._reduction import Reduction, reduces
from mxcompat.nn._reduction import reduce as _reduce  # noqa: F401  programs find it here

__all__ = [
    "Reduction",
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
    "math",
    "mse_loss",
    "mx",
    "nll_loss",
    "smooth_l1_loss",
    "triplet_loss",
]


def _check_same_shape(**named: mx.array) -> None:
    """Raise MLX's error, with the given names, if two arrays differ in shape."""
    (name, array), (other_name, other) = named.items()
    if array.shape != other.shape:
        raise ValueError(f"{name} shape {array.shape} does not match {other_name} shape {other.shape}.")


def _weighted(loss: mx.array, weights: mx.array | None) -> mx.array:
    if weights is None:
        return loss
    if weights.shape != loss.shape:
        raise ValueError(f"Weights with shape {weights.shape} is not the same as output loss with shape {loss.shape}.")
    return loss * weights


def _at(scores: mx.array, targets: mx.array, axis: int) -> mx.array:
    """Return the scores at integer targets, without ``axis``."""
    return mx.take_along_axis(scores, mx.expand_dims(targets, axis), axis).squeeze(axis)


@reduces("none")
def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
) -> mx.array:
    """Compute the cross entropy of a softmax.

    Args:
        logits: unnormalized scores, the classes along ``axis``.
        targets: class indices (the shape of ``logits`` without ``axis``) or probabilities (its shape).
        weights: a weight for each loss, of the shape of the unreduced result.
        axis: the axis of the classes.
        label_smoothing: the share of the target that is spread evenly over the classes, in [0, 1).
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each place of ``logits`` without ``axis``, or a
        scalar.

    Raises:
        ValueError: for shapes that do not match, an unknown reduction, or ``label_smoothing`` out of range.

    Example:
        >>> nn.losses.cross_entropy(mx.zeros((2, 4)), mx.array([0, 1]))
        array([1.38629, 1.38629], dtype=float32)
    """
    if label_smoothing < 0 or label_smoothing >= 1:
        raise ValueError(f"Label smoothing must be in [0, 1), got {label_smoothing}.")
    as_probabilities = targets.ndim == logits.ndim
    expected = list(logits.shape)
    if not as_probabilities:
        expected.pop(axis)
    if list(targets.shape) != expected:
        raise ValueError(f"Targets shape {targets.shape} does not match logits shape {logits.shape}.")
    # Subtract the largest score: half precision is then finer, and unnormalized targets give the same result.
    logits = logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))
    aim = mx.sum(logits * targets, axis=axis) if as_probabilities else _at(logits, targets, axis)
    if label_smoothing > 0:
        aim = aim * (1 - label_smoothing) + mx.mean(logits, axis=axis) * label_smoothing
    return _weighted(mx.logsumexp(logits, axis=axis) - aim, weights)


@reduces("mean")
def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
) -> mx.array:
    """Compute the cross entropy of independent binary predictions.

    Args:
        inputs: logits of any shape, or probabilities if ``with_logits`` is false.
        targets: values in [0, 1], of the same shape.
        weights: a weight for each loss, of the same shape.
        with_logits: whether ``inputs`` are logits.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that differ, or an unknown reduction.

    Example:
        >>> nn.losses.binary_cross_entropy(mx.array([0.5, 0.5]), mx.array([1.0, 0.0]), with_logits=False)
        array(0.693147, dtype=float32)
    """
    _check_same_shape(Inputs=inputs, targets=targets)
    if with_logits:
        return _weighted(mx.logaddexp(0.0, inputs) - inputs * targets, weights)
    # The logarithm of a probability of zero is limited to -100, so that the loss stays finite.
    yes, no = (mx.clip(mx.log(p), -100, None) for p in (inputs, 1 - inputs))
    return _weighted(-(targets * yes + (1 - targets) * no), weights)


@reduces("mean")
def l1_loss(predictions: mx.array, targets: mx.array) -> mx.array:
    """Compute ``|predictions - targets|``.

    Args:
        predictions: an array of any shape.
        targets: an array of that shape.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that differ, or an unknown reduction.

    Example:
        >>> nn.losses.l1_loss(mx.array([0.5, 1.0]), mx.array([1.0, 0.0]))
        array(0.75, dtype=float32)
    """
    _check_same_shape(Predictions=predictions, targets=targets)
    return mx.abs(predictions - targets)


@reduces("mean")
def mse_loss(predictions: mx.array, targets: mx.array) -> mx.array:
    """Compute ``(predictions - targets) ** 2``.

    Args:
        predictions: an array of any shape.
        targets: an array of that shape.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that differ, or an unknown reduction.

    Example:
        >>> nn.losses.mse_loss(mx.array([0.5, 1.0]), mx.array([1.0, 0.0]))
        array(0.625, dtype=float32)
    """
    _check_same_shape(Predictions=predictions, targets=targets)
    return mx.square(predictions - targets)


@reduces("none")
def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1) -> mx.array:
    """Compute the negative of the log-probabilities at class indices.

    Args:
        inputs: log-probabilities, the classes along ``axis``.
        targets: class indices, of the shape of ``inputs`` without ``axis``.
        axis: the axis of the classes.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each target, or a scalar.

    Raises:
        ValueError: for shapes that do not match, or an unknown reduction.
        IndexError: if ``inputs`` has no such axis.

    Example:
        >>> nn.losses.nll_loss(mx.array([[-1.5, -0.25], [-2.0, -3.0]]), mx.array([1, 0]))
        array([0.25, 2], dtype=float32)
    """
    return -_at(inputs, targets, axis)


@reduces("mean")
def gaussian_nll_loss(
    inputs: mx.array, targets: mx.array, vars: mx.array, full: bool = False, eps: float = 1e-6
) -> mx.array:
    """Compute the negative log-likelihood of ``targets`` under normal distributions.

    Args:
        inputs: the means, of any shape.
        targets: the values, of the same shape.
        vars: the variances, of the same shape.
        full: include the constant ``log(2 pi) / 2``.
        eps: the least variance.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that differ, or an unknown reduction.

    Example:
        >>> nn.losses.gaussian_nll_loss(mx.array([0.0, 1.0]), mx.array([1.0, 3.0]), mx.ones(2))
        array(1.25, dtype=float32)
    """
    _check_same_shape(Inputs=inputs, targets=targets)
    _check_same_shape(Inputs=inputs, vars=vars)
    spread = mx.maximum(vars, eps)
    nll = 0.5 * (mx.log(spread) + mx.square(targets - inputs) / spread)
    return nll + math.log(2 * math.pi) / 2 if full else nll


@reduces("none")
def kl_div_loss(inputs: mx.array, targets: mx.array, axis: int = -1) -> mx.array:
    """Compute the Kullback-Leibler divergence of the distribution ``inputs`` from the distribution ``targets``.

    Args:
        inputs: log-probabilities, along ``axis``.
        targets: log-probabilities, of a shape that broadcasts with theirs.
        axis: the axis of the sum.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a divergence for each place without ``axis``, or a scalar.

    Raises:
        ValueError: for shapes that cannot be broadcast, or an unknown reduction.
        IndexError: if there is no such axis.

    Example:
        >>> nn.losses.kl_div_loss(mx.log(mx.array([[0.5, 0.5]])), mx.log(mx.array([[0.25, 0.75]])))
        array([0.130812], dtype=float32)
    """
    return mx.sum(mx.exp(targets) * (targets - inputs), axis)


@reduces("mean")
def smooth_l1_loss(predictions: mx.array, targets: mx.array, beta: float = 1.0) -> mx.array:
    """Compute ``error ** 2 / (2 beta)`` where ``error = |predictions - targets| < beta``, ``error - beta / 2`` beyond.

    Args:
        predictions: an array of any shape.
        targets: an array of that shape.
        beta: the error above which the loss is linear.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that differ, or an unknown reduction.

    Example:
        >>> nn.losses.smooth_l1_loss(mx.array([0.5, 3.0]), mx.zeros(2), reduction="none")
        array([0.125, 2.5], dtype=float32)
    """
    _check_same_shape(Predictions=predictions, targets=targets)
    error = mx.abs(predictions - targets)
    return mx.where(error < beta, 0.5 * mx.square(error) / beta, error - 0.5 * beta)


@reduces("none")
def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
) -> mx.array:
    """Compute ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, where d is a distance.

    Args:
        anchors: the anchors, (..., D).
        positives: arrays that should be near the anchors, of a shape that broadcasts with theirs.
        negatives: arrays that should be far from the anchors, of a shape that broadcasts with theirs.
        axis: the axis of the distance.
        p: the order of the distance's norm.
        margin: the difference of distances for which the loss is zero.
        eps: added inside the root.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each anchor, or a scalar.

    Raises:
        ValueError: for shapes that cannot be broadcast, or an unknown reduction.
        IndexError: if there is no such axis.

    Example:
        >>> nn.losses.triplet_loss(mx.array([[0.0, 0.0]]), mx.array([[3.0, 4.0]]), mx.array([[0.0, 3.0]]))
        array([3], dtype=float32)
    """

    def distance(others: mx.array) -> mx.array:
        return mx.power(mx.power(mx.abs(anchors - others), p).sum(axis) + eps, 1.0 / p)

    return mx.maximum(distance(positives) - distance(negatives) + margin, 0)


@reduces("none")
def hinge_loss(inputs: mx.array, targets: mx.array) -> mx.array:
    """Compute ``max(0, 1 - inputs * targets)``.

    Args:
        inputs: scores, an array of any shape.
        targets: -1 or 1, of a shape that broadcasts with it.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that cannot be broadcast, or an unknown reduction.

    Example:
        >>> nn.losses.hinge_loss(mx.array([0.5, 2.0]), mx.array([1, -1]))
        array([0.5, 3], dtype=float32)
    """
    return mx.maximum(1 - inputs * targets, 0)


@reduces("none")
def huber_loss(inputs: mx.array, targets: mx.array, delta: float = 1.0) -> mx.array:
    """Compute ``error ** 2 / 2`` where ``error = |inputs - targets| <= delta``, ``delta (error - delta / 2)`` beyond.

    Args:
        inputs: an array of any shape.
        targets: an array of a shape that broadcasts with it.
        delta: the error above which the loss is linear.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that cannot be broadcast, or an unknown reduction.

    Example:
        >>> nn.losses.huber_loss(mx.array([0.5, 3.0]), mx.zeros(2))
        array([0.125, 2.5], dtype=float32)
    """
    error = mx.abs(inputs - targets)
    return mx.where(error <= delta, 0.5 * mx.square(error), (error - 0.5 * delta) * delta)


@reduces("none")
def log_cosh_loss(inputs: mx.array, targets: mx.array) -> mx.array:
    """Compute ``log(cosh(inputs - targets))`` without overflow.

    Args:
        inputs: an array of any shape.
        targets: an array of a shape that broadcasts with it.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that cannot be broadcast, or an unknown reduction.

    Example:
        >>> nn.losses.log_cosh_loss(mx.array([0.0, 1.0]), mx.zeros(2))
        array([0, 0.433781], dtype=float32)
    """
    error = inputs - targets
    return mx.logaddexp(error, -error) - math.log(2)


@reduces("none")
def cosine_similarity_loss(x1: mx.array, x2: mx.array, axis: int = 1, eps: float = 1e-8) -> mx.array:
    """Compute the cosine of the angle between ``x1`` and ``x2``: 1 for the same direction. To use it as a loss, negate
    it.

    Args:
        x1: vectors along ``axis``.
        x2: vectors along ``axis``, of a shape that broadcasts with theirs.
        axis: the axis of the vectors.
        eps: the least product of the norms.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a cosine for each pair, or a scalar.

    Raises:
        ValueError: for shapes that cannot be broadcast, or an unknown reduction.
        IndexError: if there is no such axis.

    Example:
        >>> nn.losses.cosine_similarity_loss(mx.array([[3.0, 4.0]]), mx.array([[1.0, 0.0]]))
        array([0.6], dtype=float32)
    """
    first, second = mx.linalg.norm(x1, axis=axis), mx.linalg.norm(x2, axis=axis)
    return mx.sum(x1 * x2, axis=axis) / mx.maximum(first * second, eps)


@reduces("none")
def margin_ranking_loss(inputs1: mx.array, inputs2: mx.array, targets: mx.array, margin: float = 0.0) -> mx.array:
    """Compute ``max(0, -targets * (inputs1 - inputs2) + margin)``.

    Args:
        inputs1: scores, an array of any shape.
        inputs2: scores, of that shape.
        targets: of that shape: 1 where the first should be higher, -1 where the second.
        margin: the required difference of the scores.
        reduction: ``"none"`` for every loss, ``"mean"`` or ``"sum"`` for a scalar.

    Returns:
        An array of the arguments' (floating-point) dtype: a loss for each element, or a scalar.

    Raises:
        ValueError: for shapes that differ, or an unknown reduction.

    Example:
        >>> nn.losses.margin_ranking_loss(mx.array([0.5, 2.0]), mx.array([1.0, 1.0]), mx.array([1, 1]))
        array([0.5, 0], dtype=float32)
    """
    arrays = {"inputs1": inputs1, "inputs2": inputs2, "targets": targets}
    if len({array.shape for array in arrays.values()}) > 1:
        first, second, third = (f"{name}.shape={array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"The shapes of the arguments do not match. The provided shapes are {first}, {second}, and {third}."
        )
    return mx.maximum(0, -targets * (inputs1 - inputs2) + margin)
