"""The platform: what JAX computes on. To ask starts JAX's back-end, and a few things have to come before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from mxcompat._compat.xla import hash_recognition
from mxcompat._jax import is_imported, jax

from .forked import require_threads
from .priority import candidates, threads

__all__ = ["backend", "before_start", "has_started", "is_cpu", "on_cpu"]

before_start: list[Callable[[], Any]] = []
"""What is called, once, before JAX's back-end is started: a process that is one of several joins the others then."""

_started: list[str] = []


def backend() -> str:
    """The name of JAX's default back-end, which is started: "cpu", "gpu" or "tpu"."""
    if not _started:
        while before_start:
            before_start.pop()()
        before = threads()
        with _without_hash_recognition():
            _started.append(jax.default_backend())
        if _started[0] == "cpu":
            candidates(threads() - before)
    return _started[0]


@contextmanager
def _without_hash_recognition() -> Iterator[None]:
    """LLVM looks for checksums in loops, and in one over random bits that are fused into it (the codes of random
    weights) it never comes to an end. XLA reads its flags when it starts; LLVM ends the process for one that it does
    not know, so only versions are told that have been tried."""
    flags = os.environ.get("XLA_FLAGS")
    if not hash_recognition.holds or _LLVM in (flags or ""):
        yield
        return
    os.environ["XLA_FLAGS"] = f"{flags or ''} {_LLVM}=-disable-loop-idiom-hashrecognize".strip()
    try:
        yield
    finally:
        if flags is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = flags


_LLVM = "--xla_backend_extra_options"


@cache
def on_cpu() -> bool:
    """Whether JAX computes on the CPU, where arrays are in this process's memory. Starts JAX's back-end."""
    require_threads()
    return backend() == "cpu"


def is_cpu() -> bool:
    """The same, where JAX may never be needed: its back-end is started only if the answer depends on that."""
    if not _started and not is_imported() and not _may_have_others():
        return True
    return backend() == "cpu"


@cache
def _may_have_others() -> bool:
    """Whether JAX may find devices other than the CPU: by the ways in which it looks for what brings them."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    from importlib.metadata import entry_points  # here, since it takes long to import

    return (
        not {"PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH"}.isdisjoint(os.environ)
        or any(map(find_spec, ("jax_plugins", "libtpu")))
        or bool(entry_points(group="jax_plugins"))
    )


def has_started() -> bool:
    """Whether JAX's back-end has been started from here."""
    return bool(_started)
