"""The normalisations and the loss of `mx.fast`: one op each, computed in float32 (or float64), and fused by XLA."""

from __future__ import annotations

from typing import Any

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.errors import no_derivative
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, float32, format_shape, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.rules import INDEX_ERROR
from mxcompat._jax import jax, jnp

from ..arguments import any_number, require_array
from ..define import op

__all__ = ["CROSS_ENTROPY", "LAYER_NORM", "RMS_NORM", "cross_entropy", "layer_norm", "number", "rms_norm", "wide"]


def wide(x: Any) -> Any:
    """Cast x to the dtype of the sums: float64 stays as it is, any other dtype becomes float32."""
    return jnp.asarray(x, jnp.float64 if x.dtype == jnp.float64 else jnp.float32)


def number(name: str, argument: str, value: Any) -> Node:
    """Return a float argument as an input of the op, so that another value does not need a compilation."""
    return operands.scalar_node(any_number(value, name, argument), float32)


def _optional(value: Any, name: str) -> Node | None:
    return None if value is None else require_array(value, name)


def _dtype(name: str, *avals: Aval) -> Dtype:
    """Return the dtype of the result. Raises MLX's ValueError if it is not a float."""
    dtype = avals[0].dtype
    for a in avals[1:]:
        dtype = promote(dtype, a.dtype)
    if dtype._kind != "f":
        raise ValueError(f"[{name}] Received unsupported type {dtype._label}.")
    return dtype


def _check_input(name: str, a: Aval, called: str = "Input") -> None:
    if not a.ndim:
        raise ValueError(f"[{name}] {called} must have at least 1 dimension but got input with 0 dimensions.")


def _check_scale(name: str, called: str, w: Aval, a: Aval) -> None:
    if w.ndim != 1:
        raise ValueError(f"[{name}] {called} must have 1 dimension but has {w.ndim} dimensions.")
    if w.size != a.shape[-1]:
        raise ValueError(
            f"[{name}] {called} must have the same size as the last dimension of x but has {w.size} elements."
        )


def _rms_norm(x: Any, eps: Any, *weight: Any) -> Any:
    want = _dtype("rms_norm", *map(_aval, (x, *weight)))._numpy
    x = wide(x)
    out = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps.astype(x.dtype))
    if weight:
        out = out.astype(want) * jnp.asarray(weight[0], want)
    return out.astype(want)


def _rms_infer(x: Aval, eps: Aval, *weight: Aval) -> Aval:
    _check_input("rms_norm", x)
    if weight:
        _check_scale("rms_norm", "(*weight)", weight[0], x)
    return aval(x.shape, _dtype("rms_norm", x, *weight))


def _aval(x: Any) -> Aval:
    return aval(x.shape, from_numpy(x.dtype))  # type: ignore[arg-type]


RMS_NORM = op("rms_norm", _rms_norm, _rms_infer)


def rms_norm(x: array, weight: array | None, eps: float, *, stream: Any = None) -> array:
    """Return the root mean square normalisation over the last axis: `x / sqrt(mean(x * x) + eps) * weight`.

    Args:
        x: `(..., D)`, floating point.
        weight: `(D,)`, or None for no scaling.
        eps: a positive number, which keeps the root away from 0.
        stream: accepted, and ignored.

    Returns:
        An array with the shape of `x` and the promoted dtype of `x` and the weight. The sum is computed in float32.

    Raises:
        ValueError: if the dtype is not a float, or if the weight does not fit.

    Example:
        >>> mx.fast.rms_norm(mx.array([3.0, 4.0]), mx.ones(2), 1e-5)
        array([0.848528, 1.13137], dtype=float32)
    """
    check_stream(stream)
    node, scale = require_array(x, "rms_norm"), _optional(weight, "rms_norm")
    inputs = (node, number("rms_norm", "eps", eps))
    return wrap(apply(RMS_NORM, inputs if scale is None else (*inputs, scale)))


def _layer_norm(x: Any, eps: Any, *rest: Any, weighted: bool, biased: bool) -> Any:
    want = _layer_infer(*map(_aval, (x, eps, *rest)), weighted, biased).dtype._numpy
    x = wide(x)
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    out = centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + eps.astype(x.dtype))
    out = out.astype(want)
    if weighted:
        out = out * jnp.asarray(rest[0], want)
    if biased:
        out = out + jnp.asarray(rest[-1]).real.astype(want)
    return out


