"""The `.safetensors` format: a JSON header with the offset of each array, then the data.

This module does not use the `safetensors` package. It reads arrays when they are needed, writes them without a second
copy of all, accepts MLX's files (`"__metadata__": null`), and raises MLX's errors.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from mxcompat._array.array import array
from mxcompat._array.errors import bad_cast, expected
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype

from .order import as_written
from .reading import Source, StreamSource, deferred, source_of
from .writing import array_bytes, as_arrays, write, writing

__all__ = ["load_safetensors", "read_tensors", "save_safetensors", "write_tensors"]

_NAMES: dict[Dtype, str] = {
    _d.bool_: "BOOL", _d.uint8: "U8", _d.uint16: "U16", _d.uint32: "U32", _d.uint64: "U64", _d.int8: "I8",
    _d.int16: "I16", _d.int32: "I32", _d.int64: "I64", _d.float16: "F16", _d.bfloat16: "BF16", _d.float32: "F32",
    _d.complex64: "C64",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()} | {"F8_E4M3": _d.uint8, "F8_E8M0": _d.uint8}
"""The dtypes by name. As in MLX, 8-bit floats are read as uint8."""

_WIDE = {_d.float64: "F64"}
"""The dtypes that only mxcompat's own containers may have, because MLX does not save them."""

_LONGEST_HEADER = 100_000_000


def save_safetensors(file: Any, arrays: dict[str, array], metadata: dict[str, str] | None = None) -> None:
    """Save arrays in the `.safetensors` format.

    Args:
        file: a path, or a file object opened for binary writing. ".safetensors" is added to a path unless it ends with
            it. An existing file is replaced when the new one is complete.
        arrays: the arrays by name, of any dtype except float64.
        metadata: strings to save with them, by name.

    Raises:
        TypeError: if `arrays` is not a dict.
        ValueError: if metadata are not strings.
        RuntimeError: for something that is not an array, a float64 array, and a file that cannot be opened.

    Example:
        >>> mx.save_safetensors("model", {"w": mx.ones(2)}, {"format": "mlx"})
        >>> mx.load("model.safetensors", return_metadata=True)
        ({'w': array([1, 1], dtype=float32)}, {'format': 'mlx'})
    """
    for argument in (arrays, {} if metadata is None else metadata):
        if not isinstance(argument, dict):
            raise expected("save_safetensors", "a dict", argument)
    if not all(isinstance(text, str) for item in (metadata or {}).items() for text in item):
        raise ValueError("[save_safetensors] Metadata must be a dictionary with string keys and values")
    if not all(isinstance(name, str) for name in arrays):
        raise bad_cast("the names of the arrays must be strings")
    if "__metadata__" in arrays:
        raise ValueError("[save_safetensors] __metadata__ cannot be the name of an array.")
    arrays = dict(zip(arrays, as_arrays(list(arrays.values()), "save_safetensors"), strict=True))
    with writing(file, ".safetensors", "save_safetensors") as opened:
        if any(x.dtype not in _NAMES for x in arrays.values()):
            raise RuntimeError("[save_safetensors] received invalid dtype.")
        write_tensors(opened, as_written(arrays), metadata)


def write_tensors(file: Any, arrays: dict[str, array], metadata: dict[str, str] | None) -> None:
    """Write evaluated arrays."""
    names = _NAMES | _WIDE
    header: dict[str, Any] = {"__metadata__": metadata or None}
    end = 0
    for name, x in arrays.items():
        header[name] = {"data_offsets": [end, end + x.nbytes], "dtype": names[x.dtype], "shape": list(x.shape)}
        end += x.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()
    write(file, len(text).to_bytes(8, "little") + text)
    for x in arrays.values():
        write(file, array_bytes(x))


def load_safetensors(file: Any) -> tuple[dict[str, array], dict[str, str]]:
    """Return the arrays in a file by name, and its metadata."""
    return read_tensors(source_of(file, "load_safetensors"), _DTYPES)


