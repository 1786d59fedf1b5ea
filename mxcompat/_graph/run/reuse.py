"""Reuse: choose an operand whose memory a result in NumPy can take, from the reference counts of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._compat.references import of_base, of_item

from ..ir.aval import Aval
from ..ir.op import Op
from ..ir.rules import OVERWRITE
from .interrupts import uninterrupted

__all__ = ["give_up", "overwrite", "reused"]


def reused(
    out: Aval, slots: Sequence[int], places: Sequence[int], inputs: list[Any], free: set[int], mine: frozenset[int]
) -> int | None:
    """Return a position, one of `places`, of an input that the result may overwrite, or None."""
    for place in places:
        may_be = slots[place] >= 0 or slots[place] in mine or id(inputs[place]) in free
        if may_be and _is_own(inputs, place, free) and _is_like(inputs[place], out):
            return place
    return None


def _is_own(inputs: list[Any], place: int, free: set[int]) -> bool:
    """Return True if only its slot, and at most a node that may be overwritten, refer to this array and its memory."""
    # expect one reference by the environment, and one by a node if `free` lists the array
    if of_item(inputs, place) != 1 + (id(inputs[place]) in free):
        return False
    x = inputs[place]
    if type(x) is not np.ndarray or not x.flags.writeable:
        return False
    if x.base is None:
        return True
    # the view has no two elements at one address
    whole = x.flags.forc and type(x.base) is np.ndarray and x.base.base is None
    return whole and of_base(x) == (id(x.base) in free and id(x) not in free)


def give_up(env: list[Any], slot: int, inputs: list[Any], free: set[int]) -> None:
    """Drop a value that may be overwritten. If it is a view and nothing else refers to it, its base becomes free,
    too."""
    is_alone = of_item(env, slot) == 2  # the two references are those of the node and of `inputs`
    x, env[slot] = env[slot], None
    if is_alone and x.base is not None:
        free.add(id(x.base))


def _is_like(x: np.ndarray, out: Aval) -> bool:
    return x.shape == out.shape and x.dtype == out.dtype._numpy


def overwrite(
    op: Op, out: Aval, params: tuple, place: int, inputs: list[Any], slots: Sequence[int], free: set[int],
    env: list[Any], k: int,
) -> None:  # fmt: skip
    slot = slots[place]

    def write() -> None:
        env[k] = OVERWRITE[op](out, params, place, *inputs)
        env[slot] = None

    if free:  # an interrupt must not leave a node with a partly or fully overwritten value
        uninterrupted(write)
    else:
        write()
