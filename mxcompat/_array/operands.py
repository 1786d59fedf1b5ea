"""Operands: convert the arguments of an op to nodes.

A Python number is weak: it takes its dtype from the other operand's array. All other values (NumPy, JAX, …) are cast to
the other array's dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import Node, scalar

from .array import array
from .construct import as_node, exports, holds, invalid, natural_dtype, node_of
from .errors import bad_cast
from .promotion import scalar_dtype

__all__ = ["node", "operand", "pair", "scalar_node"]


def node(value: Any, like: Dtype | None = None) -> Node:
    """Return the node of an operand.

    Args:
        value: the operand.
        like: the dtype of the other operand, if that is an array.

    Raises:
        ValueError: if `value` cannot become an array, or is a number outside the range of its dtype.
        TypeError: if `value` is None.
    """
    result = operand(value, like)
    if result is None:
        raise invalid(value)
    return result


def operand(value: Any, like: Dtype | None = None) -> Node | None:
    """Return the node of an operand as `node` does, or None if it cannot become an array."""
    kind = type(value)
    if kind is array:
        return value._node
    if kind is float and value:
        a = _FLOATS[like]
        return scalar(value if a is not _COMPLEX else complex(value), a)
    if kind is int:
        a, low, high, convert = _INTS[like]
        if low <= value <= high:
            return scalar(convert(value) if convert is not None else value, a)
    if kind is int or kind is float or kind is bool or kind is complex:
        return scalar_node(value, scalar_dtype(kind, like) if like is not None else natural_dtype(value))
    return _unusual(value, like)


def _unusual(value: Any, like: Dtype | None) -> Node | None:
    """Convert an operand that is neither an array nor a plain number."""
    if isinstance(value, (int, float)):  # convert subclasses of numbers, such as NumPy's float64
        plain = bool(value) if isinstance(value, bool) else int(value) if isinstance(value, int) else float(value)
        return operand(plain, like)
    if isinstance(getattr(value, "_node", None), Node):
        return value._node
    if hasattr(type(value), "__mlx_array__"):
        return node_of(value)
    if isinstance(value, np.ndarray) and not holds(value.dtype) and not exports(value):
        return None
    node = as_node(value, like)
    if (
        node is None
        and not isinstance(value, str)
        and any(hasattr(type(value), name) for name in ("__complex__", "__float__", "__index__"))
    ):
        return operand(complex(value), like)
    return node


def scalar_node(value: Any, dtype: Dtype) -> Node:
    """Return a leaf for a Python number in this dtype."""
    kind = dtype._kind
    if type(value) is int and not -(2**63) <= value < _LIMIT[dtype]:
        raise bad_cast(f"{value} does not fit in 64 bits")
    if kind == "f":
        value = float(value)
        if value == 0.0 and str(value)[0] == "-":  # -0.0 equals 0.0 but must not share its cached value
            return node_of(value, dtype)
    elif kind == "c":
        value = complex(value)
        if "-0" in repr(value):
            return node_of(value, dtype)
    elif kind == "b":
        value = bool(value)
    else:
        value = int(value)
        low, high = _RANGES[dtype]
        if not low <= value <= high:
            raise ValueError(f"Converting {value} to {dtype._label} would result in overflow.")
        if dtype is _d.uint64:
            value %= 2**64
    return scalar(value, _ZERO_DIM[dtype])


def pair(a: Any, b: Any) -> tuple[Node, Node]:
    """Return the nodes of the two operands of a binary op."""
    if type(a) is array:
        x = a._node
        return x, b._node if type(b) is array else node(b, x.aval.dtype)
    if type(b) is array:
        y = b._node
        return node(a, y.aval.dtype), y
    return node(a), node(b)


_ZERO_DIM = {d: aval((), d) for d in _d.DTYPES}
_FLOATS = {d: _ZERO_DIM[scalar_dtype(float, d)] for d in (*_d.DTYPES, None)}
_COMPLEX = _ZERO_DIM[_d.complex64]
_LIMIT = {d: 2**64 if d is _d.uint64 else 2**63 for d in _d.DTYPES}
_RANGES: dict[Dtype, tuple[int, int]] = {
    d: (-(2 ** (8 * d.size - 1)), 2 ** (8 * d.size - 1) - 1) if d._kind == "i" else (0, 2 ** (8 * d.size) - 1)
    for d in _d.DTYPES
    if d._kind in "iu"
}
_RANGES[_d.uint64] = (-(2**63), 2**64 - 1)  # a negative number wraps around


def _int(like: Dtype | None) -> tuple[Aval, int, int, Any]:
    """Return the aval of a Python int next to an array of this dtype, its valid range, and a function that converts
    it."""
    dtype = scalar_dtype(int, like)
    if like is _d.bool_:  # keep the lower 32 bits: MLX checks the range only next to arrays of integers
        return _ZERO_DIM[dtype], -(2**63), 2**63 - 1, lambda value: (value + 2**31) % 2**32 - 2**31
    low, high = _RANGES.get(dtype, (-(2**63), 2**63 - 1))
    convert = (lambda value: value % 2**64) if dtype is _d.uint64 else {"f": float, "c": complex}.get(dtype._kind)
    return _ZERO_DIM[dtype], low, high, convert


_INTS = {d: _int(d) for d in (*_d.DTYPES, None)}
