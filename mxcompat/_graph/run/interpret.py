"""Interpret a Program in NumPy, op by op. Its derivatives are `differentiate`'s.

What is seen for the first time costs XLA, and JAX's tracing before it, a thousand times what it costs NumPy. Here rules
are looked up (`ir.rules`) and called, nothing else: no tracing, no compiler. What has no rule is left to a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from .. import policy
from ..ir import buffers
from ..ir.aval import Aval
from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import COVERED, HOST, OVERWRITE, Rules
from .allocation import largest_result
from .interrupts import uninterrupted

__all__ = [
    "Fallback", "NoRule", "can_interpret", "counts", "covered", "environment", "interpret", "no_fallback",
    "run_instructions",
]  # fmt: skip

Fallback = Callable[[Op, Any, tuple, Sequence[Any]], Any]
"""`fallback(op, out, params, inputs)` runs one op in another way."""


class NoRule(Exception):
    """An op has no rule for these inputs, and there is no other way to run it."""


def no_fallback(op: Op, out: Any, params: tuple, inputs: Sequence[Any]) -> Any:
    raise NoRule(f"[{op}] has no host rule for {[getattr(x, 'dtype', type(x)) for x in inputs]}")


def interpret(program: Program, inputs: Sequence[Any], fallback: Fallback = no_fallback) -> list[Any]:
    """The outputs of a Program, for inputs that are NumPy arrays (or scalars)."""
    env = environment(program, inputs)
    run_instructions(program, env, fallback, set() if counts(program) else None)
    return [env[s] for s in program.out_slots]


def environment(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """What is in each slot: the results, None so far, and then the inputs from the last to the first, so that slot ~k
    is counted from the end."""
    return [*[None] * len(program.instructions), *reversed(inputs)]


def run_instructions(
    program: Program, env: list[Any], fallback: Fallback, free: set[int] | None = None,
    kept: frozenset[int] = frozenset(),
) -> None:  # fmt: skip
    """Put the results of all instructions in an environment.

    Args:
        free: the ids of arrays that may be written over, which are the values of nodes; those of what they are views of
            are added. What all its readers have read is dropped, and what an op writes over is written over if it is
            read for the last time then. If something fails after that, `env` holds all that is needed to go on from
            there. None: everything is kept, and not counted as memory in use.
        kept: slots of which the values are kept all the same.
    """
    if free is None:
        _run_and_keep(program, env, fallback)
        return
    counted = counts(program)
    least = 0 if counted else policy.REUSED_BYTES
    steps = zip(program.instructions, program.avals, *_reads(program, kept), strict=True)
    for k, ((op, params, slots), out, places, dropped) in enumerate(steps):
        given = [env[s] for s in slots]
        try:
            place = _reused(op, out, slots, places, given, free) if places and out.nbytes >= least else None
            if op is ITEM:
                env[k] = given[0][params[0]]
            elif place is not None:
                _overwrite(op, out, params, place, given, slots, free, env, k)
            else:
                env[k] = _result(op, out, params, given, fallback)
        except Exception as error:
            error.mxcompat_slot = k  # type: ignore[attr-defined]  # the outermost program's, in the end
            raise
        if counted:
            buffers.made(env[k])
        for s in dropped:
            if id(env[s]) in free:
                _give_up(env, s, given, free)
            elif s >= 0:
                env[s] = None


def counts(program: Program) -> bool:
    """Whether a result may be so large that its buffer is counted as memory in use."""
    return largest_result(program) >= buffers.smallest


def _run_and_keep(program: Program, env: list[Any], fallback: Fallback) -> None:
    k = 0
    try:
        for k, ((op, params, slots), out) in enumerate(zip(program.instructions, program.avals)):  # noqa: B905
            rule = HOST.get(op)
            if rule is not None:
                result = rule(out, params, *[env[s] for s in slots])
                if result is not None:
                    env[k] = result
                    continue
            given = [env[s] for s in slots]
            env[k] = given[0][params[0]] if op is ITEM else fallback(op, out, params, given)
    except Exception as error:
        error.mxcompat_slot = k  # type: ignore[attr-defined]
        raise


def _result(op: Op, out: Any, params: tuple, given: list[Any], fallback: Fallback) -> Any:
    rule = HOST.get(op)
    result = rule(out, params, *given) if rule is not None else None
    return fallback(op, out, params, given) if result is None else result


_Reads = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]


def _reads(program: Program, kept: frozenset[int]) -> _Reads:
    """Of each instruction: the positions of the inputs that it may write over, which nothing reads after it; and the
    values that nothing reads after it."""
    found = program.facts.get(("reads", kept))
    if found is None:
        facts, key = program.code.facts, ("reads", program.out_slots, kept)
        if key not in facts:
            facts[key] = _find_reads(program, kept)
        found = program.facts["reads", kept] = facts[key]
    return found


def _find_reads(program: Program, kept: frozenset[int]) -> _Reads:
    later = {*program.out_slots, *kept}
    places: list[tuple[int, ...]] = []
    dropped: list[tuple[int, ...]] = []
    for op, _, slots in reversed(program.instructions):
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


def _reused(
    op: Op, out: Aval, slots: Sequence[int], places: Sequence[int], given: list[Any], free: set[int]
) -> int | None:
    """The position, one of these, of an input that the result can take the place of."""
    for place in places:
        mine = slots[place] >= 0 or id(given[place]) in free
        if mine and _is_own(given, place, free) and _is_like(given[place], out):
            return place
    return None


def _is_own(given: list[Any], place: int, free: set[int]) -> bool:
    """Whether one of these arrays, and the memory of it, belongs to its slot alone, and to a node that gives it up."""
    x = given[place]
    if type(x) is not np.ndarray or not x.flags.writeable or getrefcount(x) != _GIVEN + (id(x) in free):
        return False
    base = x.base
    if base is None:
        return True
    whole = x.flags.forc and type(base) is np.ndarray and base.base is None  # no two elements are one
    return whole and getrefcount(base) == _BASE + (id(base) in free and id(x) not in free)


def _give_up(env: list[Any], slot: int, given: list[Any], free: set[int]) -> None:
    """Drop the value of a node that gives it up. What it is a view of is free then, too, if nothing will read that."""
    x, env[slot] = env[slot], None
    if x.base is not None and getrefcount(x) == _GIVEN:  # a node has it instead of `env`
        free.add(id(x.base))


def _is_like(x: np.ndarray, out: Aval) -> bool:
    return x.shape == out.shape and x.dtype == out.dtype._numpy


def _references() -> tuple[int, int]:
    """Those to an array in the environment, and to what it is a view of, where `_is_own` counts them."""
    env = [np.empty(2)[:1]]
    given = [*env]
    x = given[0]
    base = x.base
    return getrefcount(x), getrefcount(base)


_GIVEN, _BASE = _references()


def _overwrite(
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


def can_interpret(program: Program) -> bool:
    """Whether every op of a Program has a host rule, to any depth; for some inputs a rule may still give None."""
    facts = program.code.facts
    if "interpretable" not in facts:
        facts["interpretable"] = all(
            op is ITEM or covered(HOST, op, params, ()) for op, params, _ in program.instructions
        )
    return facts["interpretable"]


def covered(kind: Rules, op: Op, params: tuple, wanted: tuple[bool, ...]) -> bool:
    """Whether an op has a rule of a kind that reaches through the Programs which it runs."""
    inner = COVERED.get(op)
    return op in kind and (inner is None or inner(kind, params, wanted))