def _layer_infer(x: Aval, eps: Aval, *rest: Any) -> Aval:
    *scales, weighted, biased = rest
    _check_input("layer_norm", x)
    names = ["weight"] * weighted + ["bias"] * biased
    for called, scale in zip(names, scales, strict=True):
        _check_scale("layer_norm", called, scale, x)
    return aval(x.shape, _dtype("layer_norm", x, *(scales if weighted else ())))


LAYER_NORM = op(
    "layer_norm", _layer_norm, lambda *avals, weighted, biased: _layer_infer(*avals, weighted, biased),
    ("weighted", "biased"),
)  # fmt: skip


def layer_norm(x: array, weight: array | None, bias: array | None, eps: float, *, stream: Any = None) -> array:
    """Return the layer normalisation over the last axis: `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`.

    Args:
        x: `(..., D)`, floating point.
        weight: `(D,)`, or None for no scaling.
        bias: `(D,)`, or None for no offset.
        eps: a positive number, which keeps the root away from 0.
        stream: accepted, and ignored.

    Returns:
        An array with the shape of `x` and the promoted dtype of all three arrays; without a weight, the dtype of `x`.
        Sums are computed in float32.

    Raises:
        ValueError: if the dtype is not a float, or if the weight or bias does not fit.

    Example:
        >>> mx.fast.layer_norm(mx.array([1.0, 2.0, 3.0]), None, None, 1e-5)
        array([-1.22474, 0, 1.22474], dtype=float32)
    """
    check_stream(stream)
    node = require_array(x, "layer_norm")
    scales = [_optional(a, "layer_norm") for a in (weight, bias)]
    inputs = (node, number("layer_norm", "eps", eps), *[s for s in scales if s is not None])
    return wrap(apply(LAYER_NORM, inputs, (weight is not None, bias is not None)))


def _cross_entropy(logits: Any, targets: Any) -> Any:
    x = wide(logits)
    count = x.shape[-1]
    index = targets[..., None].astype(jnp.int64)
    index = jnp.where(index < 0, index + count, index)
    chosen = jax.lax.broadcasted_iota(jnp.int64, x.shape, x.ndim - 1) == index
    inside = ((index >= 0) & (index < count))[..., 0]
    picked = jnp.where(inside, jnp.where(chosen, x, 0).sum(-1), jnp.nan)
    return (jax.nn.logsumexp(x, axis=-1) - picked).astype(jnp.float32)


def _cross_entropy_infer(logits: Aval, targets: Aval) -> Aval:
    _check_input("cross_entropy", logits, "logits")
    if logits.dtype._kind != "f":
        raise ValueError(f"[cross_entropy] Received unsupported logits type {logits.dtype._label}.")
    if targets.dtype._kind not in "ui":
        raise ValueError(f"[cross_entropy] targets must be integer class indices but got {targets.dtype._label}.")
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"[cross_entropy] targets shape {format_shape(targets.shape)} does not match logits shape "
            f"{format_shape(logits.shape)} "
            "with the last axis removed."
        )
    return aval(targets.shape, float32)


CROSS_ENTROPY = op("cross_entropy", _cross_entropy, _cross_entropy_infer, indices=1)


@INDEX_ERROR.of(CROSS_ENTROPY)
def _targets(transform: str, *_: Any) -> Exception:
    """Return the error for a derivative with respect to the targets, which are indices of the logits."""
    return ValueError(no_derivative("gather_axis", "indices", transform))


def cross_entropy(logits: array, targets: array, *, stream: Any = None) -> array:
    """Return the cross entropy of class indices: `logsumexp(logits, -1) - logits[..., target]`.

    Args:
        logits: `(..., C)`, floating point, not normalised.
        targets: `(...)`, integers below C; negative ones count from the end.
        stream: accepted, and ignored.

    Returns:
        The losses `(...)` in float32, and NaN for a target out of range. Half-precision logits are summed in float32,
        too.

    Raises:
        ValueError: if shapes or dtypes do not fit.

    Example:
        >>> mx.fast.cross_entropy(mx.zeros((1, 4)), mx.array([2]))
        array([1.38629], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(CROSS_ENTROPY, (require_array(logits, "cross_entropy"), require_array(targets, "cross_entropy"))))
