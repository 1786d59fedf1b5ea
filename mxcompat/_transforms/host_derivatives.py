"""NumPy's rules for the derivatives of a Program: `vjp`, `jvp`, and their variants.

They sweep over the instructions of the Program, with the conventions of `transform_ops`. For derivatives of these ops,
the derivative is first built as a Program (`gradients`), which is then run like any other (`host`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, Dtype, from_numpy
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import COST, HOST, PULLBACK, PUSHFORWARD, READS_INPUTS, RESIDUALS, SUPPORTS, Rules
from mxcompat._graph.run.differentiate import (
    can_pull_back,
    can_push_forward,
    carry_forward,
    pull_back,
    push_forward,
    spread,
)
from mxcompat._graph.run.interpret import NoRule, environment, no_fallback, run_instructions

from .derivative_dtypes.integers import passes_integers
from .derivative_dtypes.mixed_forward import MIXED_PUSH
from .derivative_dtypes.tangents import tangent_avals, tangent_dtypes
from .host import Inner, priced, rules_of
from .programs.split import PULL
from .second_order import decompositions  # noqa: F401  registers its rules
from .second_order.gradients import Derivative, gradient, pulled, tangent
from .second_order.symbolic_rules import FORWARD, RULES
from .transform_ops import JVP, VJP

__all__: list[str] = []


def _derivative(of: Callable[..., Derivative | None]) -> Callable[[tuple], Inner | None]:
    def inner(params: tuple) -> Inner | None:
        result = of(*params)
        return None if result is None else Inner(result.program, result.values, len(result.program.in_avals))

    return inner


_differentiable = {}
for _op, _of in ((VJP, gradient), (PULL, pulled), (JVP, tangent)):
    PULLBACK[_op], PUSHFORWARD[_op], _differentiable[_op], RULES[_op], FORWARD[_op] = rules_of(_derivative(_of))[1:]
    RESIDUALS[_op] = READS_INPUTS


def _cotangents(program: Program, mlx_cotangents: Sequence[Any]) -> list[Any]:
    """Convert MLX's cotangents to the outputs' dtypes and shapes, and conjugate them. Return None for
    outputs of integers and bools."""
    cotangents: list[Any] = []
    for c, y in zip(mlx_cotangents, program.out_avals, strict=False):
        if y.dtype._kind not in "fc":
            cotangents.append(None)
            continue
        c = spread(c, y)
        cotangents.append(np.conj(c) if y.dtype._kind == "c" else c)
    return cotangents


def _are_smooth(program: Program, primals: int, outputs: int) -> bool:
    """Return True if the primals are inexact and no derivative passes through integers; XLA computes the other
    cases."""
    inexact = all(a.dtype._kind in "fc" for a in program.in_avals[:primals])
    return inexact and not passes_integers(program, primals, outputs)


@HOST.of(VJP)
def _vjp(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple | None:
    program, primals, _ = params
    if not _vjp_supports(HOST, params, ()):
        return None
    count = len(program.in_avals)
    try:
        outs, gradients = pull_back(program, primals, inputs[:count], _cotangents(program, inputs[count:]))
    except NoRule:
        return None
    return (*outs, *[np.conj(x) if x.dtype.kind == "c" else x for x in gradients])


@SUPPORTS.of(VJP, PULL)
def _vjp_supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
    if kind is not HOST:
        return _differentiable[VJP](kind, params, needs_grad)
    program, primals, outputs = params
    return _are_smooth(program, primals, outputs) and can_pull_back(program, primals, outputs)


@HOST.of(PULL)
def _pull(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple | None:
    results = _vjp(out, params, *inputs)
    return None if results is None else results[len(params[0].out_slots) :]


@HOST.of(JVP)
def _jvp(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple | None:
    program, primals, outputs = params
    if not _jvp_supports(HOST, params, ()):
        return None
    count = len(program.in_avals)
    in_tangents = [spread(t, a) for t, a in zip(inputs[count:], program.in_avals, strict=False)]
    try:
        outs, tangents = push_forward(program, primals, inputs[:count], in_tangents)
    except NoRule:
        return None
    return (*outs, *_filled(tangents, tangent_avals(program, [a.dtype for a in program.in_avals[:primals]], outputs)))


def _filled(tangents: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Fill in zeros for tangents that are None."""
    return [np.zeros(a.shape, a.dtype._numpy) if t is None else t for t, a in zip(tangents, avals, strict=False)]


@SUPPORTS.of(JVP)
def _jvp_supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
    if kind is not HOST:
        return _differentiable[JVP](kind, params, needs_grad)
    program, primals, outputs = params
    return _are_smooth(program, primals, outputs) and can_push_forward(program, primals)


@HOST.of(MIXED_PUSH)
def _mixed_push(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple | None:
    program, primals, _ = params
    count = len(program.in_avals)
    tangents = inputs[count:]
    dtypes = tangent_dtypes(program, [from_numpy(t.dtype) for t in tangents])
    real = all(isinstance(d, Dtype) and d._kind == "f" for d in dtypes.values())
    if not real or not _mixed_push_supports(HOST, params, ()):
        return None
    env = environment(program, inputs[:count])
    wide = reduce(promote, [a.dtype for a in (*program.in_avals[:primals], *out) if a.dtype._kind == "f"])
    try:
        run_instructions(program, env, no_fallback)
        wider = [_widened(x, wide._numpy) for x in env]
        out_tangents = carry_forward(program, primals, wider, tangents, dtypes=dtypes)[1]
    except NoRule:
        return None
    outs = [env[s] for s in program.out_slots]
    return (*outs, *_filled(out_tangents, out[len(outs) :]))


def _widened(x: Any, dtype: np.dtype) -> Any:
    """Cast a float value to the dtype in which its derivative is computed, if that is wider."""
    if isinstance(x, tuple):
        return tuple([_widened(v, dtype) for v in x])
    return x.astype(dtype) if from_numpy(x.dtype)._kind == "f" else x  # type: ignore[union-attr]


@SUPPORTS.of(MIXED_PUSH)
def _mixed_push_supports(kind: Rules, params: tuple, needs_grad: Sequence[bool]) -> bool:
    """Return True if NumPy computes a mixed-dtype pushforward. XLA computes nested Programs, which cast to their own
    dtypes, and derivatives of complex numbers and integers."""
    return kind is HOST and not params[0].is_nested and _jvp_supports(HOST, params, ())


COST.update(dict.fromkeys((VJP, PULL, JVP, MIXED_PUSH), priced(3.0)))
