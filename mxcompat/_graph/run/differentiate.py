"""Differentiate a Program in NumPy, in reverse or forward mode, by a sweep over its instructions without tracing.

The instructions run first (`interpret`). Then the rules of each op (`PULLBACK`, `PUSHFORWARD`) carry cotangents back or
tangents forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir import buffers
from ..ir.analyses import analysis
from ..ir.aval import Aval, Dtype
from ..ir.node import ITEM
from ..ir.program import Program
from ..ir.rules import PULLBACK, PUSHFORWARD, Rules
from .active import active_slots, indices, residuals, seen
from .interpret import Fallback, NoRule, can_interpret, counts, environment, no_fallback, run_instructions, supports
from .values import in_order

__all__ = [
    "can_pull_back", "can_push_forward", "carry_back", "carry_forward", "fit", "pull_back", "push_forward", "spread",
]  # fmt: skip

NATURAL: Mapping[int, Dtype] = MappingProxyType({})
"""Dtypes of tangents by slot, with no entries: each tangent has the dtype of its value."""


def pull_back(
    program: Program, primals: int | tuple[int, ...], inputs: Sequence[Any], cotangents: Sequence[Any],
    fallback: Fallback = no_fallback,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Return the outputs of a Program, and the cotangents of some of its inputs.

    Args:
        primals: the inputs to differentiate with respect to: the number of first inputs, or their positions. All are
            inexact.
        cotangents: the cotangents of the first outputs, with the outputs' shapes and dtypes; None means zero.

    Raises:
        NoRule: if an op that the cotangents reach has no pullback.
    """
    env = environment(program, inputs)
    if counts(program):
        run_instructions(program, env, fallback, set(), residuals(program, primals))
    else:
        run_instructions(program, env, fallback)
    return carry_back(program, primals, env, cotangents)


