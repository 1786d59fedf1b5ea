"""Wait for results of XLA. If a result is likely to be ready soon, spin first, because waking a thread takes longer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import perf_counter, sleep
from typing import Any

from mxcompat._jax import jax

from .. import policy

__all__ = ["give_way", "until_ready"]

give_way: Callable[[], None] = getattr(os, "sched_yield", lambda: sleep(0))
"""Yield the processor to other threads."""


def until_ready(values: Sequence[Any], look: bool = True) -> None:
    """Block until these JAX arrays, or tuples of them, are ready.

    Args:
        look: spin on the first of them for a short time before blocking.
    """
    if look:
        _look(values[0][0] if type(values[0]) is tuple else values[0])
    for value in values:
        if type(value) is tuple:
            jax.block_until_ready(value)
        else:
            value.block_until_ready()


def _look(value: jax.Array) -> None:
    end = perf_counter() + policy.SPIN_SECONDS
    while not value.is_ready() and perf_counter() < end:
        give_way()
