"""Arguments: which of a Program's inputs its executable takes, and in which order."""

from __future__ import annotations

import numpy as np

from ..ir.program import Program

__all__ = ["array_inputs", "baked", "groups", "order", "packed"]


def order(program: Program, donated: tuple[int, ...]) -> list[int] | None:
    """The order in which to pass the arrays; None if it is their own.

    JAX gives the buffers that may be written over to the outputs one after the other. Each must meet the output that is
    that very array but for a few elements, or XLA has to copy both.
    """
    arrays = array_inputs(program)
    places = {~arrays[k]: k for k in donated}
    origins: dict[int, int] = {}
    for slot, (op, _, slots) in enumerate(program.instructions):
        if op.in_place:
            origins[slot] = origins.get(slots[0], slots[0])
    wanted = [places.pop(origin) for s in program.out_slots if (origin := origins.get(s)) in places]
    wanted += places.values()
    found = list(range(len(arrays)))
    for place, k in zip(sorted(wanted), wanted, strict=True):
        found[place] = k
    return found if wanted != sorted(wanted) else None


def array_inputs(program: Program) -> list[int]:
    """The inputs that are not scalars."""
    scalars = set(program.scalars)
    return [k for k in range(len(program.in_avals)) if k not in scalars]


def baked(scalars: tuple, lifted: tuple[int, ...]) -> tuple:
    """The values of the scalars that are no arguments; None for those that are."""
    return tuple([None if k in lifted else v for k, v in enumerate(scalars)])


def groups(program: Program, lifted: tuple[int, ...]) -> dict[np.dtype, list[int]]:
    """The scalars that are arguments, by dtype: those of one dtype are passed as a vector."""
    found: dict[np.dtype, list[int]] = {}
    for k in lifted:
        found.setdefault(program.in_avals[program.scalars[k]].dtype.numpy, []).append(k)
    return found


def packed(program: Program, scalars: tuple, lifted: tuple[int, ...]) -> list[np.ndarray]:
    """These vectors."""
    with np.errstate(over="ignore"):
        return [np.array([scalars[k] for k in ks], dtype) for dtype, ks in groups(program, lifted).items()]
