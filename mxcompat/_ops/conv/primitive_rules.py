"""Rules of convolutions, in NumPy and for batching.

Float32 is computed in C (`_native/convolve.c`). Without the C code, and for other dtypes, the input patches, a strided
view, are multiplied by the kernel as a matrix. If each output channel reads one input channel, the result is a sum of
shifted inputs instead. The derivatives use the same two methods in reverse. All computation is in float32 or wider and
is rounded once. `Plan` holds the values that depend only on shapes and parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, COST, HOST, PULLBACK, PUSHFORWARD, QUICK, READS_INPUTS, RESIDUALS
from mxcompat._graph.policy import BYTE_SECONDS, MOST_ENTRIES, OP_SECONDS, PIECE_BYTES
from mxcompat._native import native
from mxcompat._native.convolutions import Convolution

from ..cost import products_seconds
from ..define import TABLE
from ..products.contraction import bilinear, rounded, times, widened
from .primitive import CONV, Sizes

__all__: list[str] = []

Slices = tuple[slice, ...]


class Plan(NamedTuple):
    """The shapes and slices of a convolution, for known operand shapes.

    Args:
        cut: the part of the input that negative padding keeps.
        padded: the shape of the dilated and padded input.
        inside: the slices that select the input's elements from the padded input.
        out: the spatial sizes of the result.
        taps: for each kernel element, its index and the slices of the padded input that it multiplies.
        plain: whether the padded input is the input itself.
    """

    cut: Slices
    padded: Sizes
    inside: Slices
    out: Sizes
    taps: tuple[tuple[Sizes, Slices], ...]
    plain: bool


@lru_cache(MOST_ENTRIES)
def _plan(x: Sizes, w: Sizes, params: tuple) -> Plan:
    stride, low, high, dilation, spread, _, _ = params
    cut, sizes, inside, out = [slice(None)], [x[0]], [slice(None)], []
    for k, n in enumerate(x[1:-1]):
        start = min(max(-low[k], 0), n)
        left = max(n - max(-high[k], 0), start) - start
        cut.append(slice(start, start + left))
        length = max(0, spread[k] * (left - 1) + 1)
        before, behind = max(low[k], 0), max(high[k], 0)
        sizes.append(before + length + behind)
        inside.append(slice(before, before + length, spread[k]))
        out.append((sizes[-1] - dilation[k] * (w[1 + k] - 1) - 1) // stride[k] + 1)
    taps = []
    for tap in itertools.product(*map(range, w[1:-1])):
        steps = zip(tap, dilation, out, stride, strict=True)
        places = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in steps]
        taps.append((tap, (slice(None), *places)))
    padded = (*sizes, x[-1])
    # equal shapes do not suffice: one side may be padded by as much as the other is cut
    plain = padded == x and not any((*low, *high))
    return Plan(tuple(cut), padded, tuple(inside), tuple(out), tuple(taps), plain)


def _padded(x: Any, plan: Plan) -> Any:
    if plan.plain:
        return x
    whole = np.zeros(plan.padded, x.dtype)
    whole[plan.inside] = x[plan.cut]
    return whole


def _flipped(w: Any, flip: bool) -> Any:
    return w[(slice(None), *[slice(None, None, -1)] * (w.ndim - 2))] if flip else w


def _patches(x: Any, plan: Plan, kernel: Sizes, params: tuple) -> Any:
    """Return the input patches, a view of the padded input with shape `(N, *out, *kernel, C)`."""
    stride, dilation = params[0], params[3]
    steps = x.strides[1:-1]
    strides = (
        x.strides[0], *[s * d for s, d in zip(steps, stride, strict=True)],
        *[s * d for s, d in zip(steps, dilation, strict=True)], x.strides[-1],
    )  # fmt: skip
    shape = (x.shape[0], *plan.out, *kernel, x.shape[-1])
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _parts(x: Any, plan: Plan, taps: int) -> Iterator[slice]:
    each = math.prod(plan.out) * taps * x.shape[-1] * x.itemsize
    step = max(1, PIECE_BYTES // max(1, each))
    return (slice(k, k + step) for k in range(0, x.shape[0], step))


@lru_cache(MOST_ENTRIES)
def _numbers(x: Sizes, w: Sizes, params: tuple) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the numbers that describe a convolution to C, and those of the gradients of the input and the weights."""
    stride, low, _, dilation, spread, groups, flip = params
    outputs, steps = w[0] // groups, [math.prod(w[k + 1 :]) for k in range(len(w))]
    one, *taps, channel = steps
    start = sum((k - 1) * step for k, step in zip(w[1:-1], taps, strict=True)) if flip else 0
    taps = [-step for step in taps] if flip else taps
    # C code expects an input that is cut before it is dilated
    before = [n if n >= 0 else n * d for n, d in zip(low, spread, strict=True)]
    out = _plan(x, w, params).out
    forward = Convolution(
        x[0], groups, w[-1], outputs, x[1:-1], out, w[1:-1], stride, before, dilation, spread,
        (outputs * one, one, channel, *taps), start,
    )  # fmt: skip
    return forward.numbers(False), forward.for_inputs().numbers(False), forward.numbers(True)


