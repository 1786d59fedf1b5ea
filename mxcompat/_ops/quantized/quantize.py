"""`quantize` and `dequantize`: the elements of a group share a scale (and, in mode "affine", a bias), and are packed.

The packed words, the scales and the biases have the same bits as in MLX, so weights can be exchanged. The products of
quantized matrices also use `check_quantized` and `decode`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp

from ..arguments import integer, require_array, require_dtype, require_text
from ..define import op
from ..elementwise.quotient import quotient
from .fp8 import E4M3_MAX, from_e2m1, from_e4m3, from_e8m0, to_e2m1, to_e4m3, to_e8m0
from .packing import pack, unpack

__all__ = [
    "DEQUANTIZE", "LARGEST", "QUANTIZE", "Scheme", "check_global_scale", "check_quantized", "decode", "dequantize",
    "encode", "quantize", "scale_of_others", "scheme",
]  # fmt: skip

_f32 = np.float32
LARGEST = _f32(E4M3_MAX * 6)  # the largest product of an e4m3 scale and an e2m1 element
_AFFINE_BITS = (1, 2, 3, 4, 5, 6, 8)


class Scheme(NamedTuple):
    """A quantization scheme, which is hashable and a parameter of the ops."""

    mode: str
    group_size: int
    bits: int


_DEFAULTS = {
    "affine": Scheme("affine", 64, 4),
    "mxfp4": Scheme("mxfp4", 32, 4),
    "mxfp8": Scheme("mxfp8", 32, 8),
    "nvfp4": Scheme("nvfp4", 16, 4),
}


def scheme(name: str, mode: Any, group_size: Any, bits: Any) -> Scheme:
    """Return the scheme for a function's arguments. Raises MLX's ValueError for an unknown mode."""
    size, bits = (None if n is None else integer(n) for n in (group_size, bits))
    default = _DEFAULTS.get(mode) if isinstance(mode, str) else None
    if default is None:
        raise ValueError(f"[{name}] Invalid quantization mode '{require_text(mode, name, 'mode')}'.")
    if size is None and bits is None:
        return default
    return Scheme(mode, default.group_size if size is None else size, default.bits if bits is None else bits)


def _only(name: str, how: Scheme) -> None:
    """Raise MLX's ValueError if the mode does not have this group size or number of bits."""
    default = _DEFAULTS[how.mode]
    if how.group_size != default.group_size:
        raise ValueError(
            f"[{name}] {how.mode} quantization requires group size {default.group_size} but got {how.group_size}."
        )
    if how.bits != default.bits:
        raise ValueError(f"[{name}] {how.mode} quantization requires bits to be {default.bits} but got {how.bits}.")


def check_global_scale(name: str, how: Scheme, scale: Aval) -> None:
    """Raise MLX's ValueError if the mode has no global scale, or if the scale does not fit."""
    if how.mode != "nvfp4":
        raise ValueError(f"[{name}] Global scale is only supported for 'nvfp4' quantization mode.")
    if scale.size != 1:
        raise ValueError(f"[{name}] Global scale must be a scalar but got shape {format_shape(scale.shape)}.")
    if scale.dtype is not _d.float32:
        raise ValueError(f"[{name}] Global scale must have dtype float32 but got {scale.dtype._label}.")


def _check_rows(w: Aval) -> None:
    """Raise MLX's ValueError if a matrix has no rows."""
    if 0 in w.shape[:-1]:
        raise ValueError("[reshape] Cannot infer the shape of an empty array")


