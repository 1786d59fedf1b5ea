"""Folder: the directory of the user's where compiled executables are kept, as files of bytes.

It is private: made with mode 0700, and one that belongs to somebody else, or that others may write to, is not touched.
It is bounded: what was not used for the longest time is removed. And it may be read and written by several processes at
once: a file gets its name when it is whole, and any may be gone a moment later.
"""

from __future__ import annotations

import os
import secrets
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
"""How many bytes there are, as far as this process knows; None if it has not looked."""


class Usage(NamedTuple):
    """What the directory holds: how many files, of how many bytes in all."""

    entries: int
    bytes: int


class _Entry(NamedTuple):
    used: float
    bytes: int
    name: str


def directory() -> Path | None:
    """Where executables are kept; None if they are not."""
    if os.environ.get("MXCOMPAT_CACHE") == "0" or not hasattr(os, "getuid"):
        return None  # whose a directory is, and who may write to it, is asked in POSIX's way
    own = os.environ.get("MXCOMPAT_CACHE_DIR")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return Path(base, "mxcompat") if os.path.isabs(base) else None


def read(name: str) -> bytes | None:
    """The file with this name, which counts as used now; None if there is none."""
    with _opened() as place:
        if place is None:
            return None
        try:
            with open(os.open(name + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=place), "rb") as file:
                data = file.read()
        except OSError:
            return None  # not there, or not for us
        try:
            os.utime(name + _SUFFIX, dir_fd=place)
        except OSError:
            return data  # removed a moment ago, or read-only, and then nothing is ever removed
        return data


def holds(name: str) -> bool:
    """Whether there is a file with this name."""
    with _opened() as place:
        if place is None:
            return False
        try:
            os.stat(name + _SUFFIX, dir_fd=place)
        except OSError:
            return False
        return True


def write(name: str, data: bytes) -> None:
    """Write a file, or replace it. If that is not possible it is said, once."""
    global _bytes
    with _opened(make=True) as place:
        if place is None:
            return
        try:
            _write(place, name + _SUFFIX, data)
        except OSError as error:
            say("unwritable", f"no executable can be stored in {directory()}: {error}")
            return
        if _bytes is not None:
            _bytes += len(data)
        if _bytes is None or _bytes > policy.STORED_BYTES:
            _bytes = _make_room(place)


def remove(name: str) -> None:
    """Remove the file with this name, if there is one."""
    with _opened() as place:
        if place is not None:
            _remove(place, name + _SUFFIX)


def usage() -> Usage:
    """How full the directory is."""
    with _opened() as place:
        sizes = [e.bytes for e in _entries(place)] if place is not None else []
    return Usage(len(sizes), sum(sizes))


def clear() -> Usage:
    """Remove all that was written here, and nothing else. Returns what there was."""
    global _bytes
    _bytes = None
    with _opened() as place:
        entries = list(_entries(place)) if place is not None else []
        removed = [e.bytes for e in entries if _remove(place, e.name)]  # type: ignore[arg-type]
    return Usage(len(removed), sum(removed))


def say(kind: str, text: str) -> None:
    """Warn, once in a process."""
    if kind not in _said:
        _said.add(kind)
        warnings.warn(f"mxcompat: {text}", RuntimeWarning, stacklevel=3)


@contextmanager
def _opened(make: bool = False) -> Iterator[int | None]:
    """A descriptor of the directory; None if there is none that can be trusted. What is done by way of it happens in
    the very directory that was looked at, whatever its path leads to by then."""
    path = directory()
    place = _open(path, make) if path is not None else None
    try:
        yield place
    finally:
        if place is not None:
            os.close(place)


def _open(path: Path, make: bool) -> int | None:
    try:
        if make and not path.is_dir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    except OSError as error:
        say(f"closed {path}", f"executables cannot be kept between processes: {error}")
        return None
    status = os.fstat(place)
    problem = None
    if status.st_uid != os.getuid():
        problem = "belongs to another user"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "can be written to by others"
    if problem is not None:
        os.close(place)
        say(f"unsafe {path}", f"{path} {problem}, so executables are neither read from it nor stored in it")
        return None
    return place


def _write(place: int, name: str, data: bytes) -> None:
    part = secrets.token_hex(8) + _PART
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place), "wb") as file:
            file.write(data)
        os.replace(part, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        _remove(place, part)
        raise


def _entries(place: int) -> Iterator[_Entry]:
    """The files that were written here, parts of such included."""
    with os.scandir(place) as found:
        for item in found:
            if item.name.endswith((_SUFFIX, _PART)):
                try:
                    status = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another process has removed it
                if stat.S_ISREG(status.st_mode):
                    yield _Entry(status.st_mtime, status.st_size, item.name)


def _make_room(place: int) -> int:
    """Remove what was not used for the longest time until the rest is small enough. Returns its bytes."""
    entries = sorted(_entries(place))
    total = sum(e.bytes for e in entries)
    goal = total if total <= policy.STORED_BYTES else policy.STORED_BYTES * policy.STORED_SHARE
    for entry in entries:
        abandoned = entry.name.endswith(_PART) and entry.used < time.time() - policy.ABANDONED_SECONDS
        if total > goal or abandoned:
            _remove(place, entry.name)
            total -= entry.bytes
    return total


def _remove(place: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=place)
    except OSError:
        return False  # another process was quicker, or the directory is read-only
    return True
