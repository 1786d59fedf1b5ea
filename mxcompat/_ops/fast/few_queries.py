"""Attention of few queries, which C computes on a CPU: called by XLA's programs, as a primitive of JAX
(`products.foreign`), or by NumPy.

For the queries of one token, XLA would copy all keys to transpose them, and all values to replace those that do not
count. NumPy would cast all of half precision. C (`_native/attention.c`) reads each key and value once, as it is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import is_known
from mxcompat._graph.run.foreign import ATTEND
from mxcompat._jax import ad, batching, jax, jnp
from mxcompat._native import native
from mxcompat._native.products import KINDS

from ..products.foreign import derivative_of_moved, primitive, reads
from ..products.stored import as_bytes

__all__ = ["are_few", "attended", "few_queries"]


def are_few(q: Any, k: Any, v: Any) -> bool:
    """Return True if C computes the attention of these queries, keys and values, which have one dtype."""
    if not (reads(q.dtype) and all(is_known(x.shape) and x.size for x in (q, k, v))):
        return False
    return q.shape[1] // k.shape[1] * q.shape[2] <= policy.FEW_QUERIES


def attended(q: Any, k: Any, v: Any, scale: float, length: int, mask: Any, sinks: Any, causal: bool) -> np.ndarray:
    """Return the attention of NumPy arrays for which `are_few` is true.

    Args:
        length: the number of valid keys.
        mask, sinks: the mask and the sinks, or None.
    """
    out = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    if mask is not None:
        if mask.dtype != np.bool_:
            mask = mask.astype(np.float32, copy=False)
        mask = np.broadcast_to(_forward(mask), (*q.shape[:-1], k.shape[2]))
    if sinks is not None:
        sinks = np.ascontiguousarray(sinks, np.float32)
    kind = KINDS[q.dtype]
    native.attend(as_bytes(out), as_bytes(q), _rows(k), _rows(v), mask, sinks, kind, causal, length, scale)
    return out


def _forward(x: Any) -> Any:
    """Return an array whose elements are in ascending order in memory."""
    return np.ascontiguousarray(x) if min(x.strides, default=0) < 0 else x


def _rows(x: Any) -> Any:
    """Return an array as C reads it: with contiguous rows, in a dtype that C knows."""
    apart = x.strides
    if apart[3] != x.itemsize or apart[2] != x.shape[3] * x.itemsize or min(apart) < 0:
        x = np.ascontiguousarray(x)
    return x.view(np.uint16) if x.itemsize == 2 else x


def few_queries(plain: Callable[..., Any]) -> Any:
    """Return the primitive. `plain` computes it with JAX operations. Both have the arguments and parameters of the op
    `ATTENTION`."""
    attention = primitive("attention_of_few_queries", plain, _foreign)
    ad.primitive_jvps[attention] = lambda primals, tangents, **params: derivative_of_moved(
        partial(plain, **params), primals, tangents
    )
    batching.primitive_batchers[attention] = lambda args, dims, **params: (
        jax.vmap(partial(plain, **params), dims)(*args),
        0,
    )
    return attention


def _foreign(
    q: Any, k: Any, v: Any, scale: Any, *rest: Any, causal: bool, masked: bool, sinks: bool, prefix: bool
) -> Any:
    batch, heads, queries, width = q.shape
    groups, keys, depth = v.shape[1:]
    sizes = (batch, groups, heads // groups, queries, keys, width, depth)
    others = [scale.astype(np.float32)]
    apart = [0, 0, 0, 0]
    if masked:
        mask = rest[0] if rest[0].dtype == np.bool_ else rest[0].astype(np.float32)
        others.append(mask)
        for axis in range(-mask.ndim, 0):
            if mask.shape[axis] > 1:
                apart[axis] = math.prod(mask.shape[mask.ndim + axis + 1 :])
    if prefix:
        others.append(jnp.asarray(rest[masked], np.int32))
    if sinks:
        others.append(rest[-1].astype(np.float32))
    out = jax.ShapeDtypeStruct((*q.shape[:-1], depth), q.dtype)
    numbers = np.array([causal, prefix, masked, sinks, *sizes, *apart], np.int64)
    return jax.ffi.ffi_call(ATTEND, out)(q, k, v, *others, numbers=numbers)
