"""The `.gguf` format of llama.cpp: keys and values, then tensors.

This module reads and writes the format itself. The `gguf` package is only needed to expand blocks of a quantization
that MLX's matmul does not take.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mxcompat._array.array import array
from mxcompat._array.errors import bad_cast, expected
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype

from .gguf_blocks import BLOCKS, REPACKED, TYPES, biases, expanded, scales, weights
from .order import as_written
from .reading import PathSource, array_of, deferred
from .writing import array_bytes, as_arrays, open_path, path_with, write

__all__ = ["load_gguf", "save_gguf"]

_KINDS = (
    _d.uint8, _d.int8, _d.uint16, _d.int16, _d.uint32, _d.int32, _d.float32, _d.bool_, None, None, _d.uint64, _d.int64,
    _d.float64,
)  # fmt: skip
"""The dtypes of metadata values, by their number in the file."""

_STRING, _ARRAY = 8, 9
_CODES = {dtype: code for code, dtype in enumerate(_KINDS) if dtype not in (None, _d.float64)}
_TENSORS = {_d.float32: 0, _d.float16: 1, _d.int8: 24, _d.int16: 25, _d.int32: 26}
_MOST_AXES = 8
_ALIGNMENT = 32


def save_gguf(file: Any, arrays: dict[str, array], metadata: dict[str, Any] | None = None) -> None:
    """Save arrays in the `.gguf` format.

    Args:
        file: a path. ".gguf" is added unless the path ends with it. An existing file is replaced when the new one is
            complete.
        arrays: the arrays by name: float32, float16, int8, int16 or int32.
        metadata: by name, arrays with at most one axis (of integers, bools or float32), strings, or lists of strings.

    Raises:
        TypeError: if `arrays` or `metadata` is not a dict.
        ValueError: if `file` is a file object, or an array in the metadata has another dtype.
        RuntimeError: for other dtypes and values, and if the file cannot be opened.

    Example:
        >>> mx.save_gguf("model", {"w": mx.ones((2, 2))}, {"general.name": "example"})
        >>> mx.load("model.gguf", return_metadata=True)[1]
        {'general.name': 'example'}
    """
    for argument in (arrays, {} if metadata is None else metadata):
        if not isinstance(argument, dict):
            raise expected("save_gguf", "a dict", argument)
    if file is None:
        raise expected("save_gguf", "a path", None)
    path = path_with(".gguf", file)
    if path is None:
        raise ValueError("[save_gguf] Input must be a string")
    values = as_written({_checked(name): _encoded(value) for name, value in (metadata or {}).items()})
    arrays = dict(zip(map(_checked, arrays), as_arrays(list(arrays.values()), "save_gguf"), strict=True))
    arrays = as_written(arrays)
    infos = bytearray()
    end = 0
    for name, x in arrays.items():
        if x.dtype not in _TENSORS:
            raise RuntimeError(f"[save_gguf] dtype {x.dtype._label} is not supported")
        if x.ndim > _MOST_AXES:
            raise RuntimeError(f"[save_gguf] at most {_MOST_AXES} axes are supported, {name} has {x.ndim}")
        infos += _text(name) + struct.pack(f"<I{x.ndim}QIQ", x.ndim, *x.shape[::-1], _TENSORS[x.dtype], end)
        end += x.nbytes + -x.nbytes % _ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(values))
    head += b"".join([_text(name) + value for name, value in values.items()]) + infos
    with open_path(path, "[save_gguf] gguf_create failed") as opened:
        write(opened, head)
        written = len(head)
        for x in arrays.values():
            write(opened, bytes(-written % _ALIGNMENT))
            write(opened, array_bytes(x))
            written = x.nbytes


def _checked(value: Any) -> str:
    if not isinstance(value, str):
        raise bad_cast(f"names and texts must be strings, not {type(value).__name__}")
    return value


def _text(value: Any) -> bytes:
    data = _checked(value).encode()
    return struct.pack("<Q", len(data)) + data


def _encoded(value: Any) -> bytes:
    """Return the bytes of a metadata value in the file."""
    if value is None:
        raise RuntimeError("[save_gguf] Received unexpected type in metadata")
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, (list, tuple)):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join([_text(item) for item in value])
    (x,) = as_arrays([value], "the metadata of save_gguf")
    if x.ndim > 1:
        raise RuntimeError("[save_gguf] Cannot save arrays with more than one dimension.")
    if not x.size:
        raise RuntimeError("[save_gguf] Cannot save empty arrays.")
    if x.dtype not in _CODES:
        raise ValueError(f"[save_gguf] array type {x.dtype._label} not support for metadata.")
    code = _CODES[x.dtype]
    head = struct.pack("<IIQ", _ARRAY, code, x.size) if x.ndim else struct.pack("<I", code)
    return head + bytes(array_bytes(x))


class _Tensor(NamedTuple):
    """The file's entry for a tensor. `kind` is the number of its type; `offset` counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


