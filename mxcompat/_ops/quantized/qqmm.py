"""Products of two quantized matrices, the first of which is quantized on the fly: `qqmm` and `gather_qqmm`.

The derivatives are straight-through: those of the product of the rounded matrices.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, aval, format_shape
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jax, jnp, lazy

from ..arguments import flag, require_array
from ..define import op
from ..products.matmul import product
from .fp8 import E4M3_MAX
from .matmul import check_fit, gathered_shape, integral
from .primitive import multiply, multiply_chosen
from .quantize import Scheme, check_global_scale, decode, encode, scheme

__all__ = ["GATHER_QQMM", "QQMM", "gather_qqmm", "qqmm", "scaling_inputs"]


@partial(lazy.custom_jvp, nondiff_argnums=(1,))
def _rounded(x: Any, how: Scheme, global_scale: Any) -> Any:
    """Return x rounded by quantization, in float32."""
    if global_scale is not None:
        global_scale = global_scale.reshape(())
    codes, scales, *biases = encode(x, how, global_scale)
    out = decode(codes, scales, biases[0] if biases else None, how, np.float32)
    return out if global_scale is None else out * (global_scale / np.float32(6 * E4M3_MAX))


@_rounded.defjvp
def _rounded_jvp(how: Scheme, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    return _rounded(primals[0], how, primals[1]), tangents[0].astype(jnp.float32)


def _check(name: str, x: Aval, w: Aval, scales: Aval | None, how: Scheme) -> int:
    """Return the number of columns of the product. Raises MLX's ValueError."""
    packed = w.dtype is _d.uint32
    for place, a in (("second", w), ("first", x)):
        if not (packed and a is w) and (a.dtype._kind != "f" or a.dtype is _d.float64):
            raise ValueError(
                f"[{name}] Only real floating types except float64 are supported but {place} argument dtype == "
                f"{a.dtype._label}."
            )
    if not packed:
        if not (x.ndim and w.ndim):
            raise IndexError("SmallVector out of range.")
        if x.shape[-1] != w.shape[-1]:
            shape = x.shape if name == "gather_qqmm" else (prod(x.shape[:-1]), x.shape[-1])
            raise ValueError(
                f"[qqmm] Last dimension of first input with shape {format_shape(shape)} must match last dimension of "
                f"second input with shape {format_shape(w.shape)}."
            )
        if w.ndim < 2:
            raise IndexError("SmallVector out of range.")
        if x.shape[-1] % (how.group_size or 1) or how.group_size <= 0:
            raise ValueError(
                "[quantize] The last dimension of the matrix needs to be divisible by the quantization group size "
                f"{how.group_size}. However the provided  matrix has shape {format_shape(x.shape)}"
            )
        return w.shape[-2]
    if scales is None:
        raise ValueError(f"[{name}] Scales must be provided if second argument is quantized.")
    outer = check_fit("qqmm", x, w, scales, None, how, True)[1]
    if how.mode == "affine":
        raise ValueError(f"[{name}] Biases must be provided for affine quantization.")
    return outer


def scaling_inputs(inputs: tuple, quantized: bool, left: bool, right: bool) -> tuple[Any, Any, Any, tuple]:
    """Return scales, the indices of both sides, and the global scales. Missing ones are None."""
    remaining = list(inputs)
    scales = remaining.pop(0) if quantized else None
    lhs = remaining.pop(0) if left else None
    rhs = remaining.pop(0) if right else None
    return scales, lhs, rhs, tuple(remaining) or (None, None)


def _aval(x: Aval, w: Aval, *inputs: Aval, how: Scheme, quantized: bool) -> Aval:
    scales, *_ = scaling_inputs(inputs, quantized, False, False)
    return aval((*x.shape[:-1], _check("qqmm", x, w, scales, how)), x.dtype)


def _impl(x: Any, w: Any, *inputs: Any, how: Scheme, quantized: bool) -> Any:
    scales, _, _, (scale_x, scale_w) = scaling_inputs(inputs, quantized, False, False)
    dtype = x.dtype
    x = _rounded(x if x.ndim > 1 else x[None], how, scale_x).reshape(x.shape)
    if scales is not None:
        units = () if scale_w is None else (scale_w,)
        return multiply(x, scales, w, *units, how=how, transpose=True, scaled=bool(units)).astype(dtype)
    return product(x, _rounded(w, how, scale_w).T, np.float32).astype(dtype)


