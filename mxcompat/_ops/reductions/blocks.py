"""Long sums of narrow elements, block by block: each block is widened on its own, and stays in the cache.

XLA makes a tree of a long reduction on a CPU, into which it does not fuse the cast before it: the sum of 128 MB of
bytes made a copy of half a gigabyte and took 15 times as long as this. NumPy casts in pieces, but slowly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import is_known

__all__ = ["reduced_in_blocks", "summed"]


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def summed(x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    """The sum over some axes, added up in a dtype that may be wider."""
    narrow = x.dtype.itemsize < np.dtype(dtype).itemsize and x.dtype != jnp.bfloat16  # which XLA does fuse
    if not narrow or not is_known(x.shape) or x.size < policy.LONG_SUM or jax.default_backend() != "cpu":
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
