"""Casts of JAX and NumPy values with MLX's rules, such as the rule for a float that becomes an integer.

The constructor, the operands of ops, `astype` and scattered updates all use these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Dtype
from mxcompat._jax import jax, jnp, lax

__all__ = ["converted", "converted_on_host", "truth"]


def converted(x: Any, dtype: Dtype) -> Any:
    """Cast a JAX value to another dtype with MLX's rules.

    A float outside the range of an integer dtype wraps, as C code on x86 does, while JAX would saturate. The cast goes
    through the nearest wider integer. A float beyond the range of that integer becomes the integer's lowest value. A
    bool becomes a float by way of an integer: XLA simplifies `float(bool) * x` to a selection, which gives 0 where x is
    infinite or NaN.
    """
    x = jnp.asarray(x)
    source, target = x.dtype, dtype._numpy
    if source == target:
        return x
    if dtype._kind == "b":
        return truth(x)
    if source.kind == "b" and dtype._kind in "fc":
        x = x.astype(np.uint8)
    if source.kind == "c" and dtype._kind != "c":
        x = lax.real(x)
    if dtype._kind in "iu" and jnp.issubdtype(x.dtype, jnp.floating):
        wide = np.dtype(np.int32 if dtype.size < 4 or target == np.int32 else np.int64)
        limit = 2.0 ** (8 * wide.itemsize - 1)
        x = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
        if target != np.uint64:
            inside = (x >= -limit) & (x < limit)
            return jnp.where(inside, x.astype(wide), jnp.asarray(jnp.iinfo(wide).min)).astype(target)
        beyond = jnp.where(x != x, _MIDDLE, np.uint64(0))
        return jnp.where(x < 0, x.astype(wide).astype(target), jnp.where(x < 2.0**64, x.astype(target), beyond))
    return lax.convert_element_type(x, target)


def truth(x: Any) -> Any:
    """Return a mask of the elements of a JAX array that are not 0. On CPUs, test the bits of floats.

    In comparisons, XLA treats subnormal numbers as 0, and LLVM turns most other bit tests into such comparisons. On a
    GPU the comparison is correct, but the bits of complex numbers' parts are wrong (jaxlib 0.11).
    """
    kind = x.dtype.kind
    if kind in "biu" or jax.default_backend() == "gpu":
        return x if kind == "b" else x != 0
    if kind == "c":
        return truth(lax.real(x)) | truth(lax.imag(x))
    bits = lax.bitcast_convert_type(x, np.dtype(f"int{8 * x.dtype.itemsize}"))
    return lax.abs(bits) > 0  # -0 has the bits of the least integer, whose `abs` is itself


def converted_on_host(x: Any, dtype: Dtype) -> Any:
    """Cast a NumPy array or scalar as `converted` does, with the same bits."""
    target = dtype._numpy
    source = x.dtype
    if source == target:
        return x
    if dtype._kind == "b":
        return x != 0
    if source.kind == "c" and dtype._kind != "c":
        x = x.real
    if dtype._kind in "iu" and source.kind not in "biu":
        wide = np.dtype(np.int32 if dtype.size < 4 or target == np.int32 else np.int64)
        limit = 2.0 ** (8 * wide.itemsize - 1)
        x = x.astype(np.float64 if x.dtype == np.float64 else np.float32, copy=False)
        if target == np.uint64:
            negative = np.where(x < 0, x, 0).astype(wide).astype(target)
            return np.where(x < 0, negative, _to_uint64(x))
        if x.size and x.min() >= -limit and x.max() < limit:  # both comparisons are false for NaN
            return x.astype(wide, copy=False).astype(target, copy=False)
        inside = (x >= -limit) & (x < limit)
        return np.where(inside, x, np.float32(-limit)).astype(wide).astype(target)
    return x.astype(target)


_MIDDLE = np.uint64(2**63)
"""The uint64 to which NaN is cast. Floats beyond the range of uint64 become 0."""


def _to_uint64(x: Any) -> Any:
    """Cast a float that is not negative to uint64."""
    inside = x < 2.0**64
    if np.all(inside):
        return x.astype(np.uint64)
    return np.where(inside, np.where(inside, x, 0).astype(np.uint64), np.where(x != x, _MIDDLE, np.uint64(0)))
