"""Questions about dtypes: categories, promotion, casting, and the limits of floating-point and integer types."""

from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype
from mxcompat._graph.ir.fixed import Fixed

from .array import array
from .errors import expected
from .promotion import promote

__all__ = [
    "DtypeCategory", "can_cast", "complexfloating", "finfo", "floating", "generic", "iinfo", "inexact", "integer",
    "isdtype", "issubdtype", "number", "result_type", "signedinteger", "unsignedinteger",
]  # fmt: skip


class DtypeCategory(enum.Enum):
    """A category, which is a set of dtypes: see `issubdtype`.

    Example:
        >>> mx.DtypeCategory.floating
        DtypeCategory.floating
        >>> mx.issubdtype(mx.float32, mx.DtypeCategory.floating)
        True
    """

    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7

    def __repr__(self) -> str:
        return f"DtypeCategory.{self.name}"

    __str__ = __repr__


complexfloating = DtypeCategory.complexfloating
floating = DtypeCategory.floating
inexact = DtypeCategory.inexact
signedinteger = DtypeCategory.signedinteger
unsignedinteger = DtypeCategory.unsignedinteger
integer = DtypeCategory.integer
number = DtypeCategory.number
generic = DtypeCategory.generic

_PARENT = {
    complexfloating: inexact, floating: inexact, inexact: number, signedinteger: integer, unsignedinteger: integer,
    integer: number, number: generic, generic: None,
}  # fmt: skip
_CATEGORY = {"b": generic, "u": unsignedinteger, "i": signedinteger, "f": floating, "c": complexfloating}


def issubdtype(arg1: Dtype | DtypeCategory, arg2: Dtype | DtypeCategory, /) -> bool:
    """Return True if a dtype or category is part of another.

    Args:
        arg1: the dtype or category to test.
        arg2: a category, or a dtype, which contains only itself.

    Returns:
        A bool.

    Raises:
        ValueError: if an argument is neither a dtype nor a category.
        TypeError: if an argument is None.

    Example:
        >>> mx.issubdtype(mx.float32, mx.floating)
        True
        >>> mx.issubdtype(mx.float64, mx.float32)
        False
    """
    if arg1 is None or arg2 is None:
        raise TypeError("issubdtype: expected dtypes or categories, got None")
    for arg, place in ((arg1, "first"), (arg2, "second")):
        if not isinstance(arg, (Dtype, DtypeCategory)):
            raise ValueError(f"[issubdtype] Received invalid type for {place} input.")
    if arg1 is arg2 or isinstance(arg2, Dtype):
        return arg1 is arg2
    at = _CATEGORY[arg1._kind] if isinstance(arg1, Dtype) else arg1
    while at is not None and at is not arg2:
        at = _PARENT[at]
    return at is arg2


