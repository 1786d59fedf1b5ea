"""Loss functions. Each computes its unreduced values; one decorator gives all of them their ``reduction``, and makes a
call one node of the graph."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Literal, get_args

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._transforms.compiling import compile_frozen

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

_REDUCTIONS: dict[str, Callable[[mx.array], mx.array]] = {"none": lambda loss: loss, "mean": mx.mean, "sum": mx.sum}


def _reduce(loss: mx.array, reduction: Reduction = "none") -> mx.array:
    if reduction not in list(_REDUCTIONS):
        raise ValueError(f"Invalid reduction. Must be one of {get_args(Reduction)}.")
    return _REDUCTIONS[reduction](loss)


@lru_cache(policy.MOST_COMPOSED)
def _as_one_node(
    losses: Callable[..., mx.array], reduction: Reduction, constants: tuple, names: tuple[str, ...]
) -> Callable[..., list[mx.array]]:
    """The reduced losses as a function of the arrays among their arguments.

    Args:
        constants: for each argument None, if it is an array, or its type and value.
        names: of the last arguments, those passed by name.
    """

    def loss(*arrays: mx.array) -> list[mx.array]:
        following = iter(arrays)
        given = [next(following) if constant is None else constant[1] for constant in constants]
        positional = given[: len(given) - len(names)]
        named = dict(zip(names, given[len(positional) :], strict=True))
        return [_reduce(losses(*positional, **named), reduction)]

    return compile_frozen(loss)


def _reduces(default: Reduction) -> Callable[[Callable[..., mx.array]], Callable[..., mx.array]]:
    """Gives a function of unreduced losses a last parameter ``reduction``: ``"none"``, ``"mean"`` or ``"sum"``.

    Its Python runs once for arguments of a kind: it must not look at the values of arrays.
    """

    def decorate(losses: Callable[..., mx.array]) -> Callable[..., mx.array]:
        signature = inspect.signature(losses)
        place = len(signature.parameters)
        last = inspect.Parameter("reduction", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)

        @wraps(losses)
        def reduced(*args: Any, **kwargs: Any) -> mx.array:
            if len(args) == place + 1 and "reduction" not in kwargs:
                args, kwargs["reduction"] = args[:place], args[place]
            reduction = kwargs.pop("reduction", default)
            given = (*args, *kwargs.values())
            constants = tuple([None if type(x) is mx.array else (type(x), x) for x in given])
            try:
                loss = _as_one_node(losses, reduction, constants, tuple(kwargs))
            except TypeError:  # an argument that is not hashable, such as a list
                return _reduce(losses(*args, **kwargs), reduction)
            return loss(*[x for x in given if type(x) is mx.array])[0]

        reduced.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])  # type: ignore
        return reduced

    return decorate


def _check_same_shape(**named: mx.array) -> None:
    """Both arrays, called what the error shall call them, have the same shape."""
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
    """The scores that integer targets point at, ``axis`` removed."""
    return mx.take_along_axis(scores, mx.expand_dims(targets, axis), axis).squeeze(axis)


@_reduces("none")
def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
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
        >>> nn.losses.cross_entropy(mx.zeros((2, 4)), mx.array([0, 1]))
        array([1.38629, 1.38629], dtype=float32)
    """
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"Label smoothing must be in [0, 1), got {label_smoothing}.")
    as_probabilities = targets.ndim == logits.ndim
    expected = list(logits.shape)
    if not as_probabilities:
        expected.pop(axis)
    if list(targets.shape) != expected:
        raise ValueError(f"Targets shape {targets.shape} does not match logits shape {logits.shape}.")
    # Scores relative to the largest: half precision resolves them better, and unnormalized targets see them.
    logits = logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))
    aim = mx.sum(logits * targets, axis=axis) if as_probabilities else _at(logits, targets, axis)
    if label_smoothing > 0:
        aim = (1 - label_smoothing) * aim + label_smoothing * mx.mean(logits, axis=axis)
    return _weighted(mx.logsumexp(logits, axis=axis) - aim, weights)


@_reduces("mean")
def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
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
    _check_same_shape(Inputs=inputs, targets=targets)
    if with_logits:
        return _weighted(mx.logaddexp(0.0, inputs) - inputs * targets, weights)
    # The logarithm of a probability of zero is cut at -100, so that a wrong certainty costs a finite amount.
    yes, no = (mx.clip(mx.log(p), -100, None) for p in (inputs, 1 - inputs))
    return _weighted(-(targets * yes + (1 - targets) * no), weights)


