"""Derivatives of ops that are defined by decomposition into other ops; for derivatives of higher order in NumPy (see
`symbolic_rules`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._graph.ir.aval import Dtype, float32, float64, int64
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.run.interpret import NoRule
from mxcompat._ops.creation.filled import full
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.arithmetic import clip, logaddexp, maximum, minimum, multiply, where
from mxcompat._ops.elementwise.unary import erf, erfinv
from mxcompat._ops.fast.attention import ATTENTION
from mxcompat._ops.fast.norms import CROSS_ENTROPY
from mxcompat._ops.indexing.gather import SLICE, take_along_axis
from mxcompat._ops.indexing.scatter import SLICE_UPDATE
from mxcompat._ops.linalg.norm import NORM, is_spectral
from mxcompat._ops.linalg.solve import CHOLESKY_INV, tri_inv
from mxcompat._ops.movement.joining import concatenate, section_bounds
from mxcompat._ops.reductions.softmax import softmax

from .gradients import Derivative, captured, inlined, inlined_forward, zeros
from .symbolic import Symbolic
from .symbolic_rules import FORWARD, RULES

__all__: list[str] = []

Body = Callable[..., Any]
"""`body(*inputs, **params)`: the result or results of an op, computed by other ops. Shapes and dtypes are fixed
afterwards."""


def _always(params: tuple) -> bool:
    return True


def _of(op: Op, holds: Callable[[tuple], bool] = _always) -> Callable[[Body], Body]:
    """Register a function as the decomposition of `op`, for params for which `holds` is true. For other params the op
    keeps its earlier rules."""
    plain, plain_forward = RULES.pop(op, None), FORWARD.pop(op, None)

    def register(body: Body) -> Body:
        @RULES.of(op)
        def pull(g: Any, y: Any, params: tuple, needs_grad: Sequence[bool], *inputs: Symbolic) -> Any:
            if not holds(params):
                return plain and plain(g, y, params, needs_grad, *inputs)
            traced = _decomposed(body, dict(zip(op.params, params, strict=True)), y, inputs)
            places = [k for k, on in enumerate(needs_grad) if on]
            cotangents = g if isinstance(y, tuple) else (g,)
            derivatives = iter(inlined(traced.program, traced.values, tuple(places), cotangents, inputs))
            return tuple([next(derivatives) if on else None for on in needs_grad])

        @FORWARD.of(op)
        def push(tangents: Sequence[Any], y: Any, params: tuple, *inputs: Symbolic) -> Any:
            if not holds(params):
                return plain_forward and plain_forward(tangents, y, params, *inputs)
            traced = _decomposed(body, dict(zip(op.params, params, strict=True)), y, inputs)
            derivatives = inlined_forward(traced.program, traced.values, tangents, inputs)
            if isinstance(y, tuple):
                return derivatives
            return zeros(y, y) if derivatives[0] is None else derivatives[0]

        return body

    return register


def _decomposed(body: Body, params: dict[str, Any], y: Any, inputs: Sequence[Symbolic]) -> Derivative:
    """Trace a decomposition for these inputs; its results get the shapes and dtypes of `y`."""

    def run(*symbols: Symbolic) -> list[Symbolic]:
        outs = body(*[wrap(x.node) for x in symbols], **params)
        pairs = zip(outs, y, strict=True) if isinstance(y, tuple) else [(outs, y)]
        return [Symbolic(out._node).astype(like.dtype).reshape(like.shape) for out, like in pairs]

    return captured(run, [x.node.aval for x in inputs])


@_of(TABLE["reciprocal"])
@_of(TABLE["update_reciprocal"])
def _reciprocal(x: array) -> array:
    return 1 / x


@_of(TABLE["split"])
def _split(x: array, sections: int | tuple[int, ...], axis: int) -> list[array]:
    before = (slice(None),) * (axis % x.ndim)
    return [x[(*before, slice(low, high))] for low, high in section_bounds(x.shape[axis], sections)]


@_of(TABLE["prod"])
def _prod(x: array, axes: tuple[int, ...], keepdims: bool) -> array:
    """Multiply halves together until one element is left. This needs no division, so zeros are no special case."""
    kept = [k for k in range(x.ndim) if k not in axes]
    x = x.transpose([*kept, *axes]).reshape([*[x.shape[k] for k in kept], -1])
    while (n := x.shape[-1]) > 1:
        half = n // 2
        x = concatenate([x[..., :half] * x[..., half : 2 * half], x[..., 2 * half :]], -1)
    return x


def _scan(step: Callable[[array, array], array], identity: float) -> Body:
    """Make the decomposition of a scan by doubling: each round doubles the number of elements combined in each
    place."""

    def body(x: array, axis: int | None, reverse: bool, inclusive: bool) -> array:
        line = x.reshape(-1) if axis is None else x.swapaxes(axis, -1)
        y = line[..., ::-1] if reverse else line
        reach = 1
        while reach < y.shape[-1]:
            y = concatenate([y[..., :reach], step(y[..., :-reach], y[..., reach:])], -1)
            reach *= 2
        if not inclusive:
            y = concatenate([full((*y.shape[:-1], 1), identity, y.dtype), y[..., :-1]], -1)
        y = y[..., ::-1] if reverse else y
        return y if axis is None else y.swapaxes(axis, -1)

    return body


_of(TABLE["cumprod"])(_scan(multiply, 1.0))
_of(TABLE["logcumsumexp"])(_scan(logaddexp, -math.inf))


@_of(NORM)
def _norm(x: array, order: float | str | None, axes: tuple[int, ...], keepdims: bool) -> array:
    if is_spectral(order, axes):
        raise NoRule("singular values")
    if order is None or (order == 2 and len(axes) == 1):
        squares = x.real.square() + x.imag.square() if x.dtype._kind == "c" else x.square()
        return squares.sum(axes).sqrt()
    size, power = x.abs(), float(order)
    if len(axes) == 2:
        along, across = (axes[1], axes[0]) if math.isinf(power) else axes
        sums = size.sum(along, keepdims=True)
        return sums.max(across) if power > 0 else sums.min(across)
    if math.isinf(power):
        return size.max(axes) if power > 0 else size.min(axes)
    if power in (0, 1):
        return (size if power else size != 0).sum(axes)
    return (size**power).sum(axes) ** (1 / power)


@_of(SLICE_UPDATE, lambda params: params[1] == "multiply")
def _multiplied(x: array, value: array, *inputs: array, plan: tuple, mode: str) -> array:
    nodes = tuple([i._node for i in inputs])
    product = wrap(apply(SLICE, (x._node, *nodes), (plan,))) * value.astype(x.dtype)
    return wrap(apply(SLICE_UPDATE, (x._node, product._node, *nodes), (plan, "set")))


@_of(CHOLESKY_INV)
def _cholesky_inv(a: array, upper: bool) -> array:
    inverse = tri_inv(a, upper)
    return inverse @ inverse.swapaxes(-1, -2) if upper else inverse.swapaxes(-1, -2) @ inverse


@_of(TABLE["random_truncated_normal"])
def _truncated_normal(key: array, lower: array, upper: array, shape: tuple[int, ...], dtype: Dtype) -> array:
    lower, upper = lower.astype(dtype), upper.astype(dtype)
    low, high = erf(lower / math.sqrt(2)), erf(upper / math.sqrt(2))
    z = erfinv(wrap(apply(TABLE["random_uniform"], (key._node, low._node, high._node), (shape, dtype)))) * math.sqrt(2)
    return maximum(minimum(z, upper), lower)


@_of(CROSS_ENTROPY)
def _cross_entropy(logits: array, targets: array) -> array:
    x, k, count = logits.astype(float32), targets.astype(int64), logits.shape[-1]
    k = where(k < 0, k + count, k)
    chosen = take_along_axis(x, clip(k, 0, count - 1)[..., None], -1).squeeze(-1)
    return x.logsumexp(-1) - where((k >= 0) & (k < count), chosen, math.nan)


@_of(ATTENTION)
def _attention(
    q: array, k: array, v: array, scale: array, *rest: array, causal: bool, masked: bool, sinks: bool, prefix: bool
) -> array:
    if prefix:
        raise NoRule("attention over the first entries of a buffer")
    wide = float64 if float64 in (q.dtype, k.dtype, v.dtype) else float32
    q, k, v = q.astype(wide) * scale.astype(wide), k.astype(wide), v.astype(wide)
    batch, heads, queries, _ = q.shape
    groups, keys = k.shape[1:3]
    least = float(np.finfo(np.float32 if wide is float32 else np.float64).min)

    def by_groups(x: array) -> array:
        return x.reshape(batch, groups, -1, x.shape[-1])

    scores = (by_groups(q) @ k.swapaxes(-1, -2)).reshape(batch, heads, queries, keys)
    if causal:
        scores = where(array(np.tri(queries, keys, keys - queries, bool)), scores, least)
    elif masked and rest[0].dtype._kind == "b":
        scores = where(rest[0], scores, least)
    elif masked:
        scores = scores + rest[0].astype(wide)
    if sinks:
        sink = full((batch, heads, queries, 1), rest[-1].astype(wide)[:, None, None])
        return by_groups(softmax(concatenate([scores, sink], -1), -1)[..., :-1]) @ v
    return by_groups(softmax(scores, -1)) @ v
