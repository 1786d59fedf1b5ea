"""Reuse: find the last uses of values in a Program, and an operand whose memory a result in NumPy can take, from the
reference counts of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._compat.references import of_base, of_item

from ..ir.analyses import analysis
from ..ir.aval import Aval
from ..ir.op import Op
from ..ir.program import Code, Program
from ..ir.rules import OVERWRITE
from .interrupts import uninterrupted

__all__ = ["drop", "last_uses", "overwrite", "reused"]


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


def drop(env: list[Any], slots: Sequence[int], inputs: list[Any], free: set[int], mine: frozenset[int]) -> None:
    """Drop the values of these slots from an environment. `inputs` has all of them."""
    for s in slots:
        if id(env[s]) in free:
            _give_up(env, s, inputs, free)
        elif s >= 0 or s in mine:
            env[s] = None


def _give_up(env: list[Any], slot: int, inputs: list[Any], free: set[int]) -> None:
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


LastUses = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]


@analysis
def last_uses(program: Program, kept: frozenset[int]) -> LastUses:
    """Return two lists with an entry for each instruction: the positions of the inputs that it may overwrite, and the
    slots whose last use it is."""
    return _last_uses_in_code(program.code, program.out_slots, kept)


@analysis
def _last_uses_in_code(code: Code, out_slots: tuple[int, ...], kept: frozenset[int]) -> LastUses:
    later = {*out_slots, *kept}
    places: list[tuple[int, ...]] = []
    dropped: list[tuple[int, ...]] = []
    for op, _, slots in reversed(code.instructions):
        ended = [s for s in slots if s not in later]
        later.update(ended)
        if len(ended) > 1:
            ended = list(dict.fromkeys(ended))
        dropped.append(tuple(ended))
        if ended and op in OVERWRITE:
            once = [slots.index(s) for s in ended if slots.count(s) == 1]
            places.append(tuple(sorted([k for k in once if k == 0 or not op.in_place])))
        else:
            places.append(())
    return places[::-1], dropped[::-1]