def load_gguf(file: Any) -> tuple[dict[str, array], dict[str, Any]]:
    """Return the arrays in the file at a path, by name, and its metadata.

    Raises:
        ValueError: if the file cannot be opened, or contains arrays of arrays.
        RuntimeError: if it is not a gguf file, is incomplete, or contains a type that cannot be read.
    """
    if not isinstance(file, (str, Path)):
        raise ValueError("[load_gguf] Input must be a string")
    try:
        source = PathSource(str(file))
    except OSError:
        raise ValueError(f"[load_gguf] Failed to open {file}") from None
    cursor = _Cursor(source)
    if source.size < 24 or cursor.take(4).tobytes() != b"GGUF":
        raise RuntimeError("[load_gguf] gguf_init failed")
    cursor.number("<I")  # skip the version, which MLX does not check: all versions from 2 on have the same layout
    tensors, values = cursor.number("<Q"), cursor.number("<Q")
    if max(tensors, values) > source.size // 12:  # each entry takes more than 12 bytes
        raise RuntimeError("[load_gguf] gguf_init failed")
    metadata: dict[str, Any] = {}
    for _ in range(values):
        name = cursor.text()
        value = cursor.value(cursor.number("<I"))
        if value is not None:
            metadata[name] = value
    infos = [cursor.tensor() for _ in range(tensors)]
    alignment = metadata.get("general.alignment")
    step = int(alignment.item()) if isinstance(alignment, array) and alignment.size == 1 else _ALIGNMENT
    if not 0 < step <= 1 << 20:
        raise RuntimeError(f"[load_gguf] Invalid alignment {step}")
    start = cursor.position + -cursor.position % step
    arrays: dict[str, array] = {}
    for info in infos:
        arrays.update(_arrays(source, start, info))
    return arrays, metadata


def _arrays(source: PathSource, start: int, info: _Tensor) -> dict[str, array]:
    """Return the arrays of a tensor by name: one array, or the parts of a quantized one."""
    block, width = BLOCKS.get(info.kind, (0, 0))
    if not block:
        raise RuntimeError(f"[load_gguf] Tensor '{info.name}' has the unknown type {info.kind}")
    count = math.prod(info.shape)
    if count % block or (block > 1 and (not info.shape or info.shape[-1] % block)):
        raise RuntimeError(f"[load_gguf] Tensor '{info.name}' is not made of whole blocks of {block}")
    offset, size = start + info.offset, count // block * width
    if offset + size > source.size:
        raise RuntimeError(
            f"[load_gguf] Tensor '{info.name}' extends past the end of the file. Perhaps an incomplete download or "
            "corrupt file?"
        )
    plain: Dtype | None = TYPES.get(info.kind)
    if plain is not None:
        return {info.name: deferred(source, offset, info.shape, plain)}
    rows, last = info.shape[:-1], info.shape[-1]

    def part(shape: tuple[int, ...], dtype: Dtype, change: Callable[[np.ndarray, int], np.ndarray]) -> array:
        return deferred(source, offset, shape, dtype, lambda data: change(data, info.kind), size)

    bits = REPACKED.get(info.kind)
    if bits is None:
        expanded(np.zeros(width, np.uint8), info.kind)  # raise the error now if the type cannot be expanded
        return {info.name: part(info.shape, _d.float16, expanded)}
    stem = info.name.removesuffix(".weight")
    return {
        info.name: part((*rows, last * bits // 32), _d.uint32, weights),
        f"{stem}.scales": part((*rows, last // block), _d.float16, scales),
        f"{stem}.biases": part((*rows, last // block), _d.float16, biases),
    }


class _Cursor:
    """A reader of a file's header, which moves forward."""

    def __init__(self, source: PathSource) -> None:
        self.source = source
        self.position = 0

    def take(self, count: int, what: str = "Metadata value") -> np.ndarray:
        if count > self.source.size - self.position:
            raise RuntimeError(
                f"[load_gguf] {what} extends past the end of the file. Perhaps an incomplete download or corrupt file?"
            )
        data = self.source.read(self.position, count)
        self.position += count
        return data

    def number(self, code: str) -> Any:
        (value,) = struct.unpack(code, self.take(struct.calcsize(code)).tobytes())
        return value

    def text(self) -> str:
        try:
            return self.take(self.number("<Q")).tobytes().decode()
        except UnicodeDecodeError as error:
            raise RuntimeError(f"[load_gguf] A text in the file is not UTF-8: {error}") from error

    def value(self, kind: int) -> Any:
        """Read a metadata value. Return None for an empty array, unless it is an array of strings."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            if inner == _ARRAY:
                raise ValueError("[load_gguf] Only supports loading 1-layer of nested arrays.")
            if inner == _STRING:
                if count > (self.source.size - self.position) // 8:
                    self.take(self.source.size + 1, "Array metadata value")
                return [self.text() for _ in range(count)]
            dtype = self._dtype(inner)
            data = self.take(count * dtype.size, "Array metadata value")
            return array_of(data, (count,), dtype) if count else None
        dtype = self._dtype(kind)
        return array_of(self.take(dtype.size), (), dtype)

    def _dtype(self, kind: int) -> Dtype:
        dtype = _KINDS[kind] if kind < len(_KINDS) else None
        if dtype is None:
            raise RuntimeError(f"[load_gguf] Unknown type {kind} of a metadata value")
        return dtype

    def tensor(self) -> _Tensor:
        name, axes = self.text(), self.number("<I")
        if axes > _MOST_AXES:
            raise RuntimeError(f"[load_gguf] Tensor '{name}' has {axes} axes, more than {_MOST_AXES}")
        shape = tuple(int(n) for n in self.take(8 * axes).view("<u8"))[::-1]
        return _Tensor(name, shape, self.number("<I"), self.number("<Q"))