def read_tensors(source: Source, dtypes: dict[str, Dtype] | None = None) -> tuple[dict[str, array], dict[str, str]]:
    """Return the arrays and the metadata of a source.

    Args:
        dtypes: the allowed dtypes by their names in the format; by default all.

    Raises:
        RuntimeError: if it is not a safetensors file, is inconsistent, or is incomplete.
    """
    if dtypes is None:
        dtypes = _DTYPES | {name: dtype for dtype, name in _WIDE.items()}
    length = int.from_bytes(source.read(0, 8).tobytes(), "little")
    if not 0 < length < _LONGEST_HEADER:
        raise RuntimeError(f"[load_safetensors] Invalid json header length {source.quoted}")
    if 8 + length > source.size:
        raise RuntimeError(
            f"[load_safetensors] The JSON header is {length} bytes long but the file is only {source.size} bytes. "
            "Perhaps an incomplete download or corrupt file?"
        )
    header = _parsed(source, source.read(8, length).tobytes())
    metadata = header.pop("__metadata__", None) or {}
    if metadata and not (isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())):
        raise RuntimeError(f"[load_safetensors] Invalid json metadata {source.quoted}")
    start = 8 + length
    entries = {name: _entry(name, entry, dtypes, source.size - start) for name, entry in header.items()}
    _refuse_overlaps(entries)
    arrays = {name: deferred(source, start + begin, shape, dtype) for name, (dtype, shape, begin, _) in entries.items()}
    if isinstance(source, StreamSource):
        source.leave_at(start + max((end for *_, end in entries.values()), default=0))
    return arrays, dict(metadata)


def _parsed(source: Source, text: bytes) -> dict[str, Any]:
    """Parse the header. It may begin with a byte order mark, and it ends at a NUL (some writers pad it with NULs)."""
    try:
        written = text.partition(b"\0")[0].decode("utf-8-sig")
        header = json.loads(written, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RuntimeError(f"[load_safetensors] Invalid json header {source.quoted}: {error}") from error
    if not isinstance(header, dict):
        raise RuntimeError(f"[load_safetensors] Invalid json metadata {source.quoted}")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a name occurs twice")
    return unique


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _entry(name: str, entry: Any, dtypes: dict[str, Dtype], room: int) -> tuple[Dtype, tuple[int, ...], int, int]:
    """Check the header's entry for an array, and return the array's dtype, shape, start and end."""
    tensor = f"[load_safetensors] Tensor '{name}'"
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise RuntimeError(f"{tensor} must have a dtype, a shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in dtypes:
        raise RuntimeError(f"[safetensor] unsupported dtype {entry['dtype']}")
    dtype = dtypes[entry["dtype"]]
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(map(_is_whole, numbers)):
            raise RuntimeError(f"{tensor} must have lists of integers as shape and data_offsets")
    shape, offsets = [*map(int, shape)], [*map(int, offsets)]
    if len(offsets) != 2:
        raise RuntimeError(f"{tensor} data_offsets must have exactly 2 entries but has {len(offsets)}")
    begin, end = offsets
    size = dtype.size
    for n in shape:
        size *= n
    if any(n < 0 for n in shape) or end - begin != size:
        raise RuntimeError(f"{tensor} invalid data offsets ({begin}, {end}). Expecting {size} bytes.")
    if begin < 0 or end > room:
        raise RuntimeError(
            f"{tensor} invalid data offsets ({begin}, {end}) exceeding the size of the file. Perhaps an incomplete "
            "download or corrupt file?"
        )
    return dtype, tuple(shape), begin, end


def _is_whole(number: Any) -> bool:
    return type(number) is int or (type(number) is float and number.is_integer())


def _refuse_overlaps(entries: dict[str, tuple[Dtype, tuple[int, ...], int, int]]) -> None:
    last, reached = "", 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin < reached and end > begin:
            raise RuntimeError(f"[load_safetensors] Tensor '{name}' invalid data offsets: it overlaps '{last}'.")
        if end > reached:
            last, reached = name, end
