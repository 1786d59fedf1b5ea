"""The platform that JAX computes on. Asking JAX starts its back-end, and some work must come before that."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from mxcompat._compat.xla import hash_recognition
from mxcompat._jax import is_imported, jax

from .. import policy
from .forked import require_threads
from .priority import candidates, threads

__all__ = ["backend", "before_start", "has_started", "is_cpu", "on_cpu", "options_in_effect", "processors"]

before_start: list[Callable[[], Any]] = []
"""Callbacks that run once, before JAX's back-end is started; for example, a process joins its distributed group."""

_started: list[str] = []


def backend() -> str:
    """Start JAX's default back-end, and return its name: "cpu", "gpu" or "tpu"."""
    if not _started:
        while before_start:
            before_start.pop()()
        before = threads()
        with _with_extra_options() as options:
            _started.append(jax.default_backend())
        new = threads() - before
        if new:
            _in_effect.append(options)
        if _started[0] == "cpu":
            candidates(new)
    return _started[0]


@cache
def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_in_effect: list[str] = []


def options_in_effect() -> str:
    """Return the options with which mxcompat has started XLA, or an empty string if the program has started XLA
    itself. New threads tell this, so without a list of threads the options are not known, and the string is empty."""
    return "".join(_in_effect)


@contextmanager
def _with_extra_options() -> Iterator[str]:
    """Set options of XLA's back-end while it starts, when it reads its flags, and yield them.

    LLVM's recognition of checksums in loops is switched off: it never ends for a loop into which random bits are fused
    (the codes of random weights). LLVM ends the process at an unknown option, so options are set only for tested
    versions. Loops that move more than `SMALL_LOOP_BYTES` stay loops of XLA, which write into arrays in place.
    """
    flags = os.environ.get("XLA_FLAGS")
    if not hash_recognition.holds or _EXTRA in (flags or ""):
        yield ""
        return
    options = f"-disable-loop-idiom-hashrecognize,xla_cpu_small_while_loop_byte_threshold={policy.SMALL_LOOP_BYTES}"
    os.environ["XLA_FLAGS"] = f"{flags or ''} {_EXTRA}={options}".strip()
    try:
        yield options
    finally:
        if flags is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = flags


_EXTRA = "--xla_backend_extra_options"


@cache
def on_cpu() -> bool:
    """Return True if JAX computes on the CPU, where arrays are in this process's memory. Starts JAX's back-end."""
    require_threads()
    return backend() == "cpu"


def is_cpu() -> bool:
    """Return True if JAX computes on the CPU. Unlike `on_cpu`, it starts the back-end only if other devices may
    exist."""
    if not _started and not is_imported() and not _may_have_others():
        return True
    return backend() == "cpu"


@cache
def _may_have_others() -> bool:
    """Return True if JAX may find devices other than the CPU. It looks for plugins where JAX does."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return (
        not {"PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH"}.isdisjoint(os.environ)
        or any(map(find_spec, ("jax_plugins", "libtpu")))
        or any(map(_has_plugin, sys.path))
    )


def _has_plugin(folder: str) -> bool:
    """Return True if a package installed in a folder declares a plugin of JAX.

    It reads the same files as `importlib.metadata.entry_points`, whose first use takes 40 ms (here: 5 ms).
    """
    if os.path.isfile(folder) or folder.endswith(".egg"):
        return True  # an archive may hold any package
    try:
        packages = [e.path for e in os.scandir(folder or ".") if e.name.lower().endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    return any(b"[jax_plugins]" in _read(os.path.join(package, "entry_points.txt")) for package in packages)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def has_started() -> bool:
    """Return True if mxcompat has started JAX's back-end."""
    return bool(_started)
