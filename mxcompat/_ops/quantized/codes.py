"""Quantization in NumPy: pack and unpack codes, convert small floats by tables, encode and decode groups.

The results have the same bits as those of `packing`, `fp8` and `quantize` on JAX arrays. Codes are uint8 here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from .fp8 import E2M1_FAR, E2M1_TIES, E4M3_MAX
from .quantize import LARGEST, Scheme, scale_of_others

__all__ = ["decode", "encode", "floats", "from_e4m3", "grouped", "pack", "rounded_through", "to_e4m3", "unpack"]

_f32 = np.float32
_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


def unpack(words: Any, bits: int) -> Any:
    """Return the codes of shape (..., 32 / bits * n) in uint32 words of shape (..., n)."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    if bits == 8:
        return octets
    lead = words.shape[:-1]
    count = words.shape[-1] * 32 // bits
    mask = (1 << bits) - 1
    if 8 % bits == 0:
        codes = np.empty((*octets.shape, 8 // bits), np.uint8)
        for k in range(8 // bits):
            np.right_shift(octets, np.uint8(bits * k), out=codes[..., k])
        codes &= np.uint8(mask)
        return codes.reshape(*lead, count)
    run, size = _lane(bits)
    octets = octets.reshape(*lead, count // run, size)
    codes = np.empty((*lead, count // run, run), np.uint8)
    for k in range(run):
        first, shift = divmod(bits * k, 8)
        value = octets[..., first] >> np.uint8(shift)
        if shift + bits > 8:
            value = value | (octets[..., first + 1] << np.uint8(8 - shift))
        codes[..., k] = value & np.uint8(mask)
    return codes.reshape(*lead, count)


def _lane(bits: int) -> tuple[int, int]:
    """Return the numbers of codes and of bytes in the shortest run of codes that fills whole bytes."""
    run = 8 if bits % 2 else 4
    return run, run * bits // 8


def pack(codes: Any, bits: int) -> Any:
    """Pack codes into words: the inverse of `unpack`."""
    lead, count = codes.shape[:-1], codes.shape[-1]
    if bits == 8:
        return np.ascontiguousarray(codes).view(np.uint32)
    run, size = (8 // bits, 1) if 8 % bits == 0 else _lane(bits)
    codes = codes.reshape(*lead, count // run, run)
    octets = np.zeros((*lead, count // run, size), np.uint8)
    for k in range(run):
        first, shift = divmod(bits * k, 8)
        octets[..., first] |= codes[..., k] << np.uint8(shift)
        if shift + bits > 8:
            octets[..., first + 1] |= codes[..., k] >> np.uint8(8 - shift)
    return octets.reshape(*lead, count * bits // 8).view(np.uint32)


def to_e4m3(x: Any) -> Any:
    """Return the e4m3 codes nearest to floats. Larger floats, and NaN, get the code of the largest value."""
    x = x.astype(_f32, copy=False)
    size = np.abs(x)
    size = np.where(size < _f32(E4M3_MAX), size, _f32(E4M3_MAX))
    return size.astype(_E4M3).view(np.uint8) | (np.signbit(x).view(np.uint8) << np.uint8(7))


@lru_cache(None)
def _small_floats(kind: str) -> Any:
    """Return the float32 values of all codes of a kind: "e4m3", "e2m1" or "e8m0"."""
    codes = np.arange(256)
    if kind == "e4m3":
        return codes.astype(np.uint8).view(_E4M3).astype(_f32)
    if kind == "e8m0":
        return np.where(codes == 0, 1 << 22, codes << 23).astype(np.uint32).view(_f32)
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], _f32)
    return np.concatenate([sizes, -sizes])


def from_e4m3(codes: Any) -> Any:
    """Return the float32 values of e4m3 codes."""
    return _small_floats("e4m3")[codes]


def _to_e2m1(x: Any) -> Any:
    """Return the e2m1 codes nearest to floats, with the ties of `fp8.to_e2m1`."""
    size = np.abs(x)
    code = np.searchsorted(np.array(E2M1_TIES, _f32), np.where(size <= _f32(E2M1_FAR), size, _f32(0))).astype(np.uint8)
    return np.where((x < 0) & (code > 0), code | np.uint8(8), code)


def _to_e8m0(x: Any) -> Any:
    """Return the codes of nonnegative floats, each rounded up to a power of two as `fp8.to_e8m0` does."""
    bits = np.ascontiguousarray(x, _f32).view(np.uint32)
    exponent = ((bits >> np.uint32(23)).astype(np.int32) - 127).astype(_f32)
    fraction = (bits & np.uint32(0x7FFFFF)).astype(_f32) * _f32(np.log2(np.e) * 2**-23)
    above = np.ceil(exponent + np.minimum(fraction, _f32(1)))
    code = np.clip(above + _f32(127), _f32(0), _f32(254)).astype(np.uint8)
    return np.where(x == 0, np.uint8(127), code)


def grouped(x: Any, how: Scheme) -> Any:
    return x.reshape(*x.shape[:-1], x.shape[-1] // how.group_size, how.group_size)


def _quotient(x: Any, divisor: Any) -> Any:
    """Return x / divisor, rounded once to the dtype of x."""
    if x.dtype == _f32:
        return x / np.asarray(divisor, _f32)
    return (x.astype(np.float64) / np.asarray(divisor, np.float64)).astype(x.dtype)


def encode(w: Any, how: Scheme, global_scale: Any = None) -> tuple[Any, ...]:
    """Return the codes (uint8, the shape of w), the scales and, in mode "affine", the biases of floats."""
    groups = grouped(w, how)
    if how.mode == "affine":
        codes, *scales = _affine(groups, how.bits)
    elif how.mode == "nvfp4":
        codes, *scales = _scaled_e2m1(groups, global_scale)
    else:
        x = groups.astype(_f32, copy=False)
        top = _quotient(np.abs(x).max(-1), 6.0 if how.bits == 4 else E4M3_MAX)
        scale, finite = _to_e8m0(top), top < _f32(np.inf)
        x = x / np.where(finite, _small_floats("e8m0")[scale], _f32(0))[..., None]
        scale = np.where(finite, scale, np.uint8(scale_of_others(w.dtype)))
        codes, scales = _to_e2m1(x) if how.bits == 4 else to_e4m3(x), [scale]
    return codes.reshape(w.shape), *scales


def _affine(groups: Any, bits: int) -> tuple[Any, Any, Any]:
    x = groups.astype(_f32, copy=False)
    low, high = np.fmin.reduce(x, -1, initial=_f32(np.inf)), np.fmax.reduce(x, -1, initial=_f32(-np.inf))
    steps = _f32((1 << bits) - 1)
    scale = np.maximum((high - low) / steps, _f32(1e-7))
    bias = low
    if bits > 1:
        below = np.abs(low) > np.abs(high)
        scale = np.where(below, scale, -scale)
        edge = np.where(below, low, high)
        code = np.rint(edge / scale)
        some = code != 0
        scale = np.where(some, edge / np.where(some, code, _f32(1)), scale)
        bias = np.where(some, edge, _f32(0))
    codes = x - bias[..., None]
    np.divide(codes, scale[..., None], codes)
    np.rint(codes, codes)
    codes = np.clip(codes, _f32(0), steps, out=codes).astype(np.uint8)
    return codes, scale.astype(groups.dtype), bias.astype(groups.dtype)


def _scaled_e2m1(groups: Any, global_scale: Any) -> tuple[Any, Any]:
    scale = _quotient(np.abs(groups).max(-1), 6)
    up = None
    if global_scale is not None:
        up = LARGEST / global_scale.reshape(())
        scale = scale.astype(_f32) * up
    scale = to_e4m3(scale)
    unit = from_e4m3(scale)[..., None]
    x = _quotient(groups, np.where(unit == 0, _f32(1), unit).astype(groups.dtype))
    x = x if up is None else x.astype(_f32) * up
    return np.where(unit == 0, np.uint8(0), _to_e2m1(x)), scale


def _unit(scales: Any, how: Scheme) -> Any:
    """Return the float32 values of the scales of a mode other than "affine"."""
    return _small_floats("e4m3" if how.mode == "nvfp4" else "e8m0")[scales]


@lru_cache(None)
def _pairs(kind: str) -> Any:
    """Return a table with the two float32 values of each byte's nibbles, as one complex64 item."""
    values = _small_floats(kind) if kind == "e2m1" else np.arange(16, dtype=_f32)
    octets = np.arange(256)
    return np.stack([values[octets & 15], values[octets >> 4]], -1).view(np.complex64)[:, 0]


def floats(words: Any, how: Scheme) -> Any:
    """Return the float32 values of packed codes, without scales."""
    affine = how.mode == "affine"
    if how.bits == 4:
        octets = np.ascontiguousarray(words).view(np.uint8)
        return _pairs("" if affine else "e2m1").take(octets).view(_f32)
    codes = unpack(words, how.bits)
    return codes.astype(_f32) if affine else _small_floats("e4m3").take(codes)


def decode(words: Any, scales: Any, biases: Any, how: Scheme, dtype: Any = _f32) -> Any:
    """Return the dequantized floats of packed codes, in float32 or float64."""
    return _scaled(floats(words, how).astype(dtype, copy=False), scales, biases, how)


def _scaled(values: Any, scales: Any, biases: Any, how: Scheme) -> Any:
    """Multiply values in place by the scales of their groups, and add the biases."""
    x = grouped(values, how)
    if how.mode == "affine":
        x *= scales[..., None].astype(x.dtype, copy=False)
        x += biases[..., None].astype(x.dtype, copy=False)
    else:
        x *= _unit(scales, how)[..., None].astype(x.dtype, copy=False)
    return values


def rounded_through(x: Any, how: Scheme, global_scale: Any = None) -> Any:
    """Return x rounded by quantization, in float32."""
    codes, scales, *biases = encode(x, how, global_scale)
    if how.mode == "affine":
        values = codes.astype(_f32)
    else:
        values = _small_floats("e2m1" if how.bits == 4 else "e4m3").take(codes)
    out = _scaled(values, scales, biases[0] if biases else None, how)
    return out if global_scale is None else out * (global_scale.reshape(()) / LARGEST)
