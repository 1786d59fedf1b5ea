"""Control flow in NumPy: a Python loop over a Program, or a choice of Program; and the derivatives.

A reverse-mode derivative stores the carry of each step. It then differentiates the steps from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import COST, HOST, PULLBACK, PUSHFORWARD, SUPPORTS, Rules
from mxcompat._graph.run.differentiate import can_pull_back, can_push_forward, pull_back, push_forward
from mxcompat._graph.run.host import estimated_seconds
from mxcompat._graph.run.interpret import NoRule, can_interpret, interpret

from .ops import COND, SCAN, WHILE

__all__: list[str] = []


def _can_run(kind: Rules, program: Program, primals: tuple[int, ...]) -> bool:
    """Return True if the rules of this kind can run a Program, with respect to these inputs."""
    if kind is HOST:
        return can_interpret(program)
    return (can_pull_back if kind is PULLBACK else can_push_forward)(program, primals)


def _smooth(program: Program, carry: int, differentiated: Sequence[bool]) -> tuple[int, ...]:
    """Return the body's inputs that may have a derivative: those in `differentiated`, and the carry, which may get one
    from a step."""
    avals = program.in_avals
    return tuple([k for k, a in enumerate(avals) if a.dtype._kind in "fc" and (k < carry or differentiated[k])])


def _added(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


# -


def _steps(length: int, reverse: bool) -> Sequence[int]:
    return range(length - 1, -1, -1) if reverse else range(length)


def _inputs(params: tuple, state: Sequence[Any], inputs: Sequence[Any], k: int) -> list[Any]:
    """Return the body's inputs at step k."""
    _, carry, sequences, *_ = params
    end = carry + sequences
    return [*state, *[x[k] for x in inputs[carry:end]], *inputs[end:]]


@HOST.of(SCAN)
def _scan(out: tuple, params: tuple, *inputs: Any) -> tuple | None:
    program, carry, _, length, reverse = params
    if not can_interpret(program):
        return None
    state: Sequence[Any] = inputs[:carry]
    stacked = [np.empty(a.shape, a.dtype._numpy) for a in out[carry:]]
    try:
        for k in _steps(length, reverse):
            outs = interpret(program, _inputs(params, state, inputs, k))
            state = outs[:carry]
            for ys, y in zip(stacked, outs[carry:], strict=True):
                ys[k] = y
    except NoRule:
        return None
    return (*state, *stacked)


