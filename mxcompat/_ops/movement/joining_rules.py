"""Rules of concatenate, stack, split, unstack, repeat and tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK

from ..batching import all_batched, inner, later, reshaped
from ..define import TABLE
from ..indexing.rows import wide
from .joining import section_bounds, tiled_shapes
from .linear import register_linear

__all__: list[str] = []

_ALL = slice(None)


@HOST.of(TABLE["concatenate"])
def _concatenate(out: Aval, params: tuple, *xs: Any) -> np.ndarray:
    want, numpy = out.dtype, out.dtype._numpy
    return np.concatenate([x if x.dtype is numpy else converted_on_host(x, want) for x in xs], params[0])


register_linear(TABLE["concatenate"])


@PULLBACK.of(TABLE["concatenate"])
def _concatenate_back(g: Any, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    axis = params[0] % g.ndim
    before = (slice(None),) * axis
    cotangents = []
    end = 0
    for x in xs:
        start, end = end, end + x.shape[axis]
        cotangents.append(g[(*before, slice(start, end))])
    return tuple(cotangents)


@HOST.of(TABLE["stack"])
def _stack(out: Aval, params: tuple, *xs: Any) -> np.ndarray:
    want = out.dtype
    axis = params[0] % out.ndim
    index = (*(_ALL,) * axis, None)
    return np.concatenate([converted_on_host(x, want)[index] for x in xs], axis)


register_linear(TABLE["stack"])


@PULLBACK.of(TABLE["stack"])
def _stack_back(g: Any, y: Any, params: tuple, needs_grad: tuple, *xs: Any) -> tuple:
    before = (slice(None),) * (params[0] % g.ndim)
    return tuple([g[(*before, k, ...)] for k in range(len(xs))])


@BATCH.of(TABLE["concatenate"], TABLE["stack"])
def _join_batched(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    return apply(op, all_batched(inputs, batched, size), (later(*params),))


@HOST.of(TABLE["split"])
def _split(out: Any, params: tuple, x: Any) -> tuple[np.ndarray, ...]:
    sections, axis = params
    before = (_ALL,) * (axis % x.ndim)
    return tuple([x[(*before, slice(low, high))] for low, high in section_bounds(x.shape[axis], sections)])


register_linear(TABLE["split"])


@PULLBACK.of(TABLE["split"])
def _split_back(g: tuple, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    sections, axis = params
    before = (slice(None),) * (axis % x.ndim)
    total = np.zeros(x.shape, x.dtype)
    for one, (low, high) in zip(g, section_bounds(x.shape[axis], sections), strict=True):
        if one is not None:
            total[(*before, slice(low, high))] += one
    return (total,)


@BATCH.of(TABLE["split"])
def _split_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    sections, axis = params
    return apply(op, inputs, (sections, later(axis)))


@HOST.of(TABLE["unstack"])
def _unstack(out: Any, params: tuple, x: Any) -> tuple[np.ndarray, ...]:
    (axis,) = params
    before = (_ALL,) * (axis % x.ndim)
    return tuple([x[(*before, k, ...)] for k in range(x.shape[axis])])


register_linear(TABLE["unstack"])


@PULLBACK.of(TABLE["unstack"])
def _unstack_back(g: tuple, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    before = (slice(None),) * (params[0] % x.ndim)
    total = np.zeros(x.shape, x.dtype)
    for k, one in enumerate(g):
        if one is not None:
            total[(*before, k)] = one
    return (total,)


@BATCH.of(TABLE["unstack"])
def _unstack_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    return apply(op, inputs, (later(*params),))


@HOST.of(TABLE["repeat"])
def _repeat(out: Aval, params: tuple, x: Any) -> np.ndarray:
    return x.repeat(*params)


register_linear(TABLE["repeat"])


@PULLBACK.of(TABLE["repeat"])
def _repeat_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    repeats, axis = params
    if axis is None:
        return (wide(g).reshape(x.size, repeats).sum(-1).reshape(x.shape),)
    k = axis % x.ndim + 1
    return (wide(g).reshape(*x.shape[:k], repeats, *x.shape[k:]).sum(k),)


@BATCH.of(TABLE["repeat"])
def _repeat_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    repeats, axis = params
    if axis is None:
        return apply(op, (reshaped(inputs[0], size, inner(inputs[0]).size),), (repeats, 1))
    return apply(op, inputs, (repeats, later(axis)))


@HOST.of(TABLE["tile"])
def _tile(out: Aval, params: tuple, x: Any) -> np.ndarray:
    shape, counts = tiled_shapes(x.shape, *params)
    result = np.empty([p for n, r in zip(shape, counts, strict=True) for p in (r, n)], x.dtype)
    result[...] = x.reshape([p for n in shape for p in (1, n)])
    return result.reshape(out.shape)


register_linear(TABLE["tile"])


@PULLBACK.of(TABLE["tile"])
def _tile_back(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> tuple:
    shape, counts = tiled_shapes(x.shape, *params)
    pairs = [p for n, r in zip(shape, counts, strict=True) for p in (r, n)]
    return (wide(g).reshape(pairs).sum(tuple(range(0, len(pairs), 2))).reshape(x.shape),)


@BATCH.of(TABLE["tile"])
def _tile_batched(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape, counts = tiled_shapes(inputs[0].aval.shape[1:], *params)
    return apply(op, (reshaped(inputs[0], size, *shape),), ((1, *counts),))
