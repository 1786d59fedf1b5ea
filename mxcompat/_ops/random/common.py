"""Shared parts of the random distributions: their arguments, and uniform numbers between bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.errors import expected
from mxcompat._graph.ir.aval import Aval, Dtype, format_shape
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.aval import float64 as _float64
from mxcompat._jax import jnp

from ..define import broadcast
from .bits import check_bits, scaled, unit

__all__ = ["between", "cast", "check_uniform", "check_uniform_dtype", "dtype_of"]


def dtype_of(dtype: Any, caller: str) -> Dtype:
    """Return the dtype argument of a distribution; None means float32."""
    if dtype is None:
        return _float32
    if type(dtype) is not Dtype:
        raise expected(caller, "a Dtype or None as dtype", dtype)
    return dtype


def cast(x: Any, dtype: Any) -> Any:
    """Return `x` in a dtype. For a real dtype, a complex number loses its imaginary part."""
    x = jnp.asarray(x)
    if x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        x = x.real
    return x.astype(dtype)


def between(key: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return uniform numbers between bounds of the same dtype."""
    low, high = cast(low, dtype), cast(high, dtype)
    return scaled(unit(key, shape, dtype), high - low, 1.0) + low


def check_uniform_dtype(dtype: Dtype) -> None:
    """Raise MLX's error unless numbers of this dtype can be drawn."""
    if dtype._kind != "f":
        raise ValueError("[uniform] Can only generate uniform numbers with real floating point type.")


def check_uniform(key: Aval, low: Aval, high: Aval, shape: tuple[int, ...], dtype: Dtype) -> None:
    """Raise MLX's error if uniform numbers cannot be drawn."""
    check_uniform_dtype(dtype)
    full = broadcast(shape, broadcast(high.shape, low.shape))
    if full != shape:
        raise ValueError(
            f"[uniform] Cannot generate random values of shape {format_shape(shape)} from broadcasted shape "
            f"{format_shape(full)}."
        )
    if dtype is _float64:
        raise RuntimeError("[uniform] Unsupported type.")
    check_bits(key, shape)
