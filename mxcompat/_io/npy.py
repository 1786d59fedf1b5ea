"""The `.npy` format: a header, which is a Python literal, then one array. As in MLX, bfloat16 is written as `<V2`."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.array import array
from mxcompat._array.errors import expected
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype, from_numpy

from .reading import Source, StreamSource, deferred, source_of
from .writing import array_bytes, as_arrays, write, writing

__all__ = ["load_npy", "read_npy", "save", "write_npy"]

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000  # this is NumPy's own limit


def save(file: Any, arr: array) -> None:
    """Save an array in the `.npy` format.

    Args:
        file: a path, or a file object opened for binary writing. ".npy" is added to a path unless it ends with it. An
            existing file is replaced when the new one is complete.
        arr: the array, of any dtype; NumPy reads bfloat16 as raw `V2`.

    Raises:
        TypeError: if `arr` is not an array.
        RuntimeError: if the file cannot be opened.

    Example:
        >>> mx.save("weights.npy", mx.arange(3))
        >>> mx.load("weights.npy")
        array([0, 1, 2], dtype=int32)
    """
    if not isinstance(arr, array):
        raise expected("save", "an array", arr)
    (x,) = as_arrays([arr], "save")
    with writing(file, ".npy", "save") as opened:
        write_npy(opened, x)


def write_npy(file: Any, x: array) -> None:
    """Write an evaluated array."""
    write(file, _head(x))
    write(file, array_bytes(x))


def _head(x: array) -> bytes:
    """Return the header as MLX writes it. It is padded by the remainder of its size modulo 16, not to a multiple of
    16."""
    descr = "<V2" if x.dtype is _d.bfloat16 else x.dtype._numpy.str
    shape = "".join([f"{n}, " for n in x.shape])
    fortran = x.size <= 1 or x.size == max(x.shape)  # row and column order then give the same data
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({shape})}}"
    text += " " * ((len(_MAGIC) + 6 + len(text) + 1) % 16) + "\n"
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")


def load_npy(file: Any) -> array:
    """Return the array in a file, given by a path or as a file object."""
    source = source_of(file, "load" if isinstance(file, str) else "load_npy")
    x, end = read_npy(source)
    if isinstance(source, StreamSource):
        source.leave_at(end)
    return x


def read_npy(source: Source) -> tuple[array, int]:
    """Return the array at the start of a source, and its end. For a path, the data are read when they are needed.

    Raises:
        RuntimeError: if it is not a npy file, or is incomplete. For a path, missing data raise it when they are needed.
        ValueError: if it contains Python objects, strings or records.
    """
    descr, fortran, shape, start = _header(source)
    dtype = _dtype(descr)
    order = np.dtype(descr)
    count = 1
    for n in shape:
        count *= n

    def native(data: np.ndarray) -> np.ndarray:
        if order.byteorder == ">":
            data = data.view(order).astype(order.newbyteorder("<")).view(np.uint8)
        if fortran and len(shape) > 1:
            rows = data.view(dtype._numpy).reshape(shape[::-1]).T
            data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        return data

    return deferred(source, start, shape, dtype, native), start + count * dtype.size


def _header(source: Source) -> tuple[Any, bool, tuple[int, ...], int]:
    """Return the dtype, the order, the shape, and the end of the header."""
    invalid = RuntimeError(f"[load] Invalid header in {source.quoted}")
    lead = source.read(0, 8).tobytes()
    if lead[:6] != _MAGIC:
        raise invalid
    if lead[6] not in (1, 2):
        raise RuntimeError(f"[load] Unsupported npy format version in {source.quoted}")
    width = 2 if lead[6] == 1 else 4
    length = int.from_bytes(source.read(8, width).tobytes(), "little")
    if length > _LONGEST_HEADER:
        raise invalid
    text = source.read(8 + width, length).tobytes()
    try:
        descr, fortran, shape = _parsed(text)
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise invalid from error
    if not isinstance(shape, tuple) or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
        raise invalid
    return descr, bool(fortran), shape, 8 + width + length


@lru_cache(maxsize=64)
def _parsed(text: bytes) -> tuple[Any, Any, Any]:
    """Parse a header. Results are cached, because the members of an archive often have the same header."""
    header = ast.literal_eval(text.decode("latin1").strip())
    return header["descr"], header["fortran_order"], header["shape"]


def _dtype(descr: Any) -> Dtype:
    """Return the dtype of a type string."""
    if descr in ("<V2", "|V2"):
        return _d.bfloat16
    try:
        dtype = from_numpy(np.dtype(descr).newbyteorder("<")) if isinstance(descr, str) else None
    except TypeError:
        dtype = None
    if dtype is None:
        written = repr(descr)[1:4]  # MLX reads only this part of the text
        raise ValueError(f"[from_str] Unsupported array protocol type-string: {written}")
    return dtype
