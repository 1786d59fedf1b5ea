"""Rules of `norm` and `cross`: NumPy, derivatives, batching and failures."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, LAPACK, PULLBACK, PUSHFORWARD
from mxcompat._graph.run.short_rows import reduced
from mxcompat._graph.run.values import in_order
from mxcompat._jax import jnp

from ..batching import aligned
from ..define import as_float
from ..products.contraction import bilinear, rounded, widened
from .failures import SVD_FAILED, fails, holds_nan
from .norm import CROSS, NORM, is_spectral

__all__: list[str] = []


def induced(x: Any, order: float, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the sums of absolute values along one axis, and their maximum or minimum along the other; axes are
    kept."""
    along, across = (axes[1], axes[0]) if np.isinf(order) else axes
    sums = x.sum(along, keepdims=True)
    return sums, (sums.max if order > 0 else sums.min)(across, keepdims=True)


def _vector_norm(x: Any, order: float, axis: int, keepdims: bool) -> Any:
    if np.isinf(order):
        return (x.max if order > 0 else x.min)(axis, keepdims=keepdims)
    if order == 0:
        return (x != 0).sum(axis, keepdims=keepdims)
    if order == 1:
        return x.sum(axis, keepdims=keepdims)
    return (x ** x.dtype.type(order)).sum(axis, keepdims=keepdims) ** x.dtype.type(1 / order)


@HOST.of(NORM)
def _host_norm(out: Any, params: tuple, a: Any) -> Any:
    order, axes, keepdims = params
    x = in_order(widened(a, as_float(from_numpy(a.dtype))._numpy))  # type: ignore[arg-type]
    if is_spectral(order, axes):
        if not x.size or not np.isfinite(x).all():
            return None
        s = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False)
        norm = s.sum(-1) if order == "nuc" else s.max(-1) if order == 2 else s.min(-1)
        norm = np.expand_dims(norm, axes) if keepdims else norm
    elif order is None or (order == 2 and len(axes) == 1):
        squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
        norm = np.sqrt(reduced(np.add, squares, axes, keepdims))
    elif len(axes) == 2:
        norm = induced(np.abs(x), order, axes)[1]
        norm = norm if keepdims else norm.squeeze(axes)
    else:
        norm = _vector_norm(np.abs(x), order, axes[0], keepdims)
    return norm.astype(out.dtype._numpy, copy=False)


def _norm_slopes(y: Any, params: tuple, a: Any, choose: Any) -> Any:
    """Return the derivative of a norm with respect to each element; None if XLA is to compute it.

    Args:
        y: the norm, with its axes kept.
        choose: the function that gives the shares of elements that equal a maximum or minimum.
    """
    order, axes, _ = params
    plain = order is None or (order == 2 and len(axes) == 1)
    if is_spectral(order, axes) or (a.dtype.kind == "c" and not plain):
        return None
    x = widened(a, a.dtype)
    if plain:
        return (x.conj() if x.dtype.kind == "c" else x) / y
    size, order = np.abs(x), float(params[0])
    if len(axes) == 2:
        sums, norm = induced(size, order, axes)
        return choose(sums == norm, axes) * np.sign(x)
    if np.isinf(order):
        return choose(size == y, axes) * np.sign(x)
    if order in (0, 1):
        return np.sign(x) if order else np.zeros_like(x)
    power = x.dtype.type(order - 1)
    return y**-power * size**power * np.sign(x)


def _with_axes(y: Any, params: tuple) -> Any:
    """Return a result of `norm` with its axes kept."""
    y = widened(y, y.dtype)
    return y if params[2] else np.expand_dims(y, params[1])


def _shares(chosen: Any, axes: tuple[int, ...]) -> Any:
    """Return weights that are equal for all chosen elements along the axes, and 0 for the others."""
    return chosen / np.float32(1) / chosen.sum(axes, np.float32, keepdims=True)


