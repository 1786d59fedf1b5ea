"""Long reductions, block by block: each block is cast or searched on its own, and stays in the cache.

On a CPU, XLA turns a long reduction into a tree, and does not fuse the cast before it into the tree. The sum of 128 MB
of bytes made a copy of half a gigabyte and took 15 times as long as this module. NumPy casts in pieces, but slowly. To
find the index of a maximum or minimum, XLA writes the index of every element, four bytes each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import is_known
from mxcompat._graph.run.short_rows import reduced
from mxcompat._graph.run.values import in_order
from mxcompat._jax import jax, jnp, lax, lazy

from .others import products_of_others
from .sorting import is_long

__all__ = ["folded", "folded_on_host", "found_in_blocks", "places_in_blocks", "reduced_wide", "widened"]

_FLOAT32 = np.dtype(np.float32)


def widened(x: Any) -> Any:
    """Return half precision as float32, and other dtypes unchanged."""
    dtype = x.dtype
    return x.astype(_FLOAT32) if dtype.itemsize == 2 and dtype.kind in "fV" else x


@cache
def _reductions() -> dict[Any, Callable[..., Any]]:
    """Return the reduction function for each JAX ufunc.

    A ufunc's own reduction is a separate function call, which hides it from the pass that rounds products.
    """
    return {
        jnp.add: lax.reduce_sum, jnp.multiply: lax.reduce_prod,
        jnp.logical_and: lax.reduce_and, jnp.logical_or: lax.reduce_or,
    }  # fmt: skip


def folded(ufunc: Any, term: Callable[..., Any], x: Any, kept: Sequence[Any], axes: tuple[int, ...]) -> Any:
    """Return the reduction of `term(x, *kept)` by a JAX ufunc over some axes, which stay with size 1, as in `kept`.

    For a long array, `term` gets one block of `x` at a time. This function has no derivative of its own.
    """

    def fold(block: Any, kept: Sequence[Any]) -> Any:
        return lax.expand_dims(_reductions()[ufunc](term(block, *kept), axes), axes)

    if not axes or not is_long(x.size, policy.HUGE_ELEMENTS):
        return fold(x, kept)
    along, rows = _blocks(x.shape, policy.BLOCK_ELEMENTS)
    count, left = divmod(x.shape[along], rows)

    def part(start: Any, rows: int = rows) -> Any:
        # The barrier ties x to this step; otherwise XLA widens a whole bfloat16 array before the loop.
        here, start = lax.optimization_barrier((x, start)) if x.dtype == jnp.bfloat16 else (x, start)

        def cut(a: Any) -> Any:
            return a if a.shape[along] == 1 else lax.dynamic_slice_in_dim(a, start, rows, along)

        return fold(cut(here), [cut(a) for a in kept])

    starts = jnp.arange(count, dtype=jnp.int32) * rows
    rest = [part(count * rows, left)] if left else []
    if along in axes:
        total, _ = lax.scan(lambda total, start: (ufunc(total, part(start)), None), part(0), starts[1:])
        return ufunc(total, rest[0]) if rest else total
    blocks = jnp.moveaxis(lax.map(part, starts), 0, along)
    shape = list(blocks.shape)
    shape[along : along + 2] = [count * rows]
    return jnp.concatenate([blocks.reshape(shape), *rest], along)


@partial(lazy.custom_jvp, nondiff_argnums=(0, 2, 3, 4))
def reduced_wide(ufunc: Any, x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    """Return the reduction of an array by a JAX ufunc, computed in a dtype that may be wider."""
    if x.dtype.itemsize >= np.dtype(dtype).itemsize:
        return _plain(ufunc, x, axes, keepdims, dtype)
    of_bytes = ufunc is jnp.add and axes and x.dtype.itemsize == 1
    term = partial(_summed_in_16_bits, axes[0], dtype) if of_bytes else lambda block: block.astype(dtype)
    kept_dims = folded(ufunc, term, x, (), axes)
    return kept_dims if keepdims else lax.squeeze(kept_dims, axes)


def _summed_in_16_bits(axis: int, dtype: Any, block: Any) -> Any:
    """Return partial sums of a block of bytes, in `dtype`. Along the axis, as many elements are summed as 16 bits can
    hold."""
    count = math.gcd(block.shape[axis], policy.STAGE)
    shape = list(block.shape)
    shape[axis : axis + 1] = [count, shape[axis] // count]
    narrow = jnp.int16 if block.dtype == jnp.int8 else jnp.uint16
    return lax.reduce_sum(block.reshape(shape).astype(narrow), (axis,)).astype(dtype)


@reduced_wide.defjvp
def _reduced_wide_jvp(ufunc: Any, axes: Any, keepdims: bool, dtype: Any, primals: Any, tangents: Any) -> Any:
    if ufunc is jnp.add:
        tangent = _plain(ufunc, tangents[0], axes, keepdims, dtype)
    elif ufunc is jnp.multiply and is_known(primals[0].shape):
        x, t = primals[0].astype(dtype), tangents[0].astype(dtype)
        tangent = _plain(jnp.add, products_of_others(jnp, x, axes) * t, axes, keepdims, dtype)
    else:
        _, tangent = jax.jvp(lambda x: _plain(ufunc, x, axes, keepdims, dtype), primals, tangents)
    return reduced_wide(ufunc, *primals, axes, keepdims, dtype), tangent


def _plain(ufunc: Any, x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    reduction = _reductions()[ufunc](x.astype(dtype), axes)
    return lax.expand_dims(reduction, axes) if keepdims else reduction


def folded_on_host(
    ufunc: np.ufunc, term: Callable[..., Any], x: Any, kept: Sequence[Any], axes: tuple[int, ...],
    size: int | None = None,
) -> Any:  # fmt: skip
    """Return the same as `folded`, with NumPy. A block has about `size` elements."""

    def fold(block: Any, kept: Sequence[Any]) -> Any:
        return reduced(ufunc, term(block, *kept), axes, True)

    if not axes or x.size < policy.HUGE_ELEMENTS:
        return fold(in_order(x), kept)
    along, rows = _blocks(x.shape, size or policy.BLOCK_ELEMENTS)
    every = [(slice(None),) * along + (slice(k, k + rows),) for k in range(0, x.shape[along], rows)]
    parts = [fold(x[cut], [a if a.shape[along] == 1 else a[cut] for a in kept]) for cut in every]
    joined = np.concatenate(parts, along)
    return ufunc.reduce(joined, along, joined.dtype, None, True) if along in axes else joined


def _blocks(shape: tuple[int, ...], size: int) -> tuple[int, int]:
    """Return the axis along which an array of this shape is cut into blocks, and the size of a block along it."""
    along = next(k for k in range(len(shape)) if math.prod(shape[k + 1 :]) <= size)
    return along, max(1, size * shape[along] // math.prod(shape))


def found_in_blocks(
    search: Callable[[Any, int], Any], better: Callable[[Any, Any], Any], x: Any, axis: int
) -> Any:  # fmt: skip
    """Return the index, along an axis, of the element that `search` finds, with JAX: int32, without the axis.

    Args:
        search: the function that returns the indices in an array, along an axis.
        better: whether an element found later replaces one found before.
    """
    if x.size < 2 * policy.BLOCK_ELEMENTS:
        return search(x, axis)
    n, rows = x.shape[0], max(1, policy.BLOCK_ELEMENTS * x.shape[0] // x.size)
    starts = jnp.arange(n // rows, dtype=jnp.int32) * rows
    rest = x[n // rows * rows :]

    def block(start: Any) -> Any:
        return lax.dynamic_slice_in_dim(x, start, rows, 0)

    if axis:
        within = search if rows > 1 else partial(found_in_blocks, search, better)
        indices = lax.map(lambda start: _by_row(within, block(start), axis), starts)
        indices = indices.reshape(len(starts) * rows, *indices.shape[2:])
        return jnp.concatenate([indices, search(rest, axis)]) if len(rest) else indices

    def step(best: tuple[Any, Any], part: Any, start: Any) -> tuple[Any, Any]:
        index = search(part, 0)
        value = jnp.take_along_axis(part, index[None], 0)[0]
        wins = better(value, best[0])
        return jnp.where(wins, value, best[0]), jnp.where(wins, index + start, best[1])

    first = x[0], jnp.zeros(x.shape[1:], jnp.int32)
    best, _ = lax.scan(lambda best, start: (step(best, block(start), start), None), first, starts)
    return (step(best, rest, jnp.int32(n // rows * rows)) if len(rest) else best)[1]


def _by_row(search: Callable[[Any, int], Any], block: Any, axis: int) -> Any:
    return search(block, axis) if len(block) > 1 else search(block[0], axis - 1)[None]


def places_in_blocks(name: str, x: Any, axis: int) -> Any:
    """Return the result of NumPy's `argmax` or `argmin` along an axis of a large array. Half precision is widened."""
    n, rows = x.shape[0], max(1, policy.BLOCK_ELEMENTS * x.shape[0] // x.size)
    if x.size < 2 * policy.BLOCK_ELEMENTS:
        return getattr(widened(x), name)(axis)
    blocks = [x[k : k + rows] for k in range(0, n, rows)]
    if axis and rows == 1:
        return np.stack([places_in_blocks(name, b[0], axis - 1) for b in blocks])
    block_indices = [np.asarray(getattr(widened(b), name)(axis)) for b in blocks]
    if axis:
        return np.concatenate(block_indices)
    values = np.stack([np.take_along_axis(b, f[None], 0)[0] for b, f in zip(blocks, block_indices, strict=True)])
    best = getattr(widened(values), name)(0)
    return best * rows + np.take_along_axis(np.stack(block_indices), best[None], 0)[0]
