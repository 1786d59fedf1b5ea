"""Dtypes and avals: the shape and dtype of an array, known before its value.

Avals are interned, so that comparing and hashing them is as fast as comparing identities. Every call of an op looks up
its shape rule's result by avals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import ml_dtypes
import numpy as np

from mxcompat._compat.references import of_entry

from .. import policy
from .fixed import Fixed

__all__ = [
    "AVALS", "DTYPES", "Aval", "Dtype", "aval", "bfloat16", "bool_", "check_axes", "check_size", "complex64", "float16",
    "float32", "float64", "format_shape", "from_numpy", "int8", "int16", "int32", "int64", "is_known", "number",
    "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


class Dtype(Fixed):
    """The element type of an array: one of the singletons `mx.bool_` … `mx.complex64`.

    `size` is its width in bytes. Two dtypes are equal only if they are the same object. Other attributes are private:
    programs recognize MLX's dtypes by their lack of NumPy's `name` and `kind`.
    """

    __slots__ = ("_kind", "_label", "_numpy", "size")

    if TYPE_CHECKING:
        _label: str
        _kind: str  # 'b'ool, 'u'nsigned, 'i'nteger, 'f'loat or 'c'omplex
        _numpy: np.dtype
        size: int

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("mlx.core.Dtype: no constructor defined!")

    def __repr__(self) -> str:
        return f"mlx.core.{self._label}"

    def __reduce__(self) -> str | tuple:
        return _dtype_named, (self._label,)

    def __copy__(self) -> Dtype:
        return self

    def __deepcopy__(self, memo: dict) -> Dtype:
        return self


def _dtype(label: str, kind: str, numpy_type: type) -> Dtype:
    dtype = object.__new__(Dtype)
    dtype._label, dtype._kind, dtype._numpy = label, kind, np.dtype(numpy_type)
    dtype.size = dtype._numpy.itemsize
    return dtype


bool_ = _dtype("bool", "b", np.bool_)
uint8 = _dtype("uint8", "u", np.uint8)
uint16 = _dtype("uint16", "u", np.uint16)
uint32 = _dtype("uint32", "u", np.uint32)
uint64 = _dtype("uint64", "u", np.uint64)
int8 = _dtype("int8", "i", np.int8)
int16 = _dtype("int16", "i", np.int16)
int32 = _dtype("int32", "i", np.int32)
int64 = _dtype("int64", "i", np.int64)
float16 = _dtype("float16", "f", np.float16)
bfloat16 = _dtype("bfloat16", "f", ml_dtypes.bfloat16)
float32 = _dtype("float32", "f", np.float32)
float64 = _dtype("float64", "f", np.float64)
complex64 = _dtype("complex64", "c", np.complex64)

DTYPES = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64,
)  # fmt: skip

_BY_NAME = {d._label: d for d in DTYPES}
_BY_NUMPY = {d._numpy: d for d in DTYPES}


def _dtype_named(name: str) -> Dtype:
    return _BY_NAME[name]


def from_numpy(dtype: object) -> Dtype | None:
    """Return the Dtype for a NumPy dtype, or None if MLX has no such dtype (complex128, strings, …)."""
    return _BY_NUMPY.get(np.dtype(dtype))  # type: ignore[call-overload]


class Aval:
    """A shape and a dtype. Make one with `aval(shape, dtype)`: equal avals are the same object."""

    __slots__ = ("dtype", "nbytes", "ndim", "shape", "size")

    shape: tuple[int, ...]
    dtype: Dtype
    ndim: int
    size: int
    nbytes: int

    def __repr__(self) -> str:
        return f"{self.dtype._label}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple:
        return aval, (self.shape, self.dtype)


AVALS: dict[tuple[tuple[int, ...], Dtype], Aval] = {}
"""All avals, by shape and dtype."""

_most = policy.MOST_AVALS

_LONGEST_AXIS = (1 << 31) - 1
"""The largest length of an axis, which MLX stores in 32 bits."""

_MOST_BYTES = (1 << 63) - 1
"""The largest size of an array. XLA ends the process if a size exceeds this."""


def aval(shape: tuple[int, ...], dtype: Dtype) -> Aval:
    """Return the Aval with this shape and dtype. Raise OverflowError or RuntimeError if no such array can exist."""
    interned = AVALS.get((shape, dtype))
    if interned is None:
        interned = Aval()
        if is_known(shape):
            shape = tuple(map(int, shape))
            check_size(shape, dtype.size)
        interned.shape = shape
        interned.dtype = dtype
        interned.ndim = len(shape)
        interned.size = math.prod(shape)
        interned.nbytes = interned.size * dtype.size
        if len(AVALS) >= _most:
            _forget_the_unused()
        interned = AVALS.setdefault((shape, dtype), interned)
    return interned


def _forget_the_unused() -> None:
    """Remove the avals that nothing refers to. Avals in use must stay, so that equal avals remain the same object."""
    global _most
    for key in list(AVALS):
        if of_entry(AVALS, key) == 0:
            del AVALS[key]
    _most = max(policy.MOST_AVALS, 2 * len(AVALS))


def is_known(shape: Sequence[Any]) -> bool:
    """Return True if all sizes are numbers. Some are symbols in a trace that is exported for any size."""
    return _INT.issuperset(map(type, shape)) or all(isinstance(n, (int, np.integer)) for n in shape)


_INT = frozenset([int])


def check_size(shape: Sequence[int], itemsize: int) -> None:
    """Raise an error for an array that cannot exist: OverflowError for an axis that is too long, RuntimeError for too
    many bytes."""
    check_axes(shape)
    size = math.prod([n for n in shape if n]) * itemsize
    if size > _MOST_BYTES:
        raise RuntimeError(f"[malloc] Unable to allocate {size} bytes, for an array of shape {format_shape(shape)}.")


def check_axes(shape: Sequence[int]) -> None:
    """Raise OverflowError for an axis that is longer than MLX supports."""
    longest = max(shape, default=0)
    if longest > _LONGEST_AXIS:
        raise OverflowError(
            f"Shape dimension {longest} is outside the supported range [-2147483648, 2147483647]. "
            "MLX currently uses 32-bit integers for shape dimensions."
        )


def number(value: Any, dtype: Dtype) -> Any:
    """Convert a Python number to a NumPy scalar. A number beyond the range of a float becomes infinite, as in MLX."""
    with np.errstate(all="ignore"):
        return dtype._numpy.type(value)


def format_shape(sizes: Iterable[int]) -> str:
    """Format a shape, or other sizes, as MLX's messages do."""
    return "(" + ",".join(map(str, sizes)) + ")"
