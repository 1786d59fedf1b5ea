"""Rules of the discrete draws. NumPy gives the same results as the lowerings from the same words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD

from .discrete import BERNOULLI, CATEGORICAL, CATEGORICAL_LINE, PERMUTE, PERMUTED, RANDINT
from .noise import between, cast, gumbel_noise, random_words, unit
from .rows import one_by_one, takes_several_keys

__all__: list[str] = []


@HOST.of(RANDINT)
def _randint(out: Aval, params: tuple, key: np.ndarray, low: Any, high: Any) -> np.ndarray:
    dtype = out.dtype
    x = converted_on_host(np.floor(between(key, low, high, out.shape, _float32._numpy)), dtype)
    last = high.astype(np.int32) - np.int32(1) if high.dtype == bool else high - np.ones((), high.dtype)
    return np.maximum(np.minimum(x, converted_on_host(last, dtype)), converted_on_host(low, dtype))


@HOST.of(BERNOULLI)
def _bernoulli(out: Aval, params: tuple, key: np.ndarray, p: Any) -> np.ndarray:
    if p.dtype.itemsize < 4:
        p = p.astype(np.float32)
    return unit(key, out.shape) < p


def _real_dtype(logits: Any) -> np.dtype:
    kind = promote(from_numpy(logits.dtype), _float32)  # type: ignore[arg-type]
    return kind._numpy if kind._kind == "f" else _float32._numpy


@HOST.of(CATEGORICAL)
def _categorical(out: Aval, params: tuple, key: np.ndarray, logits: Any) -> np.ndarray:
    axis, shape, samples = params
    axis = axis - len(shape) if axis >= 0 else axis
    shape = shape if key.ndim == 1 else (len(key), *shape)
    if samples:
        logits = logits[..., None]
    return np.argmax(cast(logits, _real_dtype(logits)) + gumbel_noise(key, shape), axis=axis).astype(np.uint32)


@HOST.of(CATEGORICAL_LINE)
def _categorical_line(out: Aval, params: tuple, key: np.ndarray, logits: Any) -> np.ndarray:
    line = cast(logits, _real_dtype(logits)).reshape(-1)
    most = np.max(line)
    weights = (line == most).astype(line.dtype) if np.isinf(most) else np.exp(line - most)
    bounds = np.cumsum(weights)
    places = np.searchsorted(bounds, unit(key, out.shape) * bounds[-1])
    if np.isnan(bounds[-1]):
        places = np.full(out.shape, line.size)
    return np.minimum(places, line.size - 1).astype(np.uint32)


def argsorted(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return random permutations along the last axis: the order that sorts random words; the index breaks ties."""
    both = random_words(key, shape).astype(np.uint64)
    np.left_shift(both, 32, both)
    np.add(both, np.arange(shape[-1], dtype=np.uint64), both)
    both.sort()
    return both.astype(np.uint32)


@HOST.of(PERMUTED)
def _permutation(out: Aval, params: tuple, key: np.ndarray) -> np.ndarray:
    return argsorted(key, out.shape)


takes_several_keys(RANDINT, BERNOULLI, CATEGORICAL, PERMUTED)


BATCH.of(RANDINT, BERNOULLI, CATEGORICAL, CATEGORICAL_LINE, PERMUTED)(one_by_one)


@HOST.of(PERMUTE)
def _permute(out: Aval, params: tuple, key: np.ndarray, x: Any) -> np.ndarray:
    (axis,) = params
    return np.take(x, argsorted(key, (x.shape[axis],)), axis=axis)


@PULLBACK.of(PERMUTE)
def _permute_pull(g: Any, y: Any, params: tuple, needs_grad: tuple, key: Any, x: Any) -> tuple:
    (axis,) = params
    return None, np.take(g, np.argsort(argsorted(key, (x.shape[axis],))), axis=axis)


@PUSHFORWARD.of(PERMUTE)
def _permute_push(tangents: Sequence[Any], y: Any, params: tuple, key: Any, x: Any) -> Any:
    (axis,) = params
    return np.take(tangents[1], argsorted(key, (x.shape[axis],)), axis=axis)


@BATCH.of(PERMUTE)
def _batch_permute(op: Op, params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> Node | None:
    if batched[0]:
        return one_by_one(op, params, inputs, batched, size)
    return apply(op, tuple(inputs), (params[0] + 1,))