QQMM = op("qqmm", _impl, _aval, ("how", "quantized"))


def _check_axes(name: str, x: Aval, w: Aval) -> None:
    """Raise MLX's ValueError if the numbers of axes do not fit. MLX checks them first."""
    if name == "qqmm":
        if w.ndim > 2 or (w.ndim < 2 and x.ndim > 2):
            ndim = max(x.ndim, 2) if x.ndim else 0
            raise ValueError(f"[qqmm] Only 2D inputs are supported but x.ndim() == {ndim} and w.ndim() == {w.ndim}.")
        return
    for a in (x, w):
        if a.ndim < 2:
            raise ValueError(
                f"[{name}] Input must have at least two dimensions but got input with shape {format_shape(a.shape)}."
            )


def _operands(
    name: str, x: array, w: array, scales: array | None, how: Scheme, indices: tuple, global_scales: tuple
) -> tuple[Node, ...]:
    """Return the nodes of the given arrays. Raises MLX's ValueError for axes or global scales that do not fit."""
    nodes = [require_array(a, name) for a in (x, w, *(() if scales is None else (scales,)))]
    nodes += [require_array(i, name) for i in indices if i is not None]
    scale_nodes = [require_array(s, name) for s in global_scales if s is not None]
    _check_axes(name, nodes[0].aval, nodes[1].aval)
    if scale_nodes and name == "qqmm":
        for scale in scale_nodes:
            check_global_scale(name, how, scale.aval)
    if len(scale_nodes) == 1:
        raise ValueError(
            f"[{name}] For nvfp4 mode, either both global_scale_x and global_scale_w must be provided, or neither."
        )
    return (*nodes, *scale_nodes)


def qqmm(
    x: array, w: array, scales: array | None = None, group_size: int | None = None, bits: int | None = None,
    mode: str = "nvfp4", global_scale_x: array | None = None, global_scale_w: array | None = None, *,
    stream: Any = None,
) -> array:  # fmt: skip
    """Return the product of an array, quantized on the fly, and the transpose of a quantized matrix.

    Args:
        x: a float array of shape (..., K).
        w: a float array of shape (N, K), or the packed elements of one from `quantize`.
        scales: the scales of `w` if it is packed.
        group_size: how many elements share a scale; None for the mode's default.
        bits: bits per element; None for the mode's default.
        mode: "nvfp4", "mxfp8" or "mxfp4"; "affine" only if `w` is not packed.
        global_scale_x: in mode "nvfp4", the global scale to quantize `x` with, a float32 scalar.
        global_scale_w: the same for `w`; both or neither.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., N) with the dtype of `x`.

    Raises:
        ValueError: if the mode, its settings, shapes or dtypes do not fit.

    Example:
        >>> mx.qqmm(mx.ones((1, 64)), mx.ones((8, 64)), mode="mxfp8").shape
        (1, 8)
    """
    check_stream(stream)
    how = scheme("qqmm", mode, group_size, bits)
    nodes = _operands("qqmm", x, w, scales, how, (), (global_scale_x, global_scale_w))
    packed = nodes[1].aval.dtype is _d.uint32
    if scales is not None and not packed:
        nodes = (*nodes[:2], *nodes[3:])
    return wrap(apply(QQMM, nodes, (how, packed and scales is not None)))


def _gather_aval(x: Aval, w: Aval, *inputs: Aval, how: Scheme, quantized: bool, left: bool, right: bool) -> Aval:
    scales, lhs, rhs, global_scales = scaling_inputs(inputs, quantized, left, right)
    outer = _check("gather_qqmm", x, w, scales, how)
    indices = tuple(i for i in (lhs, rhs) if i is not None)
    integral("gather_qqmm", indices)
    for a, scale in zip((x, w), global_scales, strict=True):
        if scale is not None and scale.size not in (1, aval(a.shape[:-2], a.dtype).size):
            raise ValueError(f"[gather_qqmm] Global scale must be a scalar but got shape {format_shape(scale.shape)}.")
    return aval(gathered_shape(x, w, outer, indices, left, right), x.dtype)


