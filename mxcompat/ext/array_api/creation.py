"""Creation functions of the standard. A `device` selects where they run, as a stream does in MLX."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat import core as mx
from mxcompat._jax import is_array
from mxcompat.core import Device, Dtype, array

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | tuple[int, ...]

_DEFAULTS = {"b": mx.bool_, "i": mx.int32, "u": mx.uint64, "f": mx.float32, "c": mx.complex64}
"""The default dtype of Python numbers, by NumPy's kind."""


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Dtype | None = None,
    device: Device | None = None,
) -> array:  # fmt: skip
    """Return evenly spaced numbers from `start` up to, but not including, `stop`; from 0 to `start` if `stop` is
    None."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(n, int) for n in (start, stop, step))
        dtype = mx.int32 if whole else mx.float32
    numbers = np.arange(float(start) if dtype._kind == "f" else start, stop, step)
    return mx.array(numbers.astype(dtype._numpy), dtype)


def asarray(
    obj: Any, /, *, dtype: Dtype | None = None, device: Device | None = None, copy: bool | None = None
) -> array:
    """Convert a number, nested lists or tuples, or an object with the buffer or DLPack protocol to an array.

    Unlike `mx.array`, it keeps the double precision of NumPy and JAX arrays.

    Raises:
        ValueError: if `copy` is False and a copy is needed.
        OverflowError: for numbers beyond the range of the dtype.
    """
    if isinstance(obj, array) or is_array(obj) or copy is False:
        return mx.asarray(obj, dtype, copy=copy)
    if isinstance(obj, (bool, int, float, complex, list, tuple)) and not _holds_array(obj):
        data = np.asarray(obj, None if dtype is None else dtype._numpy)
        if dtype is None and not isinstance(obj, np.generic):
            dtype = _DEFAULTS[data.dtype.kind]
            if dtype is mx.int32 and data.size and not -(2**31) <= data.min() <= data.max() < 2**31:
                dtype = mx.int64
        obj = data
    if dtype is None and isinstance(obj, (np.ndarray, np.generic)) and obj.dtype == np.float64:
        dtype = mx.float64
    return mx.array(obj, dtype)


def _holds_array(obj: Any) -> bool:
    return isinstance(obj, array) or (isinstance(obj, (list, tuple)) and any(map(_holds_array, obj)))


def empty(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return an array of this shape; its elements are zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: array, /, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return an array of zeros with the shape of `x`, and by default its dtype."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype | None = None, device: Device | None = None
) -> array:
    """Return a matrix with ones on diagonal k and zeros elsewhere."""
    return mx.eye(n_rows, n_cols, k, dtype or mx.float32, stream=device)


def from_dlpack(x: Any, /, *, device: Device | None = None, copy: bool | None = None) -> array:
    """Convert an object with the DLPack protocol to an array."""
    return mx.from_dlpack(x, copy=copy)


def full(shape: Shape, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return an array filled with one number, by default with the dtype of that number."""
    value = asarray(fill_value, dtype=dtype)
    return mx.broadcast_to(value, (shape,) if isinstance(shape, int) else tuple(shape), stream=device)


def full_like(x: array, /, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return an array filled with one number, with the shape of `x`, and its dtype by default."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Dtype | None = None, device: Device | None = None,
    endpoint: bool = True,
) -> array:  # fmt: skip
    """Return `num` evenly spaced numbers from `start` to `stop`. With `endpoint`, `stop` is the last of them."""
    numbers = np.linspace(start, stop, num, endpoint=endpoint)
    dtype = dtype or (mx.complex64 if numbers.dtype.kind == "c" else mx.float32)
    return mx.array(numbers.astype(dtype._numpy), dtype)


def meshgrid(*arrays: array, indexing: str = "xy") -> list[array]:
    """Return coordinate arrays of a grid, given the coordinates along each axis."""
    return list(mx.meshgrid(*arrays, indexing=indexing)) if arrays else []


def ones(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return an array of ones."""
    return mx.ones(shape, dtype or mx.float32, stream=device)


def ones_like(x: array, /, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return ones with the shape of `x`, and its dtype by default."""
    return mx.ones(x.shape, dtype or x.dtype, stream=device)


def tril(x: array, /, *, k: int = 0) -> array:
    """Return the lower triangles of matrices: the elements on and below diagonal k."""
    return mx.tril(x, k)


def triu(x: array, /, *, k: int = 0) -> array:
    """Return the upper triangles of matrices: the elements on and above diagonal k."""
    return mx.triu(x, k)


def zeros(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return an array of zeros."""
    return mx.zeros(shape, dtype or mx.float32, stream=device)


def zeros_like(x: array, /, *, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return zeros with the shape of `x`, and its dtype by default."""
    return mx.zeros(x.shape, dtype or x.dtype, stream=device)