@_reduces("mean")
def l1_loss(predictions: mx.array, targets: mx.array) -> mx.array:
    """``|predictions - targets|``; the shapes must agree (ValueError)."""
    _check_same_shape(Predictions=predictions, targets=targets)
    return mx.abs(predictions - targets)


@_reduces("mean")
def mse_loss(predictions: mx.array, targets: mx.array) -> mx.array:
    """``(predictions - targets) ** 2``; the shapes must agree (ValueError)."""
    _check_same_shape(Predictions=predictions, targets=targets)
    return mx.square(predictions - targets)


@_reduces("none")
def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1) -> mx.array:
    """The negative of the log-probabilities ``inputs`` that the class indices ``targets`` point at."""
    return -_at(inputs, targets, axis)


@_reduces("mean")
def gaussian_nll_loss(
    inputs: mx.array, targets: mx.array, vars: mx.array, full: bool = False, eps: float = 1e-6
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
    _check_same_shape(Inputs=inputs, targets=targets)
    _check_same_shape(Inputs=inputs, vars=vars)
    spread = mx.maximum(vars, eps)
    nll = 0.5 * (mx.log(spread) + mx.square(targets - inputs) / spread)
    return nll + math.log(2 * math.pi) / 2 if full else nll


@_reduces("none")
def kl_div_loss(inputs: mx.array, targets: mx.array, axis: int = -1) -> mx.array:
    """The Kullback-Leibler divergence of log-probabilities ``inputs`` from log-probabilities ``targets``."""
    return mx.sum(mx.exp(targets) * (targets - inputs), axis)


@_reduces("mean")
def smooth_l1_loss(predictions: mx.array, targets: mx.array, beta: float = 1.0) -> mx.array:
    """Quadratic where ``|predictions - targets| < beta``, linear beyond; the shapes must agree (ValueError)."""
    _check_same_shape(Predictions=predictions, targets=targets)
    error = mx.abs(predictions - targets)
    return mx.where(error < beta, 0.5 * mx.square(error) / beta, error - 0.5 * beta)


@_reduces("none")
def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
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

    return mx.maximum(distance(positives) - distance(negatives) + margin, 0)


@_reduces("none")
def hinge_loss(inputs: mx.array, targets: mx.array) -> mx.array:
    """``max(0, 1 - inputs * targets)``, targets being -1 or 1."""
    return mx.maximum(1 - inputs * targets, 0)


@_reduces("none")
def huber_loss(inputs: mx.array, targets: mx.array, delta: float = 1.0) -> mx.array:
    """Half the square of the error up to ``delta``, linear beyond."""
    error = mx.abs(inputs - targets)
    return mx.where(error <= delta, 0.5 * mx.square(error), delta * (error - 0.5 * delta))


@_reduces("none")
def log_cosh_loss(inputs: mx.array, targets: mx.array) -> mx.array:
    """``log(cosh(inputs - targets))``, without overflow."""
    error = inputs - targets
    return mx.logaddexp(error, -error) - math.log(2)


@_reduces("none")
def cosine_similarity_loss(x1: mx.array, x2: mx.array, axis: int = 1, eps: float = 1e-8) -> mx.array:
    """The cosine of the angle between ``x1`` and ``x2`` along ``axis``; ``eps`` bounds the norms' product below."""
    norms = mx.linalg.norm(x1, axis=axis) * mx.linalg.norm(x2, axis=axis)
    return mx.sum(x1 * x2, axis=axis) / mx.maximum(norms, eps)


@_reduces("none")
def margin_ranking_loss(inputs1: mx.array, inputs2: mx.array, targets: mx.array, margin: float = 0.0) -> mx.array:
    """``max(0, -targets * (inputs1 - inputs2) + margin)``; the shapes must agree (ValueError)."""
    arrays = {"inputs1": inputs1, "inputs2": inputs2, "targets": targets}
    if len({array.shape for array in arrays.values()}) > 1:
        first, second, third = (f"{name}.shape={array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"The shapes of the arguments do not match. The provided shapes are {first}, {second}, and {third}."
        )
    return mx.maximum(0, -targets * (inputs1 - inputs2) + margin)
