"""Find the thread and the index of reads and writes out of bounds, while NumPy runs a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .buffers import Memory, as_index
from .types import ScalarType
from .values import Scalar

__all__ = ["check", "check_index"]


def check(walk: Any, memory: Memory, type: ScalarType, index: Scalar, verb: str) -> None:
    """Raise IndexError for the first thread of the mask whose index is out of bounds.

    Args:
        verb: "reads" or "writes", for the message.
    """
    count = walk.space.recast(memory.data, type.dtype).shape[-1]
    check_index(walk, f"{memory.name}[{{}}]", count, index, verb)


def check_index(walk: Any, element: str, count: int, index: Scalar, verb: str) -> None:
    """Raise IndexError for the first thread of the mask whose index is not among `count` elements.

    Args:
        element: names the element in the message; `{}` stands for its index.
        verb: "reads" or "writes", for the message.
    """
    extents = walk.axes.extents
    where = np.broadcast_to(walk.n.array(as_index(walk.n, index)), extents)
    wrong = ((where < 0) | (where >= count)) & np.broadcast_to(walk.n.array(walk.mask), extents)
    if not wrong.any():
        return
    first = np.unravel_index(int(np.argmax(wrong)), extents) if extents else ()
    thread = tuple([int(np.broadcast_to(walk.n.array(p), extents)[first]) for p in walk.position])
    at = walk.place_now
    raise IndexError(
        f"[metal_kernel] {walk.kernel.signature.name}: {at.part} line {at.line}: thread {thread} {verb} "
        f"{element.format(int(where[first]))}, which has {count} elements."
    )