@PULLBACK.of(SCAN)
def _scan_pull(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple:
    program, carry, sequences, length, reverse = params
    end = carry + sequences
    primals = _smooth(program, carry, needs_grad)
    states: list[Sequence[Any]] = [inputs[:carry]]
    for k in _steps(length, reverse)[:-1]:
        states.append(interpret(program, _inputs(params, states[-1], inputs, k))[:carry])
    gradients: list[Any] = [*g[:carry], *[None] * (len(inputs) - carry)]
    for k in primals:
        if carry <= k < end:
            gradients[k] = np.zeros_like(inputs[k])
    for k in reversed(_steps(length, reverse)):
        cotangents = [*gradients[:carry], *[None if c is None else c[k] for c in g[carry:]]]
        pulled = pull_back(program, primals, _inputs(params, states.pop(), inputs, k), cotangents)[1]
        gradients[:carry] = [None] * carry
        for j, c in zip(primals, pulled, strict=True):
            if carry <= j < end:
                gradients[j][k] = c
            else:
                gradients[j] = _added(gradients[j], c)
    return tuple(gradients)


@PUSHFORWARD.of(SCAN)
def _scan_push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> list[Any]:
    program, carry, sequences, length, reverse = params
    end = carry + sequences
    primals = _smooth(program, carry, [t is not None for t in tangents])
    state: Sequence[Any] = inputs[:carry]
    moving = list(tangents[:carry])
    stacked = [np.zeros(a.shape, a.dtype) if a.dtype.kind in "fcV" else None for a in y[carry:]]
    for k in _steps(length, reverse):
        primals_at_k = _inputs(params, state, inputs, k)
        pushed = [*moving, *[None if t is None else t[k] for t in tangents[carry:end]], *tangents[end:]]
        full = [np.zeros_like(primals_at_k[j]) if pushed[j] is None else pushed[j] for j in primals]
        outs, out_tangents = push_forward(program, primals, primals_at_k, full)
        state, moving = outs[:carry], out_tangents[:carry]
        for ts, t in zip(stacked, out_tangents[carry:], strict=True):
            if ts is not None and t is not None:
                ts[k] = t
    return [*moving, *stacked]


@SUPPORTS.of(SCAN)
def _scan_supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
    program, carry, *_ = params
    return can_interpret(program) and (kind is HOST or _can_run(kind, program, _smooth(program, carry, needs_grad)))


COST[SCAN] = lambda out, params, *avals: max(params[3], 1) * estimated_seconds(params[0])


# -


def _run_while(params: tuple, inputs: Sequence[Any], step: Callable[[list[Any]], Sequence[Any]]) -> Sequence[Any]:
    """Run the loop until the test is false, and return the last carry.

    Raises:
        NoRule: after `policy.MOST_HOST_STEPS` steps; XLA then runs the loop.
    """
    program, test, carry = params
    count = len(program.in_avals)
    state: Sequence[Any] = inputs[:carry]
    for _ in range(policy.MOST_HOST_STEPS):
        if not interpret(test, [*state, *inputs[count:]])[0]:
            return state
        state = step([*state, *inputs[carry:count]])
    raise NoRule("[while_loop] it is left to XLA")


@HOST.of(WHILE)
def _while(out: tuple, params: tuple, *inputs: Any) -> tuple | None:
    program, test, _ = params
    if not (can_interpret(program) and can_interpret(test)):
        return None
    try:
        return tuple(_run_while(params, inputs, lambda values: interpret(program, values)))
    except NoRule:
        return None


@PUSHFORWARD.of(WHILE)
def _while_push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> list[Any]:
    program, _, carry = params
    count = len(program.in_avals)
    primals = _smooth(program, carry, [t is not None for t in tangents[:count]])
    moving = list(tangents[:carry])

    def step(values: list[Any]) -> Sequence[Any]:
        pushed = [*moving, *tangents[carry:count]]
        full = [np.zeros_like(values[j]) if pushed[j] is None else pushed[j] for j in primals]
        outs, moving[:] = push_forward(program, primals, values, full)
        return outs

    _run_while(params, inputs, step)
    return moving


@SUPPORTS.of(WHILE)
def _while_supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
    program, test, carry = params
    if kind is PULLBACK or not (can_interpret(program) and can_interpret(test)):
        return False
    return kind is HOST or _can_run(kind, program, _smooth(program, carry, needs_grad[: len(program.in_avals)]))


COST[WHILE] = lambda out, params, *avals: policy.LIKELY_STEPS * sum(map(estimated_seconds, params[:2]))


# -


def _branch(params: tuple, inputs: Sequence[Any]) -> tuple[Program, tuple[int, ...]]:
    """Return the Program to run, and the positions of its inputs."""
    branches, reads = params
    k = min(max(int(inputs[0]), 0), len(branches) - 1)
    return branches[k], tuple([j + 1 for j in reads[k]])


@HOST.of(COND)
def _cond(out: tuple, params: tuple, *inputs: Any) -> tuple | None:
    program, places = _branch(params, inputs)
    if not can_interpret(program):
        return None
    try:
        return tuple(interpret(program, [inputs[k] for k in places]))
    except NoRule:
        return None


@PULLBACK.of(COND)
def _cond_pull(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple:
    program, places = _branch(params, inputs)
    primals = _smooth(program, 0, [needs_grad[k] for k in places])
    _, pulled = pull_back(program, primals, [inputs[k] for k in places], g)
    gradients: list[Any] = [None] * len(inputs)
    for j, c in zip(primals, pulled, strict=True):
        gradients[places[j]] = _added(gradients[places[j]], c)
    return tuple(gradients)


@PUSHFORWARD.of(COND)
def _cond_push(tangents: Sequence[Any], y: tuple, params: tuple, *inputs: Any) -> list[Any]:
    program, places = _branch(params, inputs)
    in_tangents = [tangents[k] for k in places]
    primals = _smooth(program, 0, [t is not None for t in in_tangents])
    return push_forward(program, primals, [inputs[k] for k in places], [in_tangents[j] for j in primals])[1]


@SUPPORTS.of(COND)
def _cond_supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
    pairs = zip(*params, strict=True)
    if kind is HOST:
        return all(can_interpret(p) for p, _ in pairs)
    return all(_can_run(kind, p, _smooth(p, 0, [needs_grad[k + 1] for k in places])) for p, places in pairs)


COST[COND] = lambda out, params, *avals: max(map(estimated_seconds, params[0]))
