"""Read files: bytes at offsets, and arrays that are read when they are needed.

All formats read through this module. Sizes in a file's header are checked against the size of the file before memory is
allocated.
"""

from __future__ import annotations

import gc
import io
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import leaf
from mxcompat._graph.run.deferred import Deferred
from mxcompat._graph.run.forked import require_threads
from mxcompat._graph.run.platform import is_cpu
from mxcompat._graph.run.values import aligned_bytes
from mxcompat._jax import is_imported, jax

__all__ = ["PathSource", "Source", "StreamSource", "array_of", "deferred", "source_of", "uncollected"]


class Source:
    """A source of bytes. `size` is their number, and `name` is used in messages."""

    size: int
    name: str

    @property
    def quoted(self) -> str:
        """The name in messages about the header."""
        return f"file {self.name}"

    def fill(self, view: memoryview, offset: int) -> int:
        """Read bytes from `offset` on into `view`. Return the number of bytes, which is less only at the end of the
        file."""
        raise NotImplementedError

    def read(self, offset: int, count: int) -> np.ndarray:
        """Return bytes, at an aligned address for XLA.

        Raises:
            RuntimeError: if the source has fewer bytes.
        """
        missing = count - max(0, min(count, self.size - offset))
        if missing:
            raise self.short(missing)
        data = aligned_bytes(count)
        done = self.fill(memoryview(data), offset) if count else 0
        if done != count:
            raise self.short(count - done)
        return data

    def short(self, missing: int) -> RuntimeError:
        """Return the error for a source that lacks `missing` bytes."""
        return RuntimeError(f"[read] Unable to read {missing} bytes from file.")


class PathSource(Source):
    """A file at a path, which stays open as long as an array may still read it."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._descriptor)
        self._lock = threading.Lock()
        self.size = os.lseek(self._descriptor, 0, os.SEEK_END)
        self._changed = os.fstat(self._descriptor).st_mtime_ns

    def check_unchanged(self) -> None:
        """Raise RuntimeError if the file was changed after it had been opened."""
        if os.fstat(self._descriptor).st_mtime_ns != self._changed:
            raise RuntimeError(f"{self.name} was changed after it had been opened.")

    def fill(self, view: memoryview, offset: int) -> int:
        self.check_unchanged()
        if len(view) < policy.LARGE_BYTES or not hasattr(os, "preadv"):
            return self._fill(view, offset)
        from concurrent.futures import ThreadPoolExecutor  # imported here because few programs need it

        half = len(view) // 2
        with ThreadPoolExecutor(1) as other:
            rest = other.submit(self._fill, view[half:], offset + half)
            done = self._fill(view[:half], offset)
        return done + rest.result() if done == half else done

    def _fill(self, view: memoryview, offset: int) -> int:
        done = 0
        while done < len(view):
            try:
                part = self._read(view[done : done + (1 << 30)], offset + done)
            except OSError as error:  # reading fails for a directory, and after a disk failure
                raise self.short(len(view)) from error
            if not part:
                break
            done += part
        return done

    def _read(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [view], offset)
        with self._lock:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return os.readv(self._descriptor, [view])


class StreamSource(Source):
    """A user's file object, from its current position on. If it cannot seek, it is read into memory first."""

    def __init__(self, file: Any) -> None:
        self.name = str(getattr(file, "name", "python stream"))
        try:
            self._start = file.tell()
            file.seek(0, os.SEEK_END)
            self.size = file.tell() - self._start
            file.seek(self._start)
        except (AttributeError, OSError):
            file = io.BytesIO(file.read())
            self._start = 0
            self.size = len(file.getbuffer())
        self._file = file

    @property
    def quoted(self) -> str:
        return "python file object"

    def fill(self, view: memoryview, offset: int) -> int:
        self._file.seek(self._start + offset)
        done = 0
        while done < len(view):
            part = self._file.read(min(len(view) - done, policy.PIECE_BYTES))
            if not part:
                break
            view[done : done + len(part)] = part
            done += len(part)
        return done

    def short(self, missing: int) -> RuntimeError:
        error = RuntimeError("[load] Failed to read from python stream")
        error.add_note(f"{missing} bytes are missing.")
        return error

    def leave_at(self, offset: int) -> None:
        """Set the position of the user's file to the end of the bytes that were used."""
        self._file.seek(self._start + offset)


def source_of(file: Any, function: str) -> Source:
    """Return the source for a path or a file object.

    Raises:
        RuntimeError: if the file cannot be opened.
        ValueError: if it is neither a path nor a file opened in binary mode.
    """
    if isinstance(file, str):
        try:
            return PathSource(file)
        except OSError as error:
            raise RuntimeError(f"[{function}] Failed to open file {file}") from error
    if not hasattr(file, "read") or isinstance(file, io.TextIOBase):
        raise ValueError(f"[{function}] Input must be a file-like object, or string")
    if getattr(file, "closed", False):
        raise RuntimeError(f"[{'load' if function == 'load_npy' else function}] Failed to open python file object")
    return StreamSource(file)


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend Python's garbage collector while arrays are made from the entries of a file. All of them stay alive, and
    the collector would scan hundreds of thousands of objects again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def array_of(data: np.ndarray, shape: tuple[int, ...], dtype: Dtype) -> array:
    """Return an array that shares the memory of `data`, which nothing else may write to."""
    a = aval(shape, dtype)
    return wrap(leaf(_value(data, a), a))


def _value(data: np.ndarray, a: Aval) -> Any:
    """Return the elements on the device that will probably need them. Bytes of bools become 0 or 1."""
    whole = data.astype(bool) if a.dtype._kind == "b" else data.view(a.dtype._numpy)
    whole = whole.reshape(a.shape)
    if a.nbytes <= policy.SMALL_BYTES or not is_imported() or is_cpu():
        return whole
    require_threads()
    with jax.enable_x64(True):
        return jax.device_put(whole)


def deferred(
    source: Source,
    offset: int,
    shape: tuple[int, ...],
    dtype: Dtype,
    change: Callable[[np.ndarray], np.ndarray] | None = None,
    size: int | None = None,
) -> array:
    """Return the array at an offset of a source. A path is read when the array is needed, a stream at once.

    Args:
        change: converts the bytes that are read to those of the array.
        size: the number of bytes to read, by default the size of the array.
    """
    a = aval(shape, dtype)

    def read() -> np.ndarray:
        data = source.read(offset, a.nbytes if size is None else size)
        return data if change is None else change(data)

    if not isinstance(source, PathSource):
        return array_of(read(), shape, dtype)
    return wrap(Deferred(lambda: _late(source, read), _value, a, lambda: _late(source, source.check_unchanged)))


def _late(source: Source, read: Callable[[], Any]) -> Any:
    """Return `read()`. Replace a RuntimeError by the one that MLX raises when it reads deferred data."""
    try:
        return read()
    except RuntimeError as error:
        late = RuntimeError("[read] Unable to read from file.")
        late.add_note(f"{source.name}: {error}")
        raise late from None
