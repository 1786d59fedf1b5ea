"""Interpret a Program in NumPy, op by op: forward, and its derivatives by a sweep over the same instructions.

What is met for the first time costs XLA, and JAX's tracing before it, a thousand times what it costs NumPy. Here rules
are looked up (`ir.rules`) and called, nothing else: no tracing, no compiler. What has no rule is left to a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.node import ITEM
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import COVERED, HOST, PULLBACK, PUSHFORWARD, Rules
from ..ir.structure import Structure

__all__ = [
    "Fallback", "NoRule", "active_slots", "can_interpret", "can_pull_back", "can_push_forward", "interpret",
    "pull_back", "push_forward", "run_instructions",
]  # fmt: skip

Fallback = Callable[[Op, Any, tuple, Sequence[Any]], Any]
"""`fallback(op, out, params, inputs)` runs one op in another way."""


class NoRule(Exception):
    """An op has no rule for these inputs, and there is no other way to run it."""


def no_fallback(op: Op, out: Any, params: tuple, inputs: Sequence[Any]) -> Any:
    raise NoRule(f"[{op}] has no host rule for {[getattr(x, 'dtype', type(x)) for x in inputs]}")


def interpret(program: Program, inputs: Sequence[Any], fallback: Fallback = no_fallback) -> list[Any]:
    """The outputs of a Program, for inputs that are NumPy arrays (or scalars)."""
    env = run_instructions(program, inputs, fallback)
    return [env[s] if s >= 0 else inputs[~s] for s in program.out_slots]


def run_instructions(
    program: Program | Structure, inputs: Sequence[Any], fallback: Fallback, uses: list[int] | None = None
) -> list[Any]:
    """The results of all instructions.

    Args:
        uses: how often each result is read; what has been read as often is dropped. None: nothing is.
    """
    env: list[Any] = []
    avals = program.avals
    for op, params, slots in program.instructions:
        if op is ITEM:
            env.append(env[slots[0]][params[0]] if slots[0] >= 0 else inputs[~slots[0]][params[0]])
            continue
        given = [env[s] if s >= 0 else inputs[~s] for s in slots]
        try:
            out = avals[len(env)]
            rule = HOST.get(op)
            result = rule(out, params, *given) if rule is not None else None
            if result is None:
                result = fallback(op, out, params, given)
        except Exception as error:
            error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program's, in the end
            raise
        env.append(result)
        if uses is not None:
            for s in slots:
                if s >= 0:
                    uses[s] -= 1
                    if not uses[s]:
                        env[s] = None
    return env


def active_slots(program: Program, primals: int | tuple[int, ...]) -> frozenset[int]:
    """The slots that may have a derivative with respect to these inputs: so many of the first, or those listed."""
    key = ("active", primals)
    if key not in program.facts:
        active = {~k for k in _indices(primals) if program.in_avals[k].dtype.kind in "fc"}
        for slot, (op, _, slots) in enumerate(program.instructions):
            aval = program.avals[slot]
            smooth = isinstance(aval, tuple) or aval.dtype.kind in "fc"
            if smooth and any(s in active for s in slots[: op.indices]):
                active.add(slot)
        program.facts[key] = frozenset(active)
    return program.facts[key]


def _indices(primals: int | tuple[int, ...]) -> Sequence[int]:
    return range(primals) if isinstance(primals, int) else primals


def pull_back(
    program: Program, primals: int | tuple[int, ...], inputs: Sequence[Any], cotangents: Sequence[Any],
    fallback: Fallback = no_fallback,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """The outputs of a Program, and the cotangents of some of its inputs.

    Args:
        primals: which inputs, all of them inexact, are differentiated with respect to: so many of the first, or those
            listed.
        cotangents: those of the first outputs, of their shapes and dtypes; None for one that is zero.

    Raises:
        NoRule: if an op on the way has no pullback.
    """
    env = run_instructions(program, inputs, fallback)
    active = active_slots(program, primals)
    known: dict[int, Any] = {}
    several: dict[int, list[Any]] = {}  # of ops with several results: the cotangents of these

    def add(slot: int, g: Any) -> None:
        known[slot] = known[slot] + g if slot in known else g

    for slot, g in zip(program.out_slots, cotangents, strict=False):
        if g is not None and slot in active:
            add(slot, g)
    for slot in range(len(env) - 1, -1, -1):
        op, params, slots = program.instructions[slot]
        g: Any = tuple(several.pop(slot)) if slot in several else known.pop(slot, None)
        if g is None:
            continue
        if op is ITEM:
            outputs = several.setdefault(slots[0], [None] * len(program.avals[slots[0]]))
            (k,) = params
            outputs[k] = g if outputs[k] is None else outputs[k] + g
            continue
        wanted = tuple([s in active and (op.indices is None or k < op.indices) for k, s in enumerate(slots)])
        rule = PULLBACK.get(op)
        try:
            found = rule and rule(g, env[slot], params, wanted, *[env[s] if s >= 0 else inputs[~s] for s in slots])
        except Exception as error:
            error.mxcompat_slot = slot  # type: ignore[attr-defined]
            raise
        if found is None:
            raise NoRule(f"[{op}] has no pullback for these inputs")
        for s, on, gi in zip(slots, wanted, found, strict=True):
            if on and gi is not None:
                add(s, _fit(gi, program.aval(s)))
    outs = [env[s] if s >= 0 else inputs[~s] for s in program.out_slots]
    return outs, [known[~k] if ~k in known else _zeros(program.in_avals[k]) for k in _indices(primals)]


def _zeros(aval: Aval) -> np.ndarray:
    return np.zeros(aval.shape, aval.dtype.numpy)


def push_forward(
    program: Program, primals: int | tuple[int, ...], inputs: Sequence[Any], tangents: Sequence[Any],
    fallback: Fallback = no_fallback,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """The outputs of a Program and their tangents, of those of some of its inputs (see `pull_back`). A tangent that is
    zero is None.

    Raises:
        NoRule: if an op on the way has no pushforward.
    """
    env = run_instructions(program, inputs, fallback)
    active = active_slots(program, primals)
    known: dict[int, Any] = {~k: t for k, t in zip(_indices(primals), tangents, strict=True) if ~k in active}
    for slot, (op, params, slots) in enumerate(program.instructions):
        moving = [known.get(s) for s in slots[: op.indices]]
        if slot not in active or all(t is None for t in moving):
            continue
        if op is ITEM:
            known[slot] = moving[0][params[0]]  # type: ignore[index]
            continue
        moving += [None] * (len(slots) - len(moving))
        rule = PUSHFORWARD.get(op)
        found = rule and rule(moving, env[slot], params, *[env[s] if s >= 0 else inputs[~s] for s in slots])
        if found is None:
            raise NoRule(f"[{op}] has no pushforward for these inputs")
        aval = program.avals[slot]
        if isinstance(aval, tuple):
            known[slot] = [None if t is None else _spread(t, a) for t, a in zip(found, aval, strict=True)]
        else:
            known[slot] = _spread(found, aval)
    outs = [env[s] if s >= 0 else inputs[~s] for s in program.out_slots]
    return outs, [known.get(s) for s in program.out_slots]


def _cast(g: Any, aval: Aval) -> Any:
    if g.dtype != aval.dtype.numpy:
        g = (g.real if g.dtype.kind == "c" and aval.dtype.kind != "c" else g).astype(aval.dtype.numpy)
    return g


def _fit(g: Any, aval: Aval) -> Any:
    """A cotangent as one of this shape and dtype: what was broadcast is summed."""
    shape = aval.shape
    if g.shape != shape:
        if g.ndim > len(shape):
            g = g.sum(axis=tuple(range(g.ndim - len(shape))))
        axes = tuple([k for k, (n, m) in enumerate(zip(g.shape, shape, strict=False)) if m == 1 != n])
        if axes:
            g = g.sum(axis=axes, keepdims=True)
        if g.shape != shape:
            g = np.broadcast_to(g, shape)
    return _cast(g, aval)


def _spread(t: Any, aval: Aval) -> Any:
    """A tangent as one of this shape and dtype."""
    return _cast(t if t.shape == aval.shape else np.broadcast_to(t, aval.shape), aval)


def can_interpret(program: Program) -> bool:
    """Whether every op of a Program has a host rule, to any depth; for some inputs a rule may still give None."""
    if "interpretable" not in program.facts:
        program.facts["interpretable"] = all(
            op is ITEM or _covered(HOST, op, params, ()) for op, params, _ in program.instructions
        )
    return program.facts["interpretable"]


def _covered(kind: Rules, op: Op, params: tuple, wanted: tuple[bool, ...]) -> bool:
    inner = COVERED.get(op)
    return op in kind and (inner is None or inner(kind, params, wanted))


def can_pull_back(program: Program, primals: int | tuple[int, ...], outputs: int | None = None) -> bool:
    """Whether `pull_back` finds all rules that it needs, for cotangents of the first outputs (None: of all)."""
    key = ("can pull back", primals, outputs)
    if key not in program.facts:
        reached = {*program.out_slots[:outputs]} & active_slots(program, primals)
        program.facts[key] = can_interpret(program) and _has_rules(PULLBACK, program, primals, reached)
    return program.facts[key]


def can_push_forward(program: Program, primals: int | tuple[int, ...]) -> bool:
    """Whether `push_forward` finds all rules that it needs."""
    key = ("can push forward", primals)
    if key not in program.facts:
        reached = {*active_slots(program, primals)}
        program.facts[key] = can_interpret(program) and _has_rules(PUSHFORWARD, program, primals, reached)
    return program.facts[key]


def _has_rules(kind: Rules, program: Program, primals: int | tuple[int, ...], reached: set[int]) -> bool:
    """Whether what is reached, and what has a derivative on the way there, has rules of this kind."""
    active = active_slots(program, primals)
    for slot in range(len(program.instructions) - 1, -1, -1):
        if slot in reached:
            op, params, slots = program.instructions[slot]
            wanted = tuple([s in active and (op.indices is None or k < op.indices) for k, s in enumerate(slots)])
            if op is not ITEM and not _covered(kind, op, params, wanted):
                return False
            reached.update([s for s, on in zip(slots, wanted, strict=True) if on])
    return True
