"""Long reductions, block by block: a block is widened, or numbered, on its own, and stays in the cache.

XLA makes a tree of a long reduction on a CPU, into which it does not fuse the cast before it: the sum of 128 MB of
bytes made a copy of half a gigabyte and took 15 times as long as this. NumPy casts in pieces, but slowly. To find where
an extreme is XLA writes down the place of each element, four bytes each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxcompat._graph import policy

from .sorting import is_long

__all__ = ["found_in_blocks", "places_in_blocks", "reduced_in_blocks", "summed"]


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def summed(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    """The sum over some axes, added up in a dtype that may be wider."""
    narrow = x.dtype.itemsize < np.dtype(dtype).itemsize and x.dtype != jnp.bfloat16  # which XLA does fuse
    if not narrow or not is_long(x.size, policy.LONG_SUM):
        return jnp.sum(x.astype(dtype), axis=axes, keepdims=keepdims, dtype=dtype)
    if keepdims:
        return lax.expand_dims(summed(x, axes, False, dtype), axes)
    if len(axes) == x.ndim:
        x, axes = x.reshape(-1), (0,)
    rows = max(1, policy.BLOCK_OF_SUM * x.shape[0] // x.size)
    count = x.shape[0] // rows
    blocks = x[: count * rows].reshape(count, rows, *x.shape[1:])
    rest = _plain(x[count * rows :], axes, dtype)
    if 0 in axes:
        total, _ = lax.scan(lambda t, b: (t + _plain(b, axes, dtype), None), rest, blocks)
        return total
    found = lax.map(lambda b: _plain(b, axes, dtype), blocks)
    return jnp.concatenate([found.reshape(count * rows, *found.shape[2:]), rest])


@summed.defjvp
def _summed_jvp(axes: tuple[int, ...], keepdims: bool, dtype: Any, primals: Any, tangents: Any) -> Any:
    tangent = jnp.sum(tangents[0].astype(dtype), axis=axes, keepdims=keepdims, dtype=dtype)
    return summed(primals[0], axes, keepdims, dtype), tangent


def _plain(x: Any, axes: tuple[int, ...], dtype: Any) -> Any:
    return jnp.sum(x.astype(dtype), axis=axes, dtype=dtype)


def reduced_in_blocks(ufunc: np.ufunc, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The reduction of half precision by a ufunc, in float32, with NumPy."""
    if x.size < policy.LONG_SUM:
        return ufunc.reduce(x.astype(np.float32), axes, None, None, keepdims)
    if len(axes) == x.ndim:
        shape = (1,) * x.ndim if keepdims else ()
        return reduced_in_blocks(ufunc, x.reshape(-1, 1), (0,), False).reshape(shape)
    rows = max(1, policy.BLOCK_OF_SUM * x.shape[0] // x.size)
    blocks = [x[k : k + rows] for k in range(0, x.shape[0], rows)]
    parts = [ufunc.reduce(b.astype(np.float32), axes, None, None, True) for b in blocks]
    joined = np.concatenate(parts)
    found = ufunc.reduce(joined, 0, None, None, True) if 0 in axes else joined
    return found if keepdims else found.squeeze(axes)


def found_in_blocks(
    search: Callable[[Any, int], Any], better: Callable[[Any, Any], Any], x: Any, axis: int
) -> Any:  # fmt: skip
    """Where along an axis the element is that `search` finds, with JAX: int32, without the axis.

    Args:
        search: the places in an array, along an axis.
        better: whether an element found later is to be preferred to one found before.
    """
    if x.size < 2 * policy.BLOCK_OF_SUM:
        return search(x, axis)
    n, rows = x.shape[0], max(1, policy.BLOCK_OF_SUM * x.shape[0] // x.size)
    starts = jnp.arange(n // rows, dtype=jnp.int32) * rows
    rest = x[n // rows * rows :]

    def block(start: Any) -> Any:
        return lax.dynamic_slice_in_dim(x, start, rows, 0)

    if axis:
        within = search if rows > 1 else partial(found_in_blocks, search, better)
        found = lax.map(lambda start: _by_row(within, block(start), axis), starts)
        found = found.reshape(len(starts) * rows, *found.shape[2:])
        return jnp.concatenate([found, search(rest, axis)]) if len(rest) else found

    def step(best: tuple[Any, Any], part: Any, start: Any) -> tuple[Any, Any]:
        place = search(part, 0)
        value = jnp.take_along_axis(part, place[None], 0)[0]
        wins = better(value, best[0])
        return jnp.where(wins, value, best[0]), jnp.where(wins, place + start, best[1])

    first = x[0], jnp.zeros(x.shape[1:], jnp.int32)
    best, _ = lax.scan(lambda best, start: (step(best, block(start), start), None), first, starts)
    return (step(best, rest, jnp.int32(n // rows * rows)) if len(rest) else best)[1]


def _by_row(search: Callable[[Any, int], Any], block: Any, axis: int) -> Any:
    return search(block, axis) if len(block) > 1 else search(block[0], axis - 1)[None]


def places_in_blocks(name: str, x: Any, axis: int) -> Any:
    """What `argmax` or `argmin` of NumPy finds along an axis of a large array, whose half precision is widened."""
    n, rows = x.shape[0], max(1, policy.BLOCK_OF_SUM * x.shape[0] // x.size)
    if x.size < 2 * policy.BLOCK_OF_SUM:
        return getattr(_wide(x), name)(axis)
    blocks = [x[k : k + rows] for k in range(0, n, rows)]
    if axis and rows == 1:
        return np.stack([places_in_blocks(name, b[0], axis - 1) for b in blocks])
    found = [np.asarray(getattr(_wide(b), name)(axis)) for b in blocks]
    if axis:
        return np.concatenate(found)
    values = np.stack([np.take_along_axis(b, f[None], 0)[0] for b, f in zip(blocks, found, strict=True)])
    best = getattr(_wide(values), name)(0)
    return best * rows + np.take_along_axis(np.stack(found), best[None], 0)[0]


def _wide(x: Any) -> Any:
    """Half precision as float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x
