"""Reuse: whose memory a result in NumPy may be written to, by how often an array is referred to."""

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
    out: Aval, slots: Sequence[int], places: Sequence[int], given: list[Any], free: set[int], mine: frozenset[int]
) -> int | None:
    """The position, one of these, of an input that the result can take the place of."""
    for place in places:
        may_be = slots[place] >= 0 or slots[place] in mine or id(given[place]) in free
        if may_be and _is_own(given, place, free) and _is_like(given[place], out):
            return place
    return None


def _is_own(given: list[Any], place: int, free: set[int]) -> bool:
    """Whether one of these arrays, and the memory of it, belongs to its slot alone, and to a node that gives it up."""
    if of_item(given, place) != 1 + (id(given[place]) in free):  # the environment's, and the node's
        return False
    x = given[place]
    if type(x) is not np.ndarray or not x.flags.writeable:
        return False
    if x.base is None:
        return True
    whole = x.flags.forc and type(x.base) is np.ndarray and x.base.base is None  # no two elements are one
    return whole and of_base(x) == (id(x.base) in free and id(x) not in free)


def give_up(env: list[Any], slot: int, given: list[Any], free: set[int]) -> None:
    """Drop the value of a node that gives it up. What it is a view of is free then, too, if nothing will read that."""
    is_alone = of_item(env, slot) == 2  # the node's, and that of `given`
    x, env[slot] = env[slot], None
    if is_alone and x.base is not None:
        free.add(id(x.base))


def _is_like(x: np.ndarray, out: Aval) -> bool:
    return x.shape == out.shape and x.dtype == out.dtype._numpy


def overwrite(
    op: Op, out: Aval, params: tuple, place: int, given: list[Any], slots: Sequence[int], free: set[int],
    env: list[Any], k: int,
) -> None:  # fmt: skip
    slot = slots[place]

    def write() -> None:
        env[k] = OVERWRITE[op](out, params, place, *given)
        env[slot] = None

    if free:  # no node must be left with half of the new value, nor with what became of its own
        uninterrupted(write)
    else:
        write()
