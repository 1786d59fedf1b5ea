"""Scaled dot product attention of `mx.fast`: grouped heads, masks and sinks, with the softmax in float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy, is_known
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import flag, require_array
from ..define import broadcast, op
from ..padding.padded import pad_contraction
from .few_queries import are_few, few_queries
from .norms import number

__all__ = ["ATTENTION", "rows_at_a_time", "scaled_dot_product_attention"]

_NAME = "scaled_dot_product_attention"


def _dtype(*avals: Any) -> Dtype:
    q, k, v = avals
    return promote(promote(q.dtype, k.dtype), v.dtype)


def _attention(
    q: Any, k: Any, v: Any, scale: Any, *rest: Any, causal: bool, masked: bool, sinks: bool, prefix: bool
) -> Any:
    avals = [aval(x.shape, from_numpy(x.dtype)) for x in (q, k, v)]  # type: ignore[arg-type]
    q, k, v = (jnp.asarray(x, _dtype(*avals)._numpy) for x in (q, k, v))
    call = _of_few_queries().bind if are_few(q, k, v) else _with_jax
    return call(q, k, v, scale, *rest, causal=causal, masked=masked, sinks=sinks, prefix=prefix)


@cache
def _of_few_queries() -> Any:
    return few_queries(_with_jax)


def _with_jax(
    q: Any, k: Any, v: Any, scale: Any, *rest: Any, causal: bool, masked: bool, sinks: bool, prefix: bool
) -> Any:
    want = q.dtype
    wide = jnp.float64 if want == jnp.float64 else jnp.float32
    batch, heads, queries, width = q.shape
    groups, keys = k.shape[1], k.shape[2]
    if not keys or not q.size:
        return jnp.zeros((*q.shape[:-1], v.shape[-1]), want)
    shared = heads // groups
    if shared > 1:  # the heads that share keys get a separate axis
        q = q.reshape(batch, groups, shared, queries, width)
    length = rest[masked] if prefix else keys
    if prefix:
        # entries after `length` may be NaN and must not count
        v = jnp.where(jax.lax.broadcasted_iota(jnp.int32, (keys, 1), 0) < length, v, 0)
    sink = jnp.asarray(rest[-1], wide).reshape(*q.shape[1:-2], 1, 1) if sinks else None

    def attend(first: Any, q: Any, mask: Any) -> Any:
        """Return the attention of some rows of queries; `first` is the position of the first one."""
        up, down = ("bngqd,bnkd->bngqk", "bngqk,bnkd->bngqd") if shared > 1 else ("bnqd,bnkd->bnqk", "bnqk,bnkd->bnqd")
        product = {"precision": jax.lax.Precision.HIGHEST, "preferred_element_type": wide}
        scores = jnp.einsum(up, q, k, **product) * scale.astype(wide)
        rows = (q.shape[-2], keys)
        column = jax.lax.broadcasted_iota(jnp.int32, rows, 1)
        if causal:
            row = jax.lax.broadcasted_iota(jnp.int32, rows, 0) + (length - queries + first)
            scores = jnp.where(row >= column, scores, _least(wide))
        if mask is not None and mask.dtype == jnp.bool_:
            scores = jnp.where(mask, scores, _least(wide))
        elif mask is not None:
            scores = scores + mask.astype(wide)
        if prefix:
            scores = jnp.where(column < length, scores, -jnp.inf)
        top = scores.max(-1, keepdims=True)
        if sink is not None:
            top = jnp.maximum(top, sink)
        top = jax.lax.stop_gradient(top)
        weights = jnp.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        if sink is not None:
            total = total + jnp.exp(sink - top)
        # Divide the result, which is smaller than the weights. The gradient, too, then passes over them less often: it
        # took 67 ms of processor time for 4x12 heads of 197 by 197, and takes 33.
        return (jnp.einsum(down, weights.astype(want), v, **product) / total).astype(want)

    mask = _grouped(rest[0], groups, shared) if masked else None
    tiles = is_known(q.shape) and is_known(k.shape) and jax.default_backend() == "cpu"
    rows = rows_at_a_time(batch * heads, queries, keys) if tiles else queries
    out = attend(0, q, mask) if rows >= queries else _by_tiles(attend, rows, q, mask)
    return out.reshape(batch, heads, queries, v.shape[-1])


def rows_at_a_time(heads: int, queries: int, keys: int) -> int:
    """Return the number of rows of queries to compute at a time, so that their scores stay in a CPU's cache."""
    row = 4 * heads * keys
    return queries if queries * row <= policy.PIECE_BYTES else max(1, policy.PIECE_BYTES // (2 * row))


def _by_tiles(attend: Any, rows: int, q: Any, mask: Any) -> Any:
    """Compute attention in tiles of `rows` queries, one tile after the other. The backward pass recomputes the scores
    of each tile."""
    queries = q.shape[-2]
    count = -(-queries // rows)
    has_rows = mask is not None and mask.ndim > 1 and mask.shape[-2] > 1

    def tiled(x: Any) -> Any:
        """Return the tiles of an array along a new first axis. The last tile is filled up with zeros."""
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, count * rows - queries), (0, 0)])
        return jnp.moveaxis(x.reshape(*x.shape[:-2], count, rows, x.shape[-1]), -3, 0)

    def tile(xs: Any) -> Any:
        first, q, *masks = xs
        return attend(first, q, masks[0] if masks else mask)

    firsts = np.arange(count, dtype=np.int32) * rows
    tiles = (firsts, tiled(q), *([tiled(mask)] if has_rows else []))
    out = jnp.moveaxis(jax.lax.map(jax.checkpoint(tile, prevent_cse=False), tiles), 0, -3)
    return out.reshape(*out.shape[:-3], count * rows, out.shape[-1])[..., :queries, :]