_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Return True if a dtype is of a kind, or of one of several kinds.

    Args:
        dtype: the dtype to test.
        kind: a dtype; "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" or
            "numeric"; or a tuple of such.

    Returns:
        A bool.

    Raises:
        ValueError: if a kind is unknown.
        TypeError: if the first argument is not a dtype.

    Example:
        >>> mx.isdtype(mx.float32, ("integral", "real floating"))
        True
    """
    if not isinstance(dtype, Dtype):
        raise expected("isdtype", "a Dtype", dtype)
    if kind is None:
        raise expected("isdtype", "a kind", kind)
    return any(_is_of(dtype, k) for k in (kind if isinstance(kind, tuple) else (kind,)))


def _is_of(dtype: Dtype, kind: Any) -> bool:
    if isinstance(kind, Dtype):
        return dtype is kind
    if not isinstance(kind, str):
        raise ValueError("[isdtype] `kind` must be a dtype, a string, or a tuple of dtypes and strings.")
    if kind not in _KINDS:
        raise ValueError(f"[isdtype] Unknown data type kind: '{kind}'.")
    return dtype._kind in _KINDS[kind]


def _dtype_of(x: Any) -> Dtype | None:
    return x._node.aval.dtype if isinstance(x, array) else x if isinstance(x, Dtype) else None


def result_type(*arrays_and_dtypes: array | Dtype) -> Dtype:
    """Return the dtype that arrays and dtypes promote to.

    Args:
        *arrays_and_dtypes: arrays or dtypes.

    Returns:
        A dtype.

    Raises:
        ValueError: if there are no arguments, or one is neither an array nor a dtype.

    Example:
        >>> mx.result_type(mx.int8, mx.uint8)
        mlx.core.int16
    """
    if not arrays_and_dtypes:
        raise ValueError("[result_type] At least one array or dtype is required.")
    out = None
    for x in arrays_and_dtypes:
        dtype = _dtype_of(x)
        if dtype is None:
            raise ValueError("[result_type] Inputs must be arrays or dtypes.")
        out = dtype if out is None else promote(out, dtype)
    return out  # type: ignore[return-value]


def can_cast(from_: array | Dtype, to: Dtype) -> bool:
    """Return True if promoting a dtype with `to` gives `to`.

    Args:
        from_: an array or a dtype.
        to: a dtype.

    Returns:
        A bool.

    Raises:
        ValueError: if `from_` is neither an array nor a dtype.
        TypeError: if `to` is not a dtype.

    Example:
        >>> mx.can_cast(mx.int8, mx.int16), mx.can_cast(mx.int16, mx.int8)
        (True, False)
    """
    if not isinstance(to, Dtype):
        raise expected("can_cast", "a Dtype", to)
    dtype = _dtype_of(from_)
    if from_ is None:
        raise expected("can_cast", "an array or a Dtype", from_)
    if dtype is None:
        raise ValueError("[can_cast] `from_` must be an array or a dtype.")
    return promote(dtype, to) is to


def _checked(arg: Any, name: str) -> Dtype:
    if not isinstance(arg, Dtype):
        raise expected(name, "a Dtype", arg)
    return arg


class finfo(Fixed):
    """The limits of a floating-point dtype. For a complex dtype, they are the limits of its parts.

    `min` and `max` are the finite limits, and `eps` is the gap between 1 and the next larger number. `smallest_normal`
    is the smallest positive number of full precision. `bits` is the width, and `dtype` the dtype.

    Args:
        arg: the dtype.

    Raises:
        ValueError: for an integer dtype or bool.
        TypeError: for an object that is not a dtype.

    Example:
        >>> mx.finfo(mx.float16).max
        65504.0
        >>> mx.finfo(mx.complex64).dtype
        mlx.core.float32
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "smallest_normal")

    def __init__(self, arg: Dtype, /) -> None:
        dtype = _checked(arg, "finfo")
        if dtype._kind not in "fc":
            raise ValueError(f"[finfo] dtype {dtype._label} is not inexact.")
        info = ml_dtypes.finfo(dtype._numpy)
        self.dtype = _d.float32 if dtype._kind == "c" else dtype
        self.bits: int = int(info.bits)
        self.min = float(info.min)
        self.max = float(info.max)
        self.eps = float(info.eps)
        self.smallest_normal = float(info.smallest_normal)

    def __repr__(self) -> str:
        return f"finfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype._label})"


class iinfo(Fixed):
    """The limits of an integer dtype: `min`, `max` and `dtype`.

    Args:
        arg: the dtype.

    Raises:
        ValueError: for a dtype that is not an integer.
        TypeError: for an object that is not a dtype.

    Example:
        >>> mx.iinfo(mx.int8).min, mx.iinfo(mx.int8).max
        (-128, 127)
    """

    __slots__ = ("dtype", "max", "min")

    def __init__(self, arg: Dtype, /) -> None:
        dtype = _checked(arg, "iinfo")
        if dtype._kind not in "iu":
            raise ValueError(f"[iinfo] Only integer types supported but {dtype._label} was provided")
        info: Any = np.iinfo(dtype._numpy)  # type: ignore[call-overload]
        self.dtype = dtype
        self.min = int(info.min)
        self.max = int(info.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype._label})"