@PULLBACK.of(NORM)
def _pull_norm(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any) -> Any:
    slopes = _norm_slopes(_with_axes(y, params), params, a, _shares)
    return None if slopes is None else (_with_axes(g, params) * slopes,)


def _first(chosen: Any, axes: tuple[int, ...]) -> Any:
    """Return weights of 1 for the first chosen element along each axis, and 0 for the others."""
    for axis in axes:
        chosen = chosen & (np.add.accumulate(chosen, axis, np.int32) == 1)
    return chosen


@PUSHFORWARD.of(NORM)
def _push_norm(tangents: Any, y: Any, params: tuple, a: Any) -> Any:
    slopes = _norm_slopes(_with_axes(y, params), params, a, _first)
    return None if slopes is None else (slopes * tangents[0]).real.sum(params[1]).reshape(y.shape)


@BATCH.of(NORM)
def _batch_norm(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    order, axes, keepdims = params
    return apply(op, inputs, (order, tuple([axis + 1 for axis in axes]), keepdims))


fails(
    NORM, SVD_FAILED, lambda params, a: holds_nan(jnp.moveaxis(a, params[1], (-2, -1))),
    when=lambda params: is_spectral(*params[:2]),
)  # fmt: skip


LAPACK.add(NORM)


def cross(a: Any, b: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Return the cross product of two arrays of one dtype along an axis of size 2 or 3. A missing component is 0. The
    result has 3 components, and is broadcast to `shape`."""

    def rows(x: Any) -> list[Any]:
        x = np.moveaxis(x, axis, 0)
        zero = np.zeros(x.shape[1:], x.dtype)
        return [x[k] if k < len(x) else zero for k in range(3)]

    (a0, a1, a2), (b0, b1, b2) = rows(a), rows(b)
    minus = np.logical_xor if a.dtype == bool else np.subtract
    parts = [minus(a1 * b2, a2 * b1), minus(a2 * b0, a0 * b2), minus(a0 * b1, a1 * b0)]
    product = np.stack(parts, axis)
    return product if product.shape == shape else np.broadcast_to(product, shape)


@HOST.of(CROSS)
def _host_cross(out: Any, params: tuple, a: Any, b: Any) -> Any:
    (axis,) = params
    if a.ndim != b.ndim and axis >= 0:
        return None
    dtype = out.dtype._numpy
    if out.dtype._kind in "fc":
        return rounded(cross(widened(a, dtype), widened(b, dtype), axis, out.shape), dtype)
    return cross(converted_on_host(a, out.dtype), converted_on_host(b, out.dtype), axis, out.shape)


def _components(g: Any, x: Any, axis: int) -> Any:
    """Return the leading components of `g`: as many as x has."""
    return g if x.shape[axis] == 3 else np.moveaxis(np.moveaxis(g, axis, 0)[:2], 0, axis)


@PULLBACK.of(CROSS)
def _pull_cross(g: Any, y: Any, params: tuple, needs_grad: tuple, a: Any, b: Any) -> Any:
    (axis,) = params
    if a.ndim != b.ndim and axis >= 0:
        return None
    g, left, right = widened(g, y.dtype), widened(a, y.dtype), widened(b, y.dtype)
    ga = _components(cross(right, g, axis, y.shape), a, axis) if needs_grad[0] else None
    gb = _components(cross(g, left, axis, y.shape), b, axis) if needs_grad[1] else None
    return ga, gb


@PUSHFORWARD.of(CROSS)
def _push_cross(tangents: Any, y: Any, params: tuple, a: Any, b: Any) -> Any:
    (axis,) = params
    if a.ndim != b.ndim and axis >= 0:
        return None
    return bilinear(lambda a, b: cross(a, b, axis, y.shape), tangents, y.dtype, a, b)


@BATCH.of(CROSS)
def _batch_cross(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    (axis,) = params
    left, right = [n.aval.ndim - on for n, on in zip(inputs, batched, strict=True)]
    if axis >= 0:
        if left != right:
            return None
        axis -= left
    return apply(op, aligned(inputs, batched, max(left, right)), (axis,))
