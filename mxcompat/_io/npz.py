"""The `.npz` format: a zip file of `.npy` files."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from mxcompat._array.array import array
from mxcompat._array.errors import expected
from mxcompat._graph.run import allocation

from .npy import read_npy, write_npy
from .order import as_written
from .reading import Source
from .writing import as_arrays, open_path, path_with

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

__all__ = ["load_npz", "savez", "savez_compressed"]

_MOST_INFLATION = 1100
"""Deflate compresses data by a factor of at most 1032, so a member with a larger factor is invalid."""


def savez(file: Any, *args: Any, **kwargs: Any) -> None:
    """Save several arrays in the `.npz` format.

    Args:
        file: a path, or a file object opened for binary writing. ".npz" is added to a path unless it ends with it. An
            existing file is replaced when the new one is complete.
        *args: arrays, saved as `arr_0`, `arr_1`, ….
        **kwargs: arrays, saved under their keywords.

    Raises:
        ValueError: if a keyword is also the name of a positional array.
        RuntimeError: if something is not an array.
        OSError: if the file cannot be written.

    Example:
        >>> mx.savez("weights.npz", w=mx.ones((2, 2)), b=mx.zeros(2))
        >>> sorted(mx.load("weights.npz"))
        ['b', 'w']
    """
    _savez(file, args, kwargs, False, "savez")


def savez_compressed(file: Any, *args: Any, **kwargs: Any) -> None:
    """Save several arrays in the `.npz` format, compressed.

    Args:
        file, *args, **kwargs: as for `savez`.

    Raises:
        ValueError: if a keyword is also the name of a positional array.
        RuntimeError: if something is not an array.
        OSError: if the file cannot be written.

    Example:
        >>> mx.savez_compressed("weights.npz", w=mx.ones(2))
        >>> mx.load("weights.npz")
        {'w': array([1, 1], dtype=float32)}
    """
    _savez(file, args, kwargs, True, "savez_compressed")


def _savez(file: Any, args: tuple, kwargs: dict[str, Any], compressed: bool, function: str) -> None:
    if file is None:
        raise expected(function, "a file or a path", None)
    named = dict(kwargs)
    for k, x in enumerate(args):
        if f"arr_{k}" in kwargs:
            raise ValueError(f"[savez] Cannot use un-named variables and keyword arr_{k}")
        named[f"arr_{k}"] = x
    arrays = as_written(dict(zip(named, as_arrays(list(named.values()), function), strict=True)))
    path = path_with(".npz", file)
    if path is None:
        _write(file, arrays, compressed)
        return
    try:
        with open_path(path, "") as opened:
            _write(opened, arrays, compressed)
    except RuntimeError as error:
        if isinstance(error.__cause__, OSError):
            raise type(error.__cause__)(error.__cause__.errno, error.__cause__.strerror, path) from None
        raise


def _write(file: Any, arrays: dict[str, array], compressed: bool) -> None:
    if not hasattr(file, "write"):
        raise AttributeError(f"'{type(file).__name__}' object has no attribute 'write'")
    from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo  # imported here because the import is slow

    compression = ZIP_DEFLATED if compressed else ZIP_STORED
    with ZipFile(file, "w", compression, allowZip64=True) as archive:
        for name, x in arrays.items():
            # The first date of zip files, so that the same arrays give the same file.
            info = ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            info.external_attr = 0o600 << 16
            with archive.open(info, "w", force_zip64=True) as member:
                write_npy(member, x)


def load_npz(file: Any) -> dict[str, array]:
    """Return the arrays in a file by name. The file is given by a path or as a file object."""
    if getattr(file, "closed", False):
        raise ValueError("I/O operation on closed file.")
    from zipfile import BadZipFile, ZipFile  # imported here because the import is slow

    try:
        archive = ZipFile(file)
    except (BadZipFile, OSError, EOFError, ValueError, AttributeError, NotImplementedError) as error:
        raise ValueError(
            "[load_npz] Input must be a zip file or a file-like object that can be opened with zipfile.ZipFile"
        ) from error
    with archive:
        allocation.require(sum(info.file_size for info in archive.infolist() if _can_be(info)))
        arrays = {}
        for info in archive.infolist():
            try:
                member = _Member(archive, info)
                with member.file:
                    x, _ = read_npy(member)
            except (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
                raise RuntimeError(f"[load] Failed to read {info.filename} from python stream") from error
            arrays[info.filename.removesuffix(".npy") if info.filename != ".npy" else ".npy"] = x
        return arrays


def _can_be(info: ZipInfo) -> bool:
    """Return True if a member of this compressed size can have the declared size."""
    return info.file_size <= _MOST_INFLATION * (info.compress_size + 1)


class _Member(Source):
    """A file in the archive, which is read sequentially."""

    def __init__(self, archive: ZipFile, info: ZipInfo) -> None:
        self.name = info.filename
        self.size = info.file_size
        if not _can_be(info):
            from zipfile import BadZipFile  # imported here because the import is slow

            raise BadZipFile(f"{info.filename} claims to inflate to {info.file_size} bytes")
        self.file = archive.open(info)
        self._position = 0

    def fill(self, view: memoryview, offset: int) -> int:
        if offset != self._position:
            self.file.seek(offset)
        done = 0
        while done < len(view):
            part = self.file.readinto(view[done:])  # type: ignore[attr-defined]
            if not part:
                break
            done += part
        self._position = offset + done
        return done
