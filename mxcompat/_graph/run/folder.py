"""Folder: the user's directory in which compiled executables are stored, as files of bytes.

It is private: created with mode 0700, and not used if it belongs to another user or if others may write to it. Its size
is bounded: the least recently used files are removed. Several processes may read and write it at once: a file gets its
name when it is complete, and another process may remove any file at any time.
"""

from __future__ import annotations

import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .. import policy

__all__ = ["clear", "directory", "holds", "read", "remove", "say", "usage", "write"]

_SUFFIX = ".xla"
_PART = ".part"

_said: set[str] = set()

_bytes: int | None = None
"""Estimated size of the directory in bytes; None if this process has not measured it."""


class Usage(NamedTuple):
    """The number of files in the directory, and their total size in bytes."""

    entries: int
    bytes: int


class _Entry(NamedTuple):
    used: float
    bytes: int
    name: str


def directory() -> Path | None:
    """Return the directory for executables, or None if none are stored."""
    if os.environ.get("MXCOMPAT_CACHE") == "0" or not hasattr(os, "getuid"):
        return None  # without POSIX, owner and permissions cannot be checked
    own = os.environ.get("MXCOMPAT_CACHE_DIR")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return Path(base, "mxcompat") if os.path.isabs(base) else None


def read(name: str) -> bytes | None:
    """Return the content of a file and mark it as used now, or return None if there is no file with this name."""
    with _opened() as dir_fd:
        if dir_fd is None:
            return None
        try:
            with open(os.open(name + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=dir_fd), "rb") as file:
                data = file.read()
        except OSError:
            return None  # missing, or not readable
        try:
            os.utime(name + _SUFFIX, dir_fd=dir_fd)
        except OSError:
            return data  # the file was just removed, or the directory is read-only and needs no LRU order
        return data


def holds(name: str) -> bool:
    """Return True if there is a file with this name."""
    with _opened() as dir_fd:
        if dir_fd is None:
            return False
        try:
            os.stat(name + _SUFFIX, dir_fd=dir_fd)
        except OSError:
            return False
        return True


def write(name: str, data: bytes) -> None:
    """Write or replace a file. If that fails, warn once."""
    global _bytes
    with _opened(make=True) as dir_fd:
        if dir_fd is None:
            return
        try:
            _write(dir_fd, name + _SUFFIX, data)
        except OSError as error:
            say("unwritable", f"no executable can be stored in {directory()}: {error}")
            return
        if _bytes is not None:
            _bytes += len(data)
        if _bytes is None or _bytes > policy.STORED_BYTES:
            _bytes = _make_room(dir_fd)


def remove(name: str) -> None:
    """Remove the file with this name, if there is one."""
    with _opened() as dir_fd:
        if dir_fd is not None:
            _remove(dir_fd, name + _SUFFIX)


def usage() -> Usage:
    """Return the number and the total size of the files."""
    with _opened() as dir_fd:
        sizes = [e.bytes for e in _entries(dir_fd)] if dir_fd is not None else []
    return Usage(len(sizes), sum(sizes))


def clear() -> Usage:
    """Remove all files that mxcompat wrote to the directory, and no others. Return their number and size."""
    global _bytes
    _bytes = None
    with _opened() as dir_fd:
        entries = list(_entries(dir_fd)) if dir_fd is not None else []
        removed = [e.bytes for e in entries if _remove(dir_fd, e.name)]  # type: ignore[arg-type]
    return Usage(len(removed), sum(removed))


def say(kind: str, text: str) -> None:
    """Warn with this text, once per kind and process."""
    if kind not in _said:
        _said.add(kind)
        warnings.warn(f"mxcompat: {text}", RuntimeWarning, stacklevel=3)


@contextmanager
def _opened(make: bool = False) -> Iterator[int | None]:
    """Open the directory, and yield its descriptor, or None if there is no directory that can be trusted. All work goes
    through the descriptor, so it happens in the directory that was checked, even if the path changes."""
    path = directory()
    dir_fd = _open(path, make) if path is not None else None
    try:
        yield dir_fd
    finally:
        if dir_fd is not None:
            os.close(dir_fd)


def _open(path: Path, make: bool) -> int | None:
    try:
        if make and not path.is_dir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        dir_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    except OSError as error:
        say(f"closed {path}", f"executables cannot be kept between processes: {error}")
        return None
    status = os.fstat(dir_fd)
    problem = None
    if status.st_uid != os.getuid():
        problem = "belongs to another user"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "can be written to by others"
    if problem is not None:
        os.close(dir_fd)
        say(f"unsafe {path}", f"{path} {problem}, so executables are neither read from it nor stored in it")
        return None
    return dir_fd


def _write(dir_fd: int, name: str, data: bytes) -> None:
    part = os.urandom(8).hex() + _PART
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=dir_fd), "wb") as file:
            file.write(data)
        os.replace(part, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        _remove(dir_fd, part)
        raise


def _entries(dir_fd: int) -> Iterator[_Entry]:
    """Yield the files that mxcompat wrote to the directory, also incomplete ones."""
    with os.scandir(dir_fd) as items:
        for item in items:
            if item.name.endswith((_SUFFIX, _PART)):
                try:
                    status = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another process has removed it
                if stat.S_ISREG(status.st_mode):
                    yield _Entry(status.st_mtime, status.st_size, item.name)


def _make_room(dir_fd: int) -> int:
    """Remove the least recently used files until the rest is small enough. Return the size of the rest in bytes."""
    entries = sorted(_entries(dir_fd))
    total = sum(e.bytes for e in entries)
    goal = total if total <= policy.STORED_BYTES else policy.STORED_BYTES * policy.HELD_SHARE
    for entry in entries:
        abandoned = entry.name.endswith(_PART) and entry.used < time.time() - policy.ABANDONED_SECONDS
        if total > goal or abandoned:
            _remove(dir_fd, entry.name)
            total -= entry.bytes
    return total


def _remove(dir_fd: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=dir_fd)
    except OSError:
        return False  # another process removed it, or the directory is read-only
    return True
