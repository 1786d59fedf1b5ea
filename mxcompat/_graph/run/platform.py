"""The platform: what JAX computes on. To ask starts JAX's back-end, and a few things have to come before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

from .forked import require_threads
from .priority import candidates, threads

__all__ = ["backend", "before_start", "has_started", "on_cpu"]

before_start: list[Callable[[], Any]] = []
"""What is called, once, before JAX's back-end is started: a process that is one of several joins the others then."""

_started: list[str] = []


def backend() -> str:
    """The name of JAX's default back-end, which is started: "cpu", "gpu" or "tpu"."""
    if not _started:
        while before_start:
            before_start.pop()()
        before = threads()
        _started.append(jax.default_backend())
        if _started[0] == "cpu":
            candidates(threads() - before)
    return _started[0]


@cache
def on_cpu() -> bool:
    """Whether JAX computes on the CPU, where arrays are in this process's memory. Starts JAX's back-end."""
    require_threads()
    return backend() == "cpu"


def has_started() -> bool:
    """Whether JAX's back-end has been started from here."""
    return bool(_started)
