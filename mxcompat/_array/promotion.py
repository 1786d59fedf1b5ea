"""Promotion: the dtype of a result, given the dtypes of the operands.

The tables are MLX's, not JAX's. They decide every result dtype, and ops cast explicitly.
"""

from __future__ import annotations

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype

__all__ = ["promote", "scalar_dtype", "summed_dtype"]


def promote(a: Dtype, b: Dtype) -> Dtype:
    """Return the dtype of an arithmetic op on arrays of these dtypes."""
    return a if a is b else _TABLE[a, b]


def scalar_dtype(kind: type, like: Dtype | None) -> Dtype:
    """Return the dtype of a Python number of type `kind` next to an array of dtype `like` (None: without an array)."""
    return _SCALARS[kind, like]


def summed_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of a sum or product of an array's elements."""
    if dtype._kind in "bi" and dtype.size < 4:
        return _d.int32
    return _d.uint32 if dtype._kind == "u" and dtype.size < 4 else dtype


def _pair(a: Dtype, b: Dtype) -> Dtype:
    if a is b:
        return a
    ka, kb = a._kind, b._kind
    if ka == "c" or kb == "c":
        return _d.complex64
    if ka == "f" or kb == "f":
        if ka == kb:
            return _d.float32 if a.size == b.size else max(a, b, key=lambda d: d.size)
        return a if ka == "f" else b
    if ka == "b" or kb == "b":
        return b if ka == "b" else a
    if ka == kb:
        return max(a, b, key=lambda d: d.size)
    unsigned, signed = (a, b) if ka == "u" else (b, a)
    if unsigned.size < signed.size:
        return signed
    return {1: _d.int16, 2: _d.int32, 4: _d.int64, 8: _d.float32}[unsigned.size]


def _scalar(kind: type, like: Dtype | None) -> Dtype:
    if like is None:
        return {bool: _d.bool_, int: _d.int32, float: _d.float32, complex: _d.complex64}[kind]
    if kind is complex:
        return _d.complex64
    if kind is float:
        return like if like._kind in "fc" else _d.float32
    if kind is int:
        return like if like._kind != "b" else _d.int32
    return like


_TABLE = {(a, b): _pair(a, b) for a in _d.DTYPES for b in _d.DTYPES}
_SCALARS = {(kind, like): _scalar(kind, like) for kind in (bool, int, float, complex) for like in (*_d.DTYPES, None)}
