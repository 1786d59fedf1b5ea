"""Rules of the normalisations and the loss.

In NumPy, all are computed in float32 at least, and rounded once. They work on the last axis and accept any leading
axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD, READS_INPUTS, RESIDUALS

from ..batching import aligned, all_batched
from ..define import TABLE
from ..elementwise.casts import cast_node
from .half_precision import widened
from .norms import CROSS_ENTROPY, LAYER_NORM, RMS_NORM

__all__: list[str] = []


def narrowed(x: Any, out: Aval) -> Any:
    """Return x in the dtype of the result."""
    return x.astype(out.dtype._numpy, copy=False)


def _inverse_root(x: Any, eps: Any) -> Any:
    """Return 1 / sqrt(mean(x ** 2) + eps) along the last axis, which is kept."""
    mean = np.vecdot(x, x)[..., None]
    mean /= x.shape[-1]
    mean += eps
    np.sqrt(mean, mean)
    return np.divide(1, mean, mean)


def _times(y: Any, weight: Any) -> Any:
    """Return the product of y and the weight. It overwrites y if it has the same dtype."""
    weight = widened(weight)
    return np.multiply(y, weight, y if weight.dtype == y.dtype else None)


@HOST.of(RMS_NORM)
def _rms_norm(out: Aval, params: tuple, x: Any, eps: Any, *weight: Any) -> Any:
    x = widened(x)
    y = x * _inverse_root(x, eps)
    if weight:
        y = _times(y, weight[0])
    return narrowed(y, out)


def _norm_back(g: Any, normal: Any, root: Any, out: Any = None) -> Any:
    """Return the cotangent of x from that of `normal = x * root`.

    The derivative is symmetric, so the same function returns the tangent of `normal` from that of x. `out` is an array
    to write to.
    """
    mean = np.vecdot(g, normal)[..., None]
    mean /= normal.shape[-1]
    c = np.multiply(normal, mean, out=out)
    np.subtract(g, c, out=c)
    c *= root
    return c


def _weight_back(g: Any, normal: Any) -> Any:
    n = normal.shape[-1]
    return np.einsum("ij,ij->j", g.reshape(-1, n), normal.reshape(-1, n))


def _eps_back(g: Any, normal: Any, root: Any) -> Any:
    return -0.5 * np.add.reduce(g * normal * root * root, None)


def _cotangents(g: Any, away: Any, eps: Any, needs_grad: Any, weight: tuple) -> list[Any]:
    """Return the cotangents of `away`, which is x or its distance from the mean, of eps, and of a weight."""
    root = _inverse_root(away, eps)
    normal = away * root
    scaled = g * widened(weight[0]) if weight else g
    cotangents = [None, _eps_back(scaled, normal, root) if needs_grad[1] else None]
    if weight:
        cotangents.append(_weight_back(g, normal) if needs_grad[2] else None)
    if needs_grad[0]:  # last, since it may overwrite `normal`
        cotangents[0] = _norm_back(scaled, normal, root, normal if scaled.dtype == normal.dtype else None)
    return cotangents


def _tangent(tangents: Any, prepare: Callable[[Any], Any], x: Any, eps: Any, weight: tuple) -> Any:
    """Return the tangent of a norm without its bias. `prepare` centres x and its
    tangent, or only widens them."""
    away = prepare(x)
    root = _inverse_root(away, eps)
    normal = away * root
    moved = np.zeros_like(away) if tangents[0] is None else _norm_back(prepare(tangents[0]), normal, root)
    if weight:
        moved = _times(moved, weight[0])
        if tangents[2] is not None:
            moved = moved + normal * widened(tangents[2])
    return moved


@PULLBACK.of(RMS_NORM)
def _rms_norm_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any, eps: Any, *weight: Any) -> Any:
    return tuple(_cotangents(widened(g), widened(x), eps, needs_grad, weight))


@PUSHFORWARD.of(RMS_NORM)
def _rms_norm_forth(tangents: Any, y: Any, params: tuple, x: Any, eps: Any, *weight: Any) -> Any:
    return None if tangents[1] is not None else _tangent(tangents, widened, x, eps, weight)


def _mean(x: Any) -> Any:
    return np.add.reduce(x, -1, None, None, True) / x.shape[-1]


def _centred(x: Any) -> Any:
    x = widened(x)
    return x - _mean(x)


@HOST.of(LAYER_NORM)
def _layer_norm(out: Aval, params: tuple, x: Any, eps: Any, *rest: Any) -> Any:
    weighted, biased = params
    y = _centred(x)
    y *= _inverse_root(y, eps)
    if weighted:
        y = _times(y, rest[0])
    if biased:
        y = y + widened(rest[-1].real)
    return narrowed(y, out)


@PULLBACK.of(LAYER_NORM)
def _layer_norm_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any, eps: Any, *rest: Any) -> Any:
    weighted, biased = params
    g = widened(g)
    cotangents = _cotangents(g, _centred(x), eps, needs_grad, rest[:1] if weighted else ())
    if biased:
        cotangents.append(g)
    if needs_grad[0]:
        cotangents[0] -= _mean(cotangents[0])
    return tuple(cotangents)


@PUSHFORWARD.of(LAYER_NORM)
def _layer_norm_forth(tangents: Any, y: Any, params: tuple, x: Any, eps: Any, *rest: Any) -> Any:
    if tangents[1] is not None:
        return None
    weighted, biased = params
    moved = _tangent(tangents, _centred, x, eps, rest[:1] if weighted else ())
    if biased and tangents[-1] is not None:
        moved = moved + widened(tangents[-1].real)
    return moved


@BATCH.of(RMS_NORM, LAYER_NORM)
def _batch_norm(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, eps, *scales = inputs
    if batched[1]:
        return None
    if not any(batched[2:]):
        return apply(op, inputs, params)
    # the op multiplies by the weights last; here, each batch element has its own weights
    weighted = params[0] if params else True
    dtype = x.aval.dtype
    for scale in scales if weighted else ():
        dtype = promote(dtype, scale.aval.dtype)
    out = apply(op, (cast_node(x, dtype), eps), (False, False) if params else ())
    ndim = x.aval.ndim - batched[0]
    for k, (scale, on) in enumerate(zip(scales, batched[2:], strict=True)):
        pair = aligned((out, cast_node(scale, dtype)), (batched[0], on), ndim)
        out = apply(TABLE["multiply" if weighted and k == 0 else "add"], pair)
    return out


def _classes(targets: Any, count: int) -> tuple[Any, Any, Any]:
    """Return the row numbers, the class of each row (counted from 0), and a mask of the classes out of range."""
    k = targets.astype(np.int64).reshape(-1)
    k += (k < 0) * count
    outside = (k < 0) | (k >= count)
    k[outside] = 0
    return np.arange(k.size), k, outside


def _powers(x: Any) -> tuple[Any, Any, Any]:
    """Return exp(x - shift) along the last axis, its sum, and the shift: the largest element, or 0 if that is not
    finite."""
    shift = np.maximum.reduce(x, -1, None, None, True)
    shift = np.where(np.isfinite(shift), shift, x.dtype.type(0))
    powers = np.subtract(x, shift)
    np.exp(powers, powers)
    return powers, np.add.reduce(powers, -1, None, None, True), shift


@HOST.of(CROSS_ENTROPY)
def _cross_entropy(out: Aval, params: tuple, logits: Any, targets: Any) -> Any:
    x = widened(logits)
    if not x.size:
        return np.full(out.shape, np.float32(np.nan))
    x = x.reshape(-1, x.shape[-1])
    rows, k, outside = _classes(targets, x.shape[-1])
    _, total, shift = _powers(x)
    loss = (np.log(total) + shift).reshape(-1) - x[rows, k]
    loss[outside] = np.nan
    return narrowed(loss, out).reshape(out.shape)


def _cross_entropy_slopes(logits: Any, targets: Any) -> Any:
    """Return the softmax minus one at the target: the derivative of the loss by the logits."""
    x = widened(logits)
    x = x.reshape(-1, x.shape[-1])
    rows, k, outside = _classes(targets, x.shape[-1])
    powers, total, _ = _powers(x)
    powers /= total
    powers[rows, k] -= ~outside
    return powers.reshape(logits.shape)


@PULLBACK.of(CROSS_ENTROPY)
def _cross_entropy_back(g: Any, y: Any, params: tuple, needs_grad: Any, logits: Any, targets: Any) -> Any:
    if not logits.size:
        return np.zeros(logits.shape, np.float32), None
    slopes = _cross_entropy_slopes(logits, targets)
    slopes *= g[..., None]
    return slopes, None


@PUSHFORWARD.of(CROSS_ENTROPY)
def _cross_entropy_forth(tangents: Any, y: Any, params: tuple, logits: Any, targets: Any) -> Any:
    if not logits.size:
        return np.zeros(y.shape, np.float32)
    return np.vecdot(_cross_entropy_slopes(logits, targets), widened(tangents[0]))


for _op in (RMS_NORM, LAYER_NORM, CROSS_ENTROPY):
    RESIDUALS[_op] = READS_INPUTS


@BATCH.of(CROSS_ENTROPY)
def _batch_cross_entropy(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    return apply(op, all_batched(inputs, batched, size), params)