def _quantize_aval(w: Aval, *global_scale: Aval, how: Scheme) -> tuple[Aval, ...]:
    mode, group_size, bits = how
    if w.dtype._kind != "f":
        raise ValueError(f"[quantize] Only real floating types can be quantized but w has type {w.dtype._label}.")
    if w.ndim < 2:
        raise ValueError(
            f"[quantize] The matrix to be quantized must have at least 2 dimension but it has only {w.ndim}."
        )
    if group_size and w.shape[-1] % group_size:
        raise ValueError(
            "[quantize] The last dimension of the matrix needs to be divisible by the quantization group size "
            f"{group_size}. However the provided  matrix has shape {format_shape(w.shape)}"
        )
    if mode == "affine":
        if group_size not in (32, 64, 128):
            raise ValueError(
                f"[quantize] The requested group size {group_size} is not supported. The supported group sizes are "
                "32, 64, and 128."
            )
        if bits not in _AFFINE_BITS:
            raise ValueError(
                f"[quantize] The requested number of bits {bits} is not supported. The supported bits are "
                "1, 2, 3, 4, 5, 6 and 8."
            )
    else:
        _only("quantize", how)
    for scale in global_scale:
        check_global_scale("quantize", how, scale)
    if mode != "affine" and bits == 4 and not w.size:
        raise ValueError("[argmin] Cannot argmin reduce zero size array.")
    if mode == "mxfp8":
        _check_rows(w)
    if mode == "affine" and w.dtype is _d.float64:
        raise RuntimeError("[fast::Quantize::eval_cpu] Only supports floating point inputs")
    *lead, size = w.shape
    words = aval((*lead, size * bits // 32), _d.uint32)
    groups = (*lead, size // group_size)
    if mode == "affine":
        return words, aval(groups, w.dtype), aval(groups, w.dtype)
    return words, aval(groups, _d.uint8)


def _quantize_impl(w: Any, *global_scale: Any, how: Scheme) -> tuple[Any, ...]:
    codes, *scales = encode(w, how, *global_scale)
    return pack(codes, how.bits), *scales


def encode(w: Any, how: Scheme, global_scale: Any = None) -> tuple[Any, ...]:
    """Return the codes (uint32, the shape of w), the scales and, in mode "affine", the biases of floats."""
    groups = w.reshape(*w.shape[:-1], w.shape[-1] // how.group_size, how.group_size)
    codes, *scales = (
        _affine(groups, how.bits) if how.mode == "affine" else _shared_exponents(groups, how)
        if how.mode != "nvfp4" else _scaled_e2m1(groups, global_scale)
    )  # fmt: skip
    return codes.reshape(w.shape), *scales


def _affine(groups: Any, bits: int) -> tuple[Any, Any, Any]:
    x = groups.astype(jnp.float32)
    low, high = jnp.where(x == x, x, _f32(np.inf)).min(-1), jnp.where(x == x, x, _f32(-np.inf)).max(-1)
    steps = _f32((1 << bits) - 1)
    scale = jnp.maximum(quotient(high - low, steps), _f32(1e-7))
    if bits == 1:
        bias = low
    else:
        # Codes represent 0 and the bound farther from 0 exactly.
        below = jnp.abs(low) > jnp.abs(high)
        scale = jnp.where(below, scale, -scale)
        edge = jnp.where(below, low, high)
        code = jnp.round(quotient(edge, scale))
        some = code != 0
        scale = jnp.where(some, quotient(edge, jnp.where(some, code, _f32(1))), scale)
        bias = jnp.where(some, edge, _f32(0))
    codes = jnp.clip(jnp.round(quotient(x - bias[..., None], scale[..., None])), _f32(0), _f32(steps))
    return codes.astype(jnp.uint32), scale.astype(groups.dtype), bias.astype(groups.dtype)


def _shared_exponents(groups: Any, how: Scheme) -> tuple[Any, Any]:
    """Encode groups in the modes mxfp4 and mxfp8, in which scales are powers of two.

    As in MLX, a group with an infinity or a NaN is divided by 0, and gets `scale_of_others`.
    """
    x = groups.astype(jnp.float32)
    largest = 6.0 if how.bits == 4 else E4M3_MAX
    top = quotient(jnp.abs(x).max(-1), _f32(largest))
    scale, finite = to_e8m0(top), top < _f32(np.inf)
    x = x / jnp.where(finite, from_e8m0(scale), _f32(0))[..., None]
    scale = jnp.where(finite, scale, np.uint32(scale_of_others(groups.dtype)))
    return to_e2m1(x) if how.bits == 4 else to_e4m3(x), scale.astype(jnp.uint8)


def scale_of_others(dtype: Any) -> int:
    """Return the code of the scale of a group with an infinity or a NaN."""
    return 128 if dtype == _f32 else 0


def _scaled_e2m1(groups: Any, global_scale: Any) -> tuple[Any, Any]:
    """Encode groups in the mode nvfp4, in which scales are floats of 8 bits."""
    dtype = groups.dtype
    scale = quotient(jnp.abs(groups).max(-1), jnp.asarray(6, groups.dtype))
    if global_scale is not None:
        up = quotient(jnp.asarray(LARGEST), jnp.reshape(global_scale, ()))
        scale = scale.astype(jnp.float32) * up
    scale = to_e4m3(scale)
    unit = from_e4m3(scale)[..., None]
    x = quotient(groups, jnp.where(unit == 0, _f32(1), unit).astype(dtype))  # the quotient is rounded to the dtype of w
    if global_scale is not None:
        x = x.astype(jnp.float32) * up
    return jnp.where(unit == 0, np.uint32(0), to_e2m1(x)), scale.astype(jnp.uint8)


QUANTIZE = op("quantize", _quantize_impl, _quantize_aval, ("how",))


def quantize(
    w: array, /, group_size: int | None = None, bits: int | None = None, mode: str = "affine",
    global_scale: array | None = None, *, stream: Any = None,
) -> list[array]:  # fmt: skip
    """Quantize a matrix: groups of elements of a row share a scale, and each element takes a few bits.

    Args:
        w: a float array of shape (..., M, N), N a multiple of the group size.
        group_size: the number of elements that share a scale: 32, 64 (the default) or 128 in mode "affine", 32 in
            "mxfp4" and "mxfp8", and 16 in "nvfp4".
        bits: bits per element: 1, 2, 3, 4 (the default), 5, 6 or 8 in mode "affine", else that of the mode.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        global_scale: in mode "nvfp4", a float32 scalar by which all is scaled: the largest element.
        stream: accepted, and ignored.

    Returns:
        The packed elements, uint32 of shape (..., M, N * bits / 32). Then the scales, of shape (..., M, N /
        group_size): in mode "affine" with the dtype of `w`, otherwise uint8 codes. In mode "affine" also the biases,
        with the shape of the scales.

    Raises:
        ValueError: if the mode, its settings or the shape do not fit, or `w` is not a real float array.
        RuntimeError: if `w` is a float64 array, in mode "affine".

    Example:
        >>> w_q, scales, biases = mx.quantize(mx.random.normal((8, 128)), group_size=64, bits=4)
        >>> w_q.shape, scales.shape, biases.shape
        ((8, 16), (8, 2), (8, 2))
    """
    check_stream(stream)
    nodes = [require_array(w, "quantize")]
    how = scheme("quantize", mode, group_size, bits)
    if global_scale is not None:
        nodes.append(require_array(global_scale, "quantize"))
    return wrap_all(apply(QUANTIZE, tuple(nodes), (how,)))


def check_quantized(name: str, scales: Node, biases: Node | None, w: Node, how: Scheme) -> None:
    """Raise MLX's ValueError if scales and biases do not have the dtypes that the mode requires."""
    if how.mode == "affine" and biases is None:
        raise ValueError(f"[{name}] Biases must be provided for affine quantization.")
    if w.aval.dtype is not _d.uint32:
        if name == "dequantize":
            raise ValueError("[dequantize] The matrix should be given as a uint32")
        raise ValueError(f"[{name}] The weight matrix should be uint32 but received {w.aval.dtype._label}")
    if how.mode != "affine":
        if scales.aval.dtype is not _d.uint8:
            raise ValueError(f"[{name}] Scale type must be uint8 but received type {scales.aval.dtype._label}.")
        if biases is not None:
            raise ValueError(f"[{name}] Biases must be null for quantization mode '{how.mode}'.")
    elif biases is not None and promote(scales.aval.dtype, biases.aval.dtype)._kind != "f":
        raise ValueError(
            f"[{name}] Only real floating types are supported but scales.dtype() == {scales.aval.dtype._label} and "
            f"biases.dtype() == {biases.aval.dtype._label}."
        )


def decode(codes: Any, scales: Any, biases: Any, how: Scheme, dtype: Any) -> Any:
    """Return the dequantized floats of codes, computed in float32 (or float64, for that dtype) and rounded once."""
    wide = jnp.float64 if dtype == jnp.float64 else jnp.float32
    groups = codes.reshape(*codes.shape[:-1], codes.shape[-1] // how.group_size, how.group_size)
    if how.mode == "affine":
        # CPUs have an instruction that converts int32, and the codes fit into int32.
        x = groups.astype(jnp.int32).astype(wide) * scales[..., None].astype(wide) + biases[..., None].astype(wide)
    else:
        x = from_e2m1(groups) if how.bits == 4 else from_e4m3(groups)
        x = x.astype(wide) * (from_e4m3(scales) if how.mode == "nvfp4" else from_e8m0(scales))[..., None].astype(wide)
    return x.astype(dtype).reshape(codes.shape)


def _dequantize_aval(scales: Aval, w: Aval, *more: Aval, how: Scheme, dtype: Dtype | None) -> Aval:
    affine = how.mode == "affine"
    parts = "scales and biases" if affine else "scales"
    if w.ndim < 2:
        raise ValueError(
            f"[dequantize] The matrix to be dequantized must have at least 2 dimension but it has only {w.ndim}."
        )
    if scales.shape[:-1] != w.shape[:-1] or (affine and more[0].shape[:-1] != w.shape[:-1]):
        raise ValueError(f"[dequantize] Shape of {parts} does not match the matrix")
    if not affine:
        _only("dequantize", how)
    for name, value in (("bits", how.bits), ("group_size", how.group_size)):
        if value <= 0:
            raise ValueError(f"[dequantize] Invalid value for {name}: {value}")
    size = w.shape[-1] * 32 // how.bits
    fits = w.shape[-1] * 32 % how.bits == 0 and size == scales.shape[-1] * how.group_size
    if affine:
        fits = fits and how.bits in _AFFINE_BITS and more[0].shape[-1] in (1, scales.shape[-1])
    if not fits:
        both = "scales/biases" if affine else "scales"
        settings = f" with group_size={how.group_size} and bits={how.bits}" if affine else ""
        raise ValueError(
            f"[dequantize] Shape of {parts} does not match the matrix given the quantization parameters. Provided "
            f"matrix of shape {format_shape(w.shape)} and {both} of shape {format_shape(scales.shape)}{settings}."
        )
    if dtype is None:
        dtype = promote(scales.dtype, more[0].dtype) if affine else _d.float32 if more else _d.bfloat16
    if more and not affine:
        check_global_scale("dequantize", how, more[0])
    _check_rows(w)
    return aval((*w.shape[:-1], size), dtype)


def _dequantize_impl(scales: Any, w: Any, *more: Any, how: Scheme, dtype: Dtype | None) -> Any:
    codes = unpack(w, how.bits)
    if how.mode == "affine":
        (biases,) = more
        step = promote(from_numpy(scales.dtype), from_numpy(biases.dtype))._numpy  # type: ignore[arg-type]
        both = jnp.broadcast_arrays(scales.astype(step), biases.astype(step))
        scales, biases = (jnp.repeat(x, how.group_size, -1) for x in both)
        x = codes.astype(step) * scales + biases  # MLX rounds twice here
        return x if dtype is None else x.astype(dtype._numpy)
    out = dtype._numpy if dtype is not None else np.dtype(np.float32) if more else _d.bfloat16._numpy
    if not more:
        return decode(codes, scales, None, how, out)
    units = from_e4m3(scales) * quotient(jnp.reshape(more[0], ()), LARGEST)
    return (from_e2m1(codes) * jnp.repeat(units, how.group_size, -1)).astype(out)


DEQUANTIZE = op("dequantize", _dequantize_impl, _dequantize_aval, ("how", "dtype"), smooth=slice(None, None, 2))
"""The op of `dequantize`. Its inputs are the scales, the words, and the biases or the global scale."""


def dequantize(
    w: array, /, scales: array, biases: array | None = None, group_size: int | None = None, bits: int | None = None,
    mode: str = "affine", global_scale: array | None = None, dtype: Dtype | None = None, *, stream: Any = None,
) -> array:  # fmt: skip
    """Return the matrix for which `quantize` returned these arrays, except for rounding.

    Args:
        w: the packed elements, uint32 of shape (..., M, N * bits / 32).
        scales: the scales, of shape (..., M, N / group_size).
        biases: the biases, with the shape of the scales; in mode "affine" only.
        group_size: how many elements share a scale; None for the mode's default.
        bits: bits per element; None for the mode's default.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        global_scale: the global scale that was given to `quantize`; in mode "nvfp4" only.
        dtype: the dtype of the result. None means the dtype of scales and biases, or bfloat16 if scales are codes.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N).

    Raises:
        ValueError: if the mode, its settings, shapes or dtypes do not fit.

    Example:
        >>> mx.dequantize(*mx.quantize(mx.ones((8, 128)), bits=8), bits=8).shape
        (8, 128)
    """
    check_stream(stream)
    nodes = [require_array(scales, "dequantize"), require_array(w, "dequantize")]
    how = scheme("dequantize", mode, group_size, bits)
    if dtype is not None and require_dtype(dtype, "dequantize")._kind != "f":
        raise ValueError(f"[dequantize] Only real floating types are supported but output dtype == {dtype._label}.")
    bias = None if biases is None else require_array(biases, "dequantize")
    check_quantized("dequantize", nodes[0], bias, nodes[1], how)
    if global_scale is not None:
        scale = require_array(global_scale, "dequantize")
        check_global_scale("dequantize", how, scale.aval)
    if how.mode == "affine":
        nodes.append(bias)  # type: ignore[arg-type]
    elif global_scale is not None:
        nodes.append(scale)
    return wrap(apply(DEQUANTIZE, tuple(nodes), (how, dtype)))