def _is_for_c(*arrays: Any) -> bool:
    return native is not None and all(a.dtype == np.float32 and a.size for a in arrays)


def _in_c(shape: Sizes, x: Any, other: Any, numbers: np.ndarray) -> Any:
    out = np.empty(shape, np.float32)
    x, other = np.ascontiguousarray(x), np.ascontiguousarray(other)
    native.convolve(out, x, other, numbers)
    return out


def _convolved(x: Any, w: Any, params: tuple) -> Any:
    """Return the convolution of arrays with one dtype, which is not half precision."""
    plan = _plan(x.shape, w.shape, params)
    if _is_for_c(x, w):
        return _in_c((x.shape[0], *plan.out, w.shape[0]), x, w, _numbers(x.shape, w.shape, params)[0])
    x, w, groups = _padded(x, plan), _flipped(w, params[6]), params[5]
    shape = (x.shape[0], *plan.out, w.shape[0])
    if not (x.size and w.size and math.prod(shape)):
        return np.zeros(shape, x.dtype)
    if groups > 1 and w.shape[-1] == 1:
        return _one_channel(x, w, plan, groups).reshape(shape)
    kernel, taps = w.shape[1:-1], math.prod(w.shape[1:-1])
    columns = w.reshape(groups, w.shape[0] // groups, -1).swapaxes(-1, -2)
    out = np.empty((math.prod(shape[:-1]), groups, columns.shape[-1]), x.dtype)
    pixels = math.prod(plan.out)
    for part in _parts(x, plan, taps):
        rows = slice(part.start * pixels, part.stop * pixels)
        met = _patches(x[part], plan, kernel, params)
        if groups == 1:
            out[rows, 0] = times(met.reshape(-1, columns.shape[1]), columns[0])
        else:
            out[rows] = times(_grouped(met, len(plan.out), groups), columns).swapaxes(0, 1)
    return out.reshape(shape)


def _grouped(met: Any, spatial: int, groups: int) -> Any:
    """Return the patches split by groups: `(groups, pixels, taps * C / groups)`."""
    split = met.reshape(-1, math.prod(met.shape[1 + spatial : -1]), groups, met.shape[-1] // groups)
    return split.transpose(2, 0, 1, 3).reshape(groups, split.shape[0], -1)


def _one_channel(x: Any, w: Any, plan: Plan, groups: int) -> Any:
    """Return a convolution in which each output channel reads one input channel."""
    each = w.shape[0] // groups
    total: Any = 0
    for tap, places in plan.taps:
        weight = w[(slice(None), *tap, 0)]
        met = x[places]
        total = total + (met * weight if each == 1 else met[..., None] * weight.reshape(groups, each))
    return total


@HOST.of(CONV)
def _host_conv(out: Any, params: tuple, x: Any, w: Any) -> Any:
    dtype = out.dtype._numpy
    return rounded(_convolved(widened(x, dtype), widened(w, dtype), params), dtype)


@COST.of(CONV)
def _convolution_cost(out: Any, params: tuple, x: Any, w: Any, *others: Any) -> float:
    """Return the cost of a convolution. C reads the inputs where they are; NumPy copies them to patches first."""
    count = out.size * math.prod(w.shape[1:])
    copies = 0.0 if native is not None else BYTE_SECONDS * count
    return 10 * OP_SECONDS + products_seconds(count) + copies


if native is not None:  # NumPy's tier calls the same C functions as XLA, so XLA is not faster
    QUICK.add(CONV)


@PULLBACK.of(CONV)
def _pull_conv(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, w: Any) -> Any:
    x, w, g = widened(x, y.dtype), widened(w, y.dtype), widened(g, y.dtype)
    if not g.size or not w.size:
        return np.zeros(x.shape, x.dtype), np.zeros(w.shape, w.dtype)
    if _is_for_c(x, w, g):
        _, for_input, for_weights = _numbers(x.shape, w.shape, params)
        return (
            _in_c(x.shape, g, w, for_input) if needs_grad[0] else None,
            _in_c(w.shape, x, g, for_weights) if needs_grad[1] else None,
        )
    plan = _plan(x.shape, w.shape, params)
    gx = _pull_input(g, x, _flipped(w, params[6]), plan, params[5]) if needs_grad[0] else None
    gw = _flipped(_pull_weight(g, _padded(x, plan), w.shape, plan, params), params[6]) if needs_grad[1] else None
    return gx, gw


def _pull_input(g: Any, x: Any, w: Any, plan: Plan, groups: int) -> Any:
    """Return the cotangent of the input: each kernel element adds to the slice that it multiplied."""
    whole = np.zeros(plan.padded, g.dtype)
    lead = g.shape[:-1]
    by_group = g.reshape(*lead, groups, -1)
    for tap, places in plan.taps:
        weight = w[(slice(None), *tap)]
        if groups == 1:
            back = g.reshape(-1, g.shape[-1]).dot(weight).reshape(*lead, -1)
        elif w.shape[-1] == 1:
            back = (by_group * weight.reshape(groups, -1)).sum(-1)
        else:
            rows = by_group.reshape(-1, groups, by_group.shape[-1]).swapaxes(0, 1)
            back = np.matmul(rows, weight.reshape(groups, -1, w.shape[-1])).swapaxes(0, 1).reshape(*lead, -1)
        whole[places] += back
    if plan.plain:
        return whole
    gx = np.zeros(x.shape, g.dtype)
    gx[plan.cut] = whole[plan.inside]
    return gx


def _pull_weight(g: Any, x: Any, shape: Sizes, plan: Plan, params: tuple) -> Any:
    groups, kernel, taps = params[5], shape[1:-1], math.prod(shape[1:-1])
    if groups > 1 and shape[-1] == 1:
        gw = np.empty(shape, g.dtype)
        by_group = g.reshape(*g.shape[:-1], groups, -1)
        axes = tuple(range(g.ndim - 1))
        for tap, places in plan.taps:
            gw[(slice(None), *tap, 0)] = (by_group * x[places][..., None]).sum(axes).ravel()
        return gw
    total: Any = 0
    for part in _parts(x, plan, taps):
        met = _patches(x[part], plan, kernel, params)
        rows = g[part].reshape(-1, g.shape[-1])
        if groups == 1:
            total = total + rows.T.dot(met.reshape(len(rows), -1))
        else:
            by_group = rows.reshape(len(rows), groups, -1).transpose(1, 2, 0)
            total = total + np.matmul(by_group, _grouped(met, len(plan.out), groups))
    return total.reshape(shape)


@PUSHFORWARD.of(CONV)
def _push_conv(tangents: Any, y: Any, params: tuple, x: Any, w: Any) -> Any:
    return bilinear(lambda a, b: _convolved(a, b, params), tangents, y.dtype, x, w)


RESIDUALS[CONV] = READS_INPUTS


@BATCH.of(CONV)
def _batch_conv(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node | None:
    """Batch the inputs as one larger batch of inputs. A batched kernel is left to XLA."""
    x, w = inputs
    if batched[1]:
        return None
    images = x.aval.shape[1]
    x = apply(TABLE["reshape"], (x,), ((size * images, *x.aval.shape[2:]),))
    y = apply(op, (x, w), params)
    return apply(TABLE["reshape"], (y,), ((size, images, *y.aval.shape[1:]),))