def _least(dtype: Any) -> Any:
    """Return the score of a masked key. It is finite, so that a row without any valid key averages all values, as in
    MLX."""
    return jnp.finfo(dtype).min


def _grouped(mask: Any, groups: int, shared: int) -> Any:
    """Return the mask with its head axis split in two, like the scores: groups, and heads that share keys."""
    if mask.ndim < 3 or shared == 1:
        return mask
    if mask.shape[-3] == 1:
        return jnp.expand_dims(mask, -3)
    return mask.reshape(*mask.shape[:-3], groups, shared, *mask.shape[-2:])


def _infer(
    q: Aval, k: Aval, v: Aval, scale: Aval, *rest: Aval, causal: bool, masked: bool, sinks: bool, prefix: bool
) -> Aval:
    for x in (q, k, v):
        if x.ndim != 4:
            raise ValueError(f"[{_NAME}] input with shape {format_shape(x.shape)} expected to be rank 4")
    mask = rest[0] if masked else None
    if mask is not None and mask.ndim > 4:
        raise ValueError(f"[{_NAME}] the mask with shape {format_shape(mask.shape)} expected to have at most rank 4.")
    for x in (k, v):
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"[{_NAME}] mismatching batch dimension for input with shape {format_shape(x.shape)}.")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"[{_NAME}] query, keys expected to have matching last dimension; found query shape "
            f"{format_shape(q.shape)} for "
            f"keys shape {format_shape(k.shape)}."
        )
    if k.shape[1] != v.shape[1]:
        raise ValueError(
            f"[{_NAME}] keys, values expected to have matching n_kv_heads; found keys with n_heads {k.shape[1]} for "
            f"values with n_heads {v.shape[1]}."
        )
    heads, groups = q.shape[1], k.shape[1]
    if not groups or heads % groups:
        raise ValueError(
            f"[{_NAME}] n_heads must be a multiple of n_kv_heads, found n_heads {heads} for n_kv_heads {groups}."
        )
    dtype = _dtype(q, k, v)
    if dtype._kind != "f":
        raise ValueError(f"[{_NAME}] Received unsupported type {dtype._label}.")
    if mask is not None:
        _check_mask(mask, (*q.shape[:3], k.shape[2]), dtype)
    if sinks:
        if promote(rest[-1].dtype, dtype) is not dtype:
            raise ValueError(f"[{_NAME}] Type of sinks must promote to output type {dtype._label}.")
        if rest[-1].shape != (heads,):
            raise ValueError(f"[{_NAME}] Received invalid shape for sinks {format_shape(rest[-1].shape)}.")
    if k.shape[2] != v.shape[2]:
        parts = (heads,) if heads == groups else (groups, heads // groups)
        left = (q.shape[0], *parts, q.shape[2], k.shape[2])
        right = (*v.shape[:2], *([1] if heads != groups else []), *v.shape[2:])
        raise ValueError(
            f"[matmul] Last dimension of first input with shape {format_shape(left)} must match second to last "
            "dimension of "
            f"second input with shape {format_shape(right)}."
        )
    return aval((*q.shape[:-1], v.shape[-1]), dtype)


def _check_mask(mask: Aval, scores: tuple[int, ...], dtype: Dtype) -> None:
    if mask.dtype._kind != "b" and promote(mask.dtype, dtype) is not dtype:
        raise ValueError(f"[{_NAME}] Mask type must promote to output type {dtype._label}.")
    if broadcast(mask.shape, scores) != scores:
        raise ValueError(
            f"Cannot broadcast array of shape {format_shape(mask.shape)} into shape {format_shape(scores)}."
        )


ATTENTION = op(_NAME, _attention, _infer, ("causal", "masked", "sinks", "prefix"))
"""The op of attention. With `prefix`, the input after the mask is the number of valid keys and values, see `padding`.
"""


def scaled_dot_product_attention(
    q: array, k: array, v: array, *, scale: float, mask: Any = None, sinks: array | None = None,
    force_fused: bool = False, stream: Any = None,
) -> array:  # fmt: skip
    """Return attention: `softmax(scale * q @ k.T + mask) @ v` for each head.

    Args:
        q: queries `(B, N, Tq, D)`.
        k: keys `(B, Nkv, Tkv, D)`. N is a multiple of Nkv: neighbouring query heads share one head of keys and values.
        v: values `(B, Nkv, Tkv, Dv)`.
        scale: the factor of the scores, usually `D ** -0.5`.
        mask: None; "causal", where the last query aligns with the last key; or an array that broadcasts to `(B, N, Tq,
            Tkv)`. A bool array is True for the scores to keep; any other array is added to the scores.
        sinks: `(N,)`, an extra score for each head, which enters the sum of the softmax but has no value.
        force_fused: if True, raise where real MLX does without a GPU. XLA chooses the kernels here.
        stream: accepted, and ignored.

    Returns:
        An array `(B, N, Tq, Dv)`, with the promoted dtype of queries, keys and values. The softmax is computed in
        float32.

    Raises:
        ValueError: if shapes or dtypes do not fit.

    Example:
        >>> q = k = v = mx.random.normal((1, 4, 16, 8))
        >>> mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask="causal").shape
        (1, 4, 16, 8)
    """
    check_stream(stream)
    flag(force_fused, _NAME, "force_fused")
    inputs = [*(require_array(x, _NAME) for x in (q, k, v)), number(_NAME, "scale", scale)]
    causal = isinstance(mask, str)
    if causal and mask != "causal":
        raise ValueError(f"[{_NAME}] invalid mask option '{mask}'. Must be 'causal', or an array.")
    masked = mask is not None and not causal
    if masked:
        inputs.append(require_array(mask, _NAME))
    if sinks is not None:
        inputs.append(require_array(sinks, _NAME))
    out = apply(ATTENTION, tuple(inputs), (causal, masked, sinks is not None, False))
    if inputs[1].op is not None:
        pad_contraction(out)
    if force_fused and jax.default_backend() == "cpu":
        raise ValueError(f"[{_NAME}] force_fused=True but no fused kernel is available in CPU backend.")
    return wrap(out)
