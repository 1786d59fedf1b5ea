"""Rotary position embedding of `mx.fast`."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.errors import bad_cast
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, format_shape, int32
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp

from ..arguments import any_number, flag, integer, require_array
from ..define import op
from .norms import number, wide

__all__ = ["ROPE", "inverse_frequencies", "rope"]


def inverse_frequencies(half: int, base: float) -> np.ndarray:
    """Return the angle per position of each pair of features, or NaN if the base is not positive.

    All is computed in float32, because its rounding is visible at distant positions.
    """
    log = math.log(base) if base > 0 else math.nan
    return np.exp(-np.arange(half, dtype=np.float32) * np.float32(log / half))


def _rope(x: Any, offset: Any, scale: Any, *freqs: Any, dims: int, traditional: bool, base: float | None) -> Any:
    half = dims // 2
    # the offset is a float if JAX differentiates with respect to an integer
    whole = offset if jnp.issubdtype(offset.dtype, np.inexact) else offset.astype(jnp.int32)
    steps = jnp.arange(x.shape[-2], dtype=whole.dtype) + whole[..., None]
    positions = steps.astype(jnp.float32) * scale.astype(jnp.float32)
    if base is None:
        inverse = 1 / jnp.asarray(freqs[0], jnp.float32)
    else:
        inverse = inverse_frequencies(half, base)
    angles = positions[..., None] * inverse
    if offset.ndim:
        angles = angles.reshape(angles.shape[0], *[1] * (x.ndim - 3), *angles.shape[1:])
    turned = wide(x[..., :dims])
    cos, sin = jnp.cos(angles).astype(turned.dtype), jnp.sin(angles).astype(turned.dtype)
    # Each feature is multiplied by the cosine, and its partner by the sine, so that gradients need no slices.
    if traditional:
        pairs = turned.reshape(*turned.shape[:-1], half, 2)
        turned = pairs * cos[..., None] + pairs[..., ::-1] * jnp.stack([-sin, sin], -1)
        turned = turned.reshape(*x.shape[:-1], dims)
    else:
        partner = jnp.roll(turned, half, -1)
        turned = turned * jnp.concatenate([cos, cos], -1) + partner * jnp.concatenate([-sin, sin], -1)
    turned = turned.astype(x.dtype)
    return turned if dims == x.shape[-1] else jnp.concatenate([turned, x[..., dims:]], -1)


def _infer(x: Aval, offset: Aval, scale: Aval, *freqs: Aval, dims: int, traditional: bool, base: float | None) -> Aval:
    if x.ndim < 3:
        raise ValueError(f"[rope] Input must have at least 3 dimensions but got input with {x.ndim} dimensions.")
    if x.dtype._kind != "f":
        raise ValueError(f"[rope] Input must be a floating type but got {x.dtype._label}.")
    if offset.ndim > 1:
        raise ValueError(f"[rope] offset must have at most one dimension but has shape {format_shape(offset.shape)}.")
    if offset.ndim and offset.size not in (1, x.shape[0]):
        raise ValueError(
            f"[rope] offset must be a scalar or vector with {x.shape[0]} elements but has shape "
            f"{format_shape(offset.shape)}."
        )
    if offset.dtype._kind not in "ui":
        raise ValueError(f"[rope] offset must be an integer but got type {offset.dtype._label}.")
    if dims <= 0:
        raise ValueError(f"[rope] dims must be positive but got {dims}.")
    if dims % 2:
        raise ValueError(f"[rope] dims must be even but got {dims}.")
    if dims > x.shape[-1]:
        raise ValueError(f"[rope] dims must not exceed the input's last dimension ({x.shape[-1]}) but got {dims}.")
    if freqs and freqs[0].shape != (dims // 2,):
        raise ValueError(
            f"[rope] freqs must be one dimensional with size {dims // 2} but got shape {format_shape(freqs[0].shape)}."
        )
    return x


ROPE = op("rope", _rope, _infer, ("dims", "traditional", "base"))


def rope(
    a: array, dims: int, *, traditional: bool, base: float | None, scale: float, offset: Any,
    freqs: array | None = None, stream: Any = None,
) -> array:  # fmt: skip
    """Return the rotary position embedding: rotate pairs of features by angles that grow with the position.

    Args:
        a: `(B, ..., T, D)`, floating point.
        dims: the number of features to rotate, an even number. The other features do not change.
        traditional: whether a pair is two neighbouring features. If not, it is one feature from each half.
        base: the angular frequency of pair i is `base ** (-2 * i / dims)`.
        scale: the factor of the positions.
        offset: the first position: an int, or an integer array with one element for all or one for each element of the
            batch. A change of the offset needs no new compilation.
        freqs: the inverse of each frequency, `(dims / 2,)`, in place of `base`.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and dtype of `a`. Angles are computed in float32.

    Raises:
        ValueError: if shapes or dtypes do not fit, or unless exactly one of `base` and `freqs` is given.

    Example:
        >>> queries = mx.random.normal((1, 4, 16, 64))
        >>> mx.fast.rope(queries, 64, traditional=False, base=10000.0, scale=1.0, offset=5).shape
        (1, 4, 16, 64)
    """
    check_stream(stream)
    node = require_array(a, "rope")
    table = None if freqs is None else require_array(freqs, "rope")
    base = None if base is None else any_number(base, "rope", "base")
    params = (integer(dims), flag(traditional, "rope", "traditional"), base)
    factor = number("rope", "scale", scale)
    inputs = (node, _offset(offset), factor)
    if base is None and table is None:
        raise ValueError("[rope] Neither base nor freqs has a value.")
    if base is not None and table is not None:
        raise ValueError("[rope] Only one of base or freqs can have a value.")
    return wrap(apply(ROPE, inputs if table is None else (*inputs, table), params))


def _offset(value: Any) -> Node:
    """Return the node of an offset. An array may have no value yet, and is used unchanged. A number becomes a 32-bit
    input, as in MLX."""
    if isinstance(value, (array, bool)):
        return operands.node(value)
    try:
        number = index(value)
    except TypeError:
        return operands.node(value)
    if not -(2**63) <= number < 2**63:
        raise bad_cast("an offset is a number of 64 bits")
    return operands.scalar_node((number + 2**31) % 2**32 - 2**31, int32)