def carry_back(
    program: Program, primals: int | tuple[int, ...], env: list[Any], cotangents: Sequence[Any],
    rules: Rules = PULLBACK,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Return the result of `pull_back` from an environment in which the instructions have run. Each value is dropped
    from `env` after its last use. In a Program with large arrays, NumPy's rules receive only the values that they
    declare as residuals, because the others may be freed."""
    active = active_slots(program, primals)
    outs = [env[s] for s in program.out_slots]
    known: dict[int, Any] = {}
    several: dict[int, list[Any]] = {}  # the cotangents of the results of ops with several results
    counted = counts(program)
    thinned = counted and rules is PULLBACK

    def add(slot: int, g: Any) -> None:
        known[slot] = known[slot] + g if slot in known else g
        if counted:
            buffers.track_temporary(known[slot])

    for slot, g in zip(program.out_slots, cotangents, strict=False):
        if g is not None and slot in active:
            add(slot, g)
    for slot in reversed(range(len(program.instructions))):
        op, params, slots = program.instructions[slot]
        y, env[slot] = env[slot], None
        g: Any = tuple(several.pop(slot)) if slot in several else known.pop(slot, None)
        if g is None:
            continue
        if op is ITEM:
            outputs = several.setdefault(slots[0], [None] * len(program.avals[slots[0]]))
            (k,) = params
            outputs[k] = g if outputs[k] is None else outputs[k] + g
            continue
        needs_grad = tuple([s in active and (op.indices is None or k < op.indices) for k, s in enumerate(slots)])
        rule = rules.get(op)
        inputs = [env[s] for s in slots]
        if thinned:
            y, inputs = seen(op, y, inputs, program.avals[slot], [program.aval(s) for s in slots])
        try:
            gradients = rule and rule(g, y, params, needs_grad, *inputs)
        except Exception as error:
            error.mxcompat_slot = slot  # type: ignore[attr-defined]
            raise
        if gradients is None:
            raise NoRule(f"[{op}] has no pullback for these inputs")
        for s, on, gi in zip(slots, needs_grad, gradients, strict=True):
            if on and gi is not None:
                add(s, fit(gi, program.aval(s)))
    return outs, [known[~k] if ~k in known else _zeros(program.in_avals[k]) for k in indices(primals)]


def _zeros(aval: Aval) -> np.ndarray:
    return np.zeros(aval.shape, aval.dtype._numpy)


def push_forward(
    program: Program, primals: int | tuple[int, ...], inputs: Sequence[Any], tangents: Sequence[Any],
    fallback: Fallback = no_fallback,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Return the outputs of a Program and their tangents, from the tangents of the inputs `primals` (see `pull_back`).
    None means a zero tangent.

    Raises:
        NoRule: if an op that the tangents reach has no pushforward.
    """
    env = environment(program, inputs)
    run_instructions(program, env, fallback)
    return carry_forward(program, primals, env, tangents)


def carry_forward(
    program: Program, primals: int | tuple[int, ...], env: Sequence[Any], tangents: Sequence[Any],
    rules: Rules = PUSHFORWARD, dtypes: Mapping[int, Dtype] = NATURAL,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Return the result of `push_forward` from an environment in which the instructions have run. `dtypes` maps slots
    to the dtypes of tangents that differ from the dtypes of their values."""
    active, counted = active_slots(program, primals), counts(program)
    if counted:
        buffers.track_temporary(env[: len(program.instructions)])
    known: dict[int, Any] = {~k: t for k, t in zip(indices(primals), tangents, strict=True) if ~k in active}
    for slot, (op, params, slots) in enumerate(program.instructions):
        in_tangents = [known.get(s) for s in slots[: op.indices]]
        if slot not in active or all(t is None for t in in_tangents):
            continue
        if op is ITEM:
            known[slot] = in_tangents[0][params[0]]  # type: ignore[index]
            continue
        in_tangents += [None] * (len(slots) - len(in_tangents))
        rule = rules.get(op)
        out_tangents = rule and rule(in_tangents, env[slot], params, *[env[s] for s in slots])
        if out_tangents is None:
            raise NoRule(f"[{op}] has no pushforward for these inputs")
        aval = program.avals[slot]
        if isinstance(aval, tuple):
            known[slot] = _spread_all(out_tangents, aval)
        else:
            known[slot] = spread(out_tangents, aval, dtypes.get(slot))
        if counted:
            buffers.track_temporary(known[slot])
    outs = [env[s] for s in program.out_slots]
    return outs, [known.get(s) for s in program.out_slots]


def _spread_all(tangents: Sequence[Any], avals: tuple[Any, ...]) -> list[Any]:
    """Apply `spread` to the tangents of a tuple of results. A result may itself be a tuple."""
    each = [_spread_all if isinstance(a, tuple) else spread for a in avals]
    return [None if t is None else of(t, a) for of, t, a in zip(each, tangents, avals, strict=True)]


def _cast(g: Any, dtype: Dtype) -> Any:
    if g.dtype != dtype._numpy:
        g = (g.real if g.dtype.kind == "c" and dtype._kind != "c" else g).astype(dtype._numpy)
    return g


def fit(g: Any, aval: Aval) -> Any:
    """Convert a cotangent to this shape and dtype. Broadcast axes are summed."""
    shape = aval.shape
    if g.shape != shape:
        if g.dtype.itemsize == 2:
            g = g.astype(np.float32)  # so that a sum in half precision is rounded once
        g = in_order(g)
        if g.ndim > len(shape):
            g = g.sum(axis=tuple(range(g.ndim - len(shape))))
        axes = tuple([k for k, (n, m) in enumerate(zip(g.shape, shape, strict=False)) if m == 1 != n])
        if axes:
            g = g.sum(axis=axes, keepdims=True)
        if g.shape != shape:
            g = np.broadcast_to(g, shape)
    return _cast(g, aval.dtype)


def spread(t: Any, aval: Aval, dtype: Dtype | None = None) -> Any:
    """Convert a tangent, also one from a user's function, to this shape and to `dtype` (by default the aval's)."""
    return _cast(t if t.shape == aval.shape else np.broadcast_to(t, aval.shape), dtype or aval.dtype)


@analysis
def can_pull_back(program: Program, primals: int | tuple[int, ...], outputs: int | None = None) -> bool:
    """Return True if all rules exist that `pull_back` needs for cotangents of the first `outputs` (None: all)."""
    reached = {*program.out_slots[:outputs]} & active_slots(program, primals)
    return can_interpret(program) and _has_rules(PULLBACK, program, primals, reached)


@analysis
def can_push_forward(program: Program, primals: int | tuple[int, ...]) -> bool:
    """Return True if all rules exist that `push_forward` needs."""
    return can_interpret(program) and _has_rules(PUSHFORWARD, program, primals, {*active_slots(program, primals)})


def _has_rules(kind: Rules, program: Program, primals: int | tuple[int, ...], reached: set[int]) -> bool:
    """Return True if the reached instructions, and the active ones that they depend on, have rules of this kind."""
    active = active_slots(program, primals)
    for slot in range(len(program.instructions) - 1, -1, -1):
        if slot in reached:
            op, params, slots = program.instructions[slot]
            needs_grad = tuple([s in active and (op.indices is None or k < op.indices) for k, s in enumerate(slots)])
            if op is not ITEM and not supports(kind, op, params, needs_grad):
                return False
            reached.update([s for s, on in zip(slots, needs_grad, strict=True) if on])
    return True
