"""NumPy's memory handler: allocate arrays at addresses that XLA can use without a copy.

XLA on a CPU reads a NumPy array in place if its address is a multiple of 64. NumPy's own arrays rarely are. NumPy lets
a library set the functions that allocate memory, for one context of Python (NEP 49), but only from C.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from mxcompat._native import native

from .registry import unpromised

__all__ = ["ALIGNMENT", "with_aligned_memory"]

ALIGNMENT = 64
"""XLA on a CPU reads an array in place if its address is a multiple of this."""


class _Handler:
    """A context in which NumPy's new arrays are aligned."""

    def __enter__(self) -> None:
        self._before = native.swap_memory_handler(_functions(), None)

    def __exit__(self, *_: object) -> None:
        native.swap_memory_handler(_functions(), self._before)


@cache
def _functions() -> Any:
    """Return the capsule of NumPy's C functions."""
    from numpy._core._multiarray_umath import _ARRAY_API

    return _ARRAY_API


@unpromised(
    "aligned-memory", "XLA reads large results of NumPy in place", "it copies them if their address is not aligned"
)
def aligned_memory() -> bool:
    if native is None:
        return False
    with _Handler():
        arrays = [np.ones(size) for size in range(1, 1000, 100)] + [np.zeros(size) for size in range(1, 1000, 100)]
        arrays[0].resize(5000, refcheck=False)
    sums = [x.sum() for x in arrays]
    return sums == [*range(1, 1000, 100), *[0] * 10] and not any(x.ctypes.data % ALIGNMENT for x in arrays)


def with_aligned_memory() -> Any:
    """Return a context in which NumPy's new arrays are at aligned addresses, if that is possible."""
    return _Handler() if aligned_memory.holds else nullcontext()