def _gather_impl(x: Any, w: Any, *inputs: Any, how: Scheme, quantized: bool, left: bool, right: bool) -> Any:
    scales, lhs, rhs, (scale_x, scale_w) = scaling_inputs(inputs, quantized, left, right)
    dtype, batch = x.dtype, w.shape[:-2]
    if scale_x is not None and scale_x.size > 1:
        matrices = x.reshape(-1, *x.shape[-2:])
        x = jax.vmap(lambda a, s: _rounded(a, how, s))(matrices, scale_x.reshape(-1)).reshape(x.shape)
    else:
        x = _rounded(x, how, scale_x)
    units = () if scale_w is None else (jnp.broadcast_to(scale_w.reshape(-1), (int(np.prod(batch)),)),)
    if scales is not None:
        chosen = [i for i in (lhs, rhs) if i is not None]
        flags = {"left": left, "right": right, "scaled": bool(units)}
        return multiply(x, scales, w, *chosen, *units, how=how, transpose=True, **flags).astype(dtype)

    def build(matrices: Any, *scale: Any) -> Any:
        if not scale:
            return _rounded(matrices, how, None)
        flat = matrices.reshape(-1, *matrices.shape[-2:])
        return jax.vmap(lambda a, s: _rounded(a, how, s))(flat, scale[0].reshape(-1)).reshape(matrices.shape)

    parts = (w, *[u.reshape(*batch, 1, 1) for u in units])
    return multiply_chosen(x, parts, build, lhs, rhs, True, np.dtype(np.float32)).astype(dtype)


GATHER_QQMM = op("gather_qqmm", _gather_impl, _gather_aval, ("how", "quantized", "left", "right"))


def gather_qqmm(
    x: array, w: array, /, scales: array | None = None, lhs_indices: array | None = None,
    rhs_indices: array | None = None, group_size: int | None = None, bits: int | None = None, mode: str = "nvfp4",
    global_scale_x: array | None = None, global_scale_w: array | None = None, *, sorted_indices: bool = False,
    stream: Any = None,
) -> array:  # fmt: skip
    """Return products like `qqmm`, of selected matrices.

    Args:
        x: a float array of shape (..., M, K).
        w: a float array of shape (..., N, K), or the packed elements of one from `quantize`.
        scales: the scales of `w` if it is packed.
        lhs_indices: the numbers of the matrices of `x`, counted through all its leading axes; None for all matrices, in
            place.
        rhs_indices: the same for `w`. The two broadcast against each other.
        group_size: how many elements share a scale; None for the mode's default.
        bits: bits per element; None for the mode's default.
        mode: "nvfp4", "mxfp8" or "mxfp4"; "affine" only if `w` is not packed.
        global_scale_x: in mode "nvfp4", the global scale to quantize `x` with, one float32 or one for each matrix.
        global_scale_w: the same for `w`; both or neither.
        sorted_indices: accepted, and ignored: True if the indices are in ascending order.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N) with the dtype of `x`. Its leading axes are those of the indices.

    Raises:
        ValueError: if the mode, its settings, shapes or dtypes do not fit.

    Example:
        >>> mx.gather_qqmm(mx.ones((2, 1, 64)), mx.ones((4, 8, 64)), rhs_indices=mx.array([3, 0]), mode="mxfp8")
        array([[[64, 64, 64, ..., 64, 64, 64]],
               [[64, 64, 64, ..., 64, 64, 64]]], dtype=float32)
    """
    check_stream(stream)
    flag(sorted_indices, "gather_qqmm", "sorted_indices")
    how = scheme("gather_qqmm", mode, group_size, bits)
    indices = (lhs_indices, rhs_indices)
    nodes = _operands("gather_qqmm", x, w, scales, how, indices, (global_scale_x, global_scale_w))
    packed = nodes[1].aval.dtype is _d.uint32
    if scales is not None and not packed:
        nodes = (*nodes[:2], *nodes[3:])
    params = (how, packed and scales is not None, lhs_indices is not None, rhs_indices is not None)
    return wrap(apply(GATHER_QQMM, nodes, params))
