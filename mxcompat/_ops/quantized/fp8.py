"""Floats of 8 and 4 bits: `to_fp8`, `from_fp8`, and the conversions for quantization.

All conversions are integer arithmetic on the bits of a float32. So XLA fuses them into the op that reads the result,
and they round in the same way on every backend.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax

from ..arguments import require_array, require_dtype
from ..define import op

__all__ = [
    "E2M1_FAR", "E2M1_TIES", "E4M3_MAX", "FROM_FP8", "TO_FP8", "from_e2m1", "from_e4m3", "from_e8m0", "from_fp8",
    "to_e2m1", "to_e4m3", "to_e8m0", "to_fp8",
]  # fmt: skip

_u32, _f32 = np.uint32, np.float32
E4M3_MAX = 448.0
E2M1_TIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # the midpoints between 0, 0.5, 1, 1.5, 2, 3, 4, 6
E2M1_FAR = 2.0**27


def _bits(x: Any) -> Any:
    return lax.bitcast_convert_type(x, jnp.uint32)


def _float(bits: Any) -> Any:
    return lax.bitcast_convert_type(bits, jnp.float32)


def to_e4m3(x: Any) -> Any:
    """Return the e4m3 codes (uint32) nearest to floats. Larger floats, and NaN, get the code of the largest value."""
    x = x.astype(jnp.float32)
    sign = _bits(x) >> _u32(31)
    size = jnp.abs(x)
    size = jnp.where(size < _f32(E4M3_MAX), size, _f32(E4M3_MAX))
    bits = _bits(size)
    rounded = (bits + _u32(0x7FFFF) + ((bits >> _u32(20)) & _u32(1))) >> _u32(20)
    tiny = jnp.round(size * _f32(512)).astype(jnp.uint32)  # below 2^-6 the codes are multiples of 2^-9
    code = jnp.where(size < _f32(2**-6), tiny, rounded - _u32(120 << 3))
    return (sign << _u32(7)) | code


def from_e4m3(code: Any) -> Any:
    """Return the float32 values of e4m3 codes."""
    code = code.astype(jnp.uint32)
    size = code & _u32(0x7F)
    normal = _float((size << _u32(20)) + _u32(120 << 23))
    value = jnp.where(size < _u32(8), size.astype(jnp.float32) * _f32(2**-9), normal)
    value = jnp.where(size == _u32(0x7F), _f32(np.nan), value)
    return jnp.where(code > _u32(0x7F), -value, value)


def to_e2m1(x: Any) -> Any:
    """Return the e2m1 codes (uint32) nearest to floats.

    Ties go towards zero, and the code of -0 is never used. Beyond `E2M1_FAR`, a float has the same rounded distance to
    all codes, and gets the first code.
    """
    x = x.astype(jnp.float32)
    size = jnp.abs(x)
    size = jnp.where(size <= _f32(E2M1_FAR), size, _f32(0))
    code = sum((size > _f32(tie)).astype(jnp.uint32) for tie in E2M1_TIES)
    return jnp.where((x < 0) & (code > 0), code | _u32(8), code)


def from_e2m1(code: Any) -> Any:
    """Return the float32 values of e2m1 codes."""
    # this constant holds a table of the doubled values, as nibbles
    size = (_u32(0xC8643210) >> ((code & _u32(7)) << _u32(2))) & _u32(15)
    value = size.astype(jnp.int32).astype(jnp.float32) * _f32(0.5)
    return jnp.where((code & _u32(8)) != 0, -value, value)


def to_e8m0(x: Any) -> Any:
    """Return the codes (uint32) of nonnegative floats, each rounded up to a power of two. 0 gets the code of 1.

    As in MLX, the exponent comes from a logarithm rounded to float32. So a float just above a power of two may get the
    code of that power.
    """
    bits = _bits(x.astype(jnp.float32))
    exponent = (bits >> _u32(23)).astype(jnp.int32) - 127
    fraction = (bits & _u32(0x7FFFFF)).astype(jnp.int32).astype(jnp.float32) * _f32(np.log2(np.e) * 2**-23)
    above = jnp.ceil(exponent.astype(jnp.float32) + jnp.minimum(fraction, _f32(1)))
    code = jnp.clip(above + _f32(127), 0, 254).astype(jnp.uint32)
    return jnp.where(x == 0, _u32(127), code)


def from_e8m0(code: Any) -> Any:
    """Return the float32 values of the codes of powers of two."""
    code = code.astype(jnp.uint32)
    return _float(jnp.where(code == 0, _u32(1 << 22), code << _u32(23)))


def _to_aval(x: Aval) -> Aval:
    if x.dtype._kind != "f":
        raise ValueError(f"[to_fp8] Only real floating types are supported but x.dtype() == {x.dtype._label}.")
    return aval(x.shape, _d.uint8)


def _from_aval(x: Aval, dtype: Dtype) -> Aval:
    if x.dtype is not _d.uint8:
        raise ValueError(f"[from_fp8] Input must have type uint8 but x.dtype() == {x.dtype._label}.")
    if dtype._kind != "f":
        raise ValueError(f"[from_fp8] Only real floating types are supported but dtype == {dtype._label}.")
    return aval(x.shape, dtype)


TO_FP8 = op("to_fp8", lambda x: to_e4m3(x).astype(jnp.uint8), _to_aval)
FROM_FP8 = op("from_fp8", lambda x, dtype: from_e4m3(x).astype(dtype._numpy), _from_aval, ("dtype",))


def to_fp8(x: array, *, stream: Any = None) -> array:
    """Convert floats to the nearest 8-bit floats (e4m3).

    Args:
        x: a float array of any shape.
        stream: accepted, and ignored.

    Returns:
        A uint8 array with the shape of `x`: the codes. Values beyond 448, and NaN, become ±448.

    Raises:
        ValueError: if `x` is not a real float array.

    Example:
        >>> mx.to_fp8(mx.array([1.0, 1000.0]))
        array([56, 126], dtype=uint8)
    """
    check_stream(stream)
    return wrap(apply(TO_FP8, (require_array(x, "to_fp8"),)))


def from_fp8(x: array, dtype: Dtype = _d.bfloat16, *, stream: Any = None) -> array:
    """Convert 8-bit floats (e4m3) to a float dtype.

    Args:
        x: a uint8 array of any shape: the codes.
        dtype: the real float dtype of the result.
        stream: accepted, and ignored.

    Returns:
        An array with the shape of `x` and that dtype.

    Raises:
        ValueError: if `x` is not a uint8 array, or `dtype` is not a real float.

    Example:
        >>> mx.from_fp8(mx.array([56, 126], dtype=mx.uint8))
        array([1, 448], dtype=bfloat16)
    """
    check_stream(stream)
    require_dtype(dtype, "from_fp8")
    return wrap(apply(FROM_FP8, (require_array(x, "from_fp8"),), (dtype,)))
