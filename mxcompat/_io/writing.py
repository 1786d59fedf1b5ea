"""Write files completely or not at all.

A file is written under another name, and renamed when it is complete. So a failed save keeps the old file, and readers
never see an incomplete one. File objects are written to directly. All formats write through this module.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mxcompat._array.array import array, nodes_of, plain_handle
from mxcompat._array.convert import host
from mxcompat._array.errors import bad_cast, expected
from mxcompat._graph.run.evaluate import evaluate

__all__ = ["array_bytes", "as_arrays", "open_path", "path_with", "write", "writing"]


def path_with(suffix: str, file: Any) -> str | None:
    """Return the user's path with the suffix that it must end with, or None if `file` is not a path."""
    if not isinstance(file, (str, Path)):
        return None
    path = str(file)
    return path if path.endswith(suffix) else path + suffix


@contextlib.contextmanager
def writing(file: Any, suffix: str, function: str) -> Iterator[Any]:
    """Open the user's file for writing, given by a path or as an open file.

    Raises:
        RuntimeError: if the path cannot be written to, or the file has been closed.
        ValueError: if it is neither a path nor an object with a `write` method.
        TypeError: if it is None.
    """
    path = path_with(suffix, file)
    if path is not None:
        with open_path(path, f"[{function}] Failed to open file {path}") as opened:
            yield opened
    elif file is None:
        raise expected(function, "a file or a path", None)
    elif not hasattr(file, "write"):
        raise ValueError(f"[{function}] Input must be a file-like object, or string")
    elif getattr(file, "closed", False):
        raise RuntimeError(f"[{function}] Failed to open python file object")
    else:
        yield file


@contextlib.contextmanager
def open_path(path: str, failure: str) -> Iterator[Any]:
    """Open a file that replaces the one at `path` when the context ends without an error. If it cannot be opened, raise
    RuntimeError with the message `failure`."""
    target = os.path.realpath(path)
    try:
        kept = os.stat(target)
    except OSError:
        kept = None
    if kept is not None and not stat.S_ISREG(kept.st_mode):
        with _opened(target, os.O_WRONLY, failure) as file:  # a pipe or a device cannot be replaced
            yield file
        return
    temporary = f"{target}.{os.urandom(4).hex()}.part"
    try:
        with _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, failure) as file:
            if kept is not None:
                os.chmod(temporary, stat.S_IMODE(kept.st_mode))
            yield file
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):  # the temporary file was not created
            os.remove(temporary)
        raise


def _opened(path: str, flags: int, failure: str) -> Any:
    try:
        return os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666), "wb")
    except OSError as error:
        raise RuntimeError(failure) from error


def as_arrays(values: Sequence[Any], what: str) -> list[array]:
    """Evaluate the values, and return them as plain arrays. Raise RuntimeError if one is not an array."""
    for value in values:
        if not isinstance(value, array):
            raise bad_cast(f"{what} takes arrays, not {type(value).__name__}")
    evaluate(nodes_of(values))
    return [plain_handle(x) for x in values]


def array_bytes(x: array) -> memoryview:
    """Return the elements of an array in row-major order, without a copy if possible."""
    data = np.ascontiguousarray(host(x._node))
    return memoryview(data.reshape(-1).view(np.uint8))


def write(file: Any, data: Any) -> None:
    """Write all of `data`. An unbuffered file may need several calls."""
    view = memoryview(data)
    while len(view):
        count = file.write(view)
        if count is None or count >= len(view):
            return
        view = view[count:]
