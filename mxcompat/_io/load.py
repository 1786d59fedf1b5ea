"""`load`, which reads arrays from a file of any supported format."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from mxcompat._array.array import array
from mxcompat._array.errors import expected
from mxcompat._array.streams import check_stream
from mxcompat._ops.arguments import flag, require_text

from .gguf_io import load_gguf
from .npy import load_npy
from .npz import load_npz
from .reading import uncollected
from .safetensors_io import load_safetensors

__all__ = ["load"]


def load(
    file: Any, /, format: str | None = None, return_metadata: bool = False, *, stream: Any = None
) -> array | dict[str, array] | tuple[dict[str, array], dict[str, Any]]:
    """Load arrays from a file.

    The sizes in the file's header are checked against the size of the file. No code from a file is executed. Arrays of
    `.npy`, `.safetensors` and `.gguf` files at a path are read when they are first needed.

    Args:
        file: a path, or a file object opened for binary reading (not for gguf).
        format: "npy", "npz", "safetensors" or "gguf"; by default the suffix of the file's name.
        return_metadata: return the metadata, too, for "safetensors" and "gguf".
        stream: accepted, and ignored.

    Returns:
        An array for "npy", otherwise a dict of arrays by name. With `return_metadata`, a pair of that and a dict.
        A gguf tensor in Q4_0, Q4_1 or Q8_0 becomes `weight`, `scales` and `biases` for `quantized_matmul`. Tensors in
        other quantizations become float16 arrays.

    Raises:
        ValueError: if the format is unknown, has no metadata, or is not the file's (npz).
        RuntimeError: if the file cannot be opened, is incomplete or is corrupt. Missing data of a `.npy` file raise it
            when they are needed.

    Example:
        >>> mx.save_safetensors("model", {"w": mx.ones(2)})
        >>> mx.load("model.safetensors")
        {'w': array([1, 1], dtype=float32)}
    """
    check_stream(stream)
    if file is None:
        raise expected("load", "a file or a path", file)
    if format is not None:
        require_text(format, "load", "format")
    flag(return_metadata, "load", "return_metadata")
    if isinstance(file, Path):
        file = str(file)
    if format is None:
        format = _format(file)
    if return_metadata and format in ("npy", "npz"):
        raise ValueError(f"[load] metadata not supported for format {format}")
    if format == "npy":
        return load_npy(file)
    if format not in ("npz", "safetensors", "gguf"):
        raise ValueError(f"[load] Unknown file format {format}")
    with uncollected():
        if format == "npz":
            return load_npz(file)
        arrays, metadata = load_safetensors(file) if format == "safetensors" else load_gguf(file)
    return (arrays, metadata) if return_metadata else arrays


def _format(file: Any) -> str:
    """Return the format from the suffix of a file's name."""
    if not isinstance(file, str):
        binary = hasattr(file, "read") and not isinstance(file, io.TextIOBase)
        if not binary or not (hasattr(file, "name") or hasattr(file, "readinto")):
            raise ValueError("[load] Input must be a file-like object opened in binary mode, or string")
        file = str(file.name)
    _, dot, ending = file.rpartition(".")
    if not dot:
        raise ValueError("[load] Could not infer file format from extension")
    return ending
