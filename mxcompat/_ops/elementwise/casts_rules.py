"""Rules of ops that keep the elements, or change only their dtype: casts, copies, bit casts, graph annotations,
arrays made from arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.construct import CAST, COPY
from mxcompat._array.nest import NEST
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.capture import ALIAS
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import (
    BATCH,
    HOST,
    INDEX_ERROR,
    PULLBACK,
    PUSHFORWARD,
    READS_NOTHING,
    RESIDUALS,
    TANGENT_DTYPE,
)

from ..batching import all_batched, batched_elementwise
from ..define import TABLE
from .casts import ASTYPE, STOP_GRADIENT
from .tangents import dtype_of_result

__all__: list[str] = []

_CONTIGUOUS, _VIEW = TABLE["contiguous"], TABLE["view"]
_DEPENDS = TABLE["depends"]


@HOST.of(ASTYPE, CAST)
def _cast(out: Aval, params: tuple, x: Any) -> Any:
    return converted_on_host(x, out.dtype)


@HOST.of(ALIAS, _CONTIGUOUS, STOP_GRADIENT)
def _same(out: Aval, params: tuple, x: Any) -> Any:
    return x


@HOST.of(COPY)
def _copy(out: Aval, params: tuple, x: Any) -> Any:
    return np.array(x)


@PULLBACK.of(ALIAS, ASTYPE, CAST, COPY, _CONTIGUOUS)
def _pull_on(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], x: Any) -> tuple:
    return (g,)


@PUSHFORWARD.of(ALIAS, ASTYPE, CAST, COPY, _CONTIGUOUS)
def _push_on(tangents: Sequence[Any], y: Any, params: tuple, x: Any) -> Any:
    return tangents[0]


@PULLBACK.of(STOP_GRADIENT)
def _pull_nothing(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], x: Any) -> tuple:
    return (None,)


@PUSHFORWARD.of(STOP_GRADIENT)
def _push_nothing(tangents: Sequence[Any], y: Any, params: tuple, x: Any) -> Any:
    return np.zeros((), y.dtype)


BATCH.of(ALIAS, ASTYPE, CAST, COPY, _CONTIGUOUS, STOP_GRADIENT, _VIEW)(batched_elementwise)
TANGENT_DTYPE.of(ASTYPE, NEST)(dtype_of_result)


@HOST.of(_VIEW)
def _view(out: Aval, params: tuple, x: Any) -> Any:
    dtype = out.dtype
    numpy = np.dtype(np.uint8) if dtype._kind == "b" else dtype._numpy
    if x.dtype.itemsize != numpy.itemsize:
        x = np.ascontiguousarray(x)
    x = x.view(numpy)
    return x != 0 if dtype._kind == "b" else x


@INDEX_ERROR.of(_VIEW)
def _no_derivative(transform: str, params: tuple, *_: Any) -> Exception:
    return ValueError(f"[Primitive::{transform.lower()}] Not implemented for View {params[0]._label}.")


@HOST.of(_DEPENDS)
def _depends(out: Any, params: tuple, *inputs: Any) -> tuple:
    return inputs[: params[0]]


@PULLBACK.of(_DEPENDS)
def _pull_depends(g: tuple, y: Any, params: tuple, needs_grad: tuple[bool, ...], *inputs: Any) -> tuple:
    return (*g, *[None] * (len(inputs) - len(g)))


@PUSHFORWARD.of(_DEPENDS)
def _push_depends(tangents: Sequence[Any], y: Any, params: tuple, *inputs: Any) -> Any:
    return tangents[: params[0]]


@BATCH.of(_DEPENDS)
def _depends_batched(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node:
    (count,) = params
    return apply(op, (*all_batched(inputs[:count], batched[:count], size), *inputs[count:]), params)


@HOST.of(NEST)
def _nest(out: Aval, params: tuple, *parts: Any) -> Any:
    dtype = out.dtype
    return np.concatenate([converted_on_host(p, dtype).ravel() for p in parts]).reshape(out.shape)


@PULLBACK.of(NEST)
def _pull_nest(g: Any, y: Any, params: tuple, needs_grad: tuple[bool, ...], *parts: Any) -> tuple:
    flat = g.ravel()
    ends = accumulate([p.size for p in parts])
    return tuple([flat[end - p.size : end].reshape(p.shape) for p, end in zip(parts, ends, strict=True)])


@PUSHFORWARD.of(NEST)
def _push_nest(tangents: Sequence[Any], y: Any, params: tuple, *parts: Any) -> Any:
    rows = [
        np.zeros(p.size, y.dtype) if t is None else _real_or_complex(t, y.dtype).ravel()
        for t, p in zip(tangents, parts, strict=True)
    ]
    return np.concatenate(rows).reshape(y.shape)


def _real_or_complex(t: Any, dtype: np.dtype) -> Any:
    return (t.real if t.dtype.kind == "c" != dtype.kind else t).astype(dtype)


@BATCH.of(NEST)
def _nest_batched(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node:
    shape, dtype = params
    rows: list[Any] = []
    for node in all_batched(inputs, batched, size):
        if node.aval.dtype is not dtype:
            node = apply(CAST, (node,), (dtype,))
        rows.append(apply(TABLE["reshape"], (node,), ((size, math.prod(node.aval.shape[1:])),)))
    joined = apply(TABLE["concatenate"], tuple(rows), (1,))
    return apply(TABLE["reshape"], (joined,), ((size, *shape),))


for _op in (ALIAS, ASTYPE, CAST, COPY, _CONTIGUOUS, STOP_GRADIENT, _DEPENDS, NEST):
    RESIDUALS[_op] = READS_NOTHING
