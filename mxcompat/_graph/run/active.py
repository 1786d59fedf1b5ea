"""Activity analysis: which values of a Program depend differentiably on some of its inputs, and which values the
backward sweep reads (residuals)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..ir.analyses import analysis
from ..ir.aval import Dtype
from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import RESIDUALS, Residuals

__all__ = ["active_slots", "indices", "residuals", "seen"]


@analysis
def active_slots(program: Program, primals: int | tuple[int, ...]) -> frozenset[int]:
    """Return the slots that may have a derivative with respect to these inputs: the first `primals`, or those
    listed."""
    active = {~k for k in indices(primals) if program.in_avals[k].dtype._kind in "fc"}
    for slot, (op, _, slots) in enumerate(program.instructions):
        aval = program.avals[slot]
        smooth = isinstance(aval, tuple) or aval.dtype._kind in "fc"
        if smooth and any(s in active for s in slots[: op.indices][op.smooth]):
            active.add(slot)
    return frozenset(active)


def indices(primals: int | tuple[int, ...]) -> Sequence[int]:
    return range(primals) if isinstance(primals, int) else primals


_EVERYTHING = Residuals()


@analysis
def residuals(program: Program, primals: int | tuple[int, ...]) -> frozenset[int]:
    """Return the slots that the backward sweep reads."""
    active = active_slots(program, primals)
    slots_read: set[int] = set()
    for slot, (op, _, slots) in enumerate(program.instructions):
        if slot in active and op is not ITEM:
            read = RESIDUALS.get(op, _EVERYTHING)
            slots_read.update(slots[read.inputs], (slot,) if read.result else ())
    return frozenset(slots_read)


def seen(op: Op, y: Any, inputs: list[Any], out: Any, avals: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the result and the inputs to pass to a pullback. Dummies replace those that the op's `RESIDUALS` rule does
    not name."""
    read = RESIDUALS.get(op, _EVERYTHING)
    operands = [*map(_unread, avals)]
    operands[read.inputs] = inputs[read.inputs]
    return y if read.result else _unread(out), operands


def _unread(aval: Any) -> Any:
    """Return a dummy for a value of which a rule reads only the shape and the dtype."""
    if isinstance(aval, tuple):
        return tuple(map(_unread, aval))
    return np.broadcast_to(_filling(aval.dtype), aval.shape)


@lru_cache
def _filling(dtype: Dtype) -> np.ndarray:
    kind = dtype._numpy
    return np.full((), np.nan if dtype._kind in "fc" else True if dtype._kind == "b" else np.iinfo(kind).max, kind)
