"""Derivatives of linear ops, to any order, as two generic ops: `pulled` and `pushed` (see `symbolic_rules`).

Many ops are linear: in all inputs at once, if they move data, or in each factor of a product. Others, a sort for
example, are linear while the order of their input's elements does not change. For these ops, `pulled` and `pushed`
(which run the op's PULLBACK and PUSHFORWARD) are each other's transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD, Rules
from mxcompat._graph.run.differentiate import fit, spread
from mxcompat._jax import jax

from .symbolic import Symbolic

__all__ = ["PULLED", "PUSHED", "linear", "nothing"]

Factors = tuple[tuple[int, ...], ...]
"""For each factor of a product: the positions of its inputs among the op's inputs."""

_FACTORS: dict[Op, Factors] = {}
"""The factors of each op; empty for an op that is linear in all inputs at once."""

_MEETING: dict[Op, Callable[[tuple, int], tuple]] = {}
"""Maps each op that writes several values to one position to a function of `(params, at)`.

The function returns the params with which PUSHED is the transpose of PULLED.
"""


def _pulled(g: Any, *inputs: Any, op: Op, params: tuple, at: int) -> Any:
    return jax.vjp(_function_of_input(op, params, inputs, at), inputs[at])[1](g)[0]


def _pushed(t: Any, *inputs: Any, op: Op, params: tuple, at: int) -> Any:
    return jax.jvp(_function_of_input(op, params, inputs, at), (inputs[at],), (t,))[1]


def _function_of_input(op: Op, params: tuple, inputs: Sequence[Any], at: int) -> Callable[[Any], Any]:
    return lambda x: op.lower(params, _replaced(inputs, at, x))


def _replaced(inputs: Sequence[Any], at: int, x: Any) -> list[Any]:
    return [*inputs[:at], x, *inputs[at + 1 :]]


PULLED = Op("pulled", _pulled, lambda g, *inputs, op, params, at: inputs[at], ("op", "params", "at"))
"""Maps the cotangent of an op's result to that of its input number `at`. Operands: the cotangent, then the op's
inputs."""

PUSHED = Op("pushed", _pushed, lambda t, *inputs, op, params, at: op.infer((params, *inputs)), ("op", "params", "at"))
"""Maps the tangent of an op's input number `at` to that of its result. Operands: the tangent, then the op's inputs."""


@HOST.of(PULLED)
def _run_pulled(out: Aval, params: tuple, g: Any, *inputs: Any) -> Any:
    op, op_params, at = params
    cotangents = PULLBACK[op](g, g, op_params, tuple([k == at for k in range(len(inputs))]), *inputs)
    if cotangents is None:
        return None
    return np.zeros(out.shape, out.dtype._numpy) if cotangents[at] is None else np.asarray(fit(cotangents[at], out))


@HOST.of(PUSHED)
def _run_pushed(out: Aval, params: tuple, t: Any, *inputs: Any) -> Any:
    op, op_params, at = params
    like = np.broadcast_to(np.zeros((), out.dtype._numpy), out.shape)
    tangent = PUSHFORWARD[op]([t if k == at else None for k in range(len(inputs))], like, op_params, *inputs)
    return None if tangent is None else np.asarray(spread(tangent, out))


def _run(op: Op, params: tuple, *inputs: Any) -> Any:
    """Run PULLED or PUSHED, on NumPy arrays or on symbolic ones."""
    if isinstance(inputs[0], Symbolic):
        return Symbolic(apply(op, tuple([x.node for x in inputs]), params))
    out = op.infer((params, *[aval(x.shape, from_numpy(x.dtype)) for x in inputs]))  # type: ignore[arg-type]
    return HOST[op](out, params, *inputs)


def nothing(like: Any) -> Any:
    """Return zeros like a NumPy array or a symbolic one."""
    return np.broadcast_to(like.like(0.0), like.shape) if isinstance(like, Symbolic) else np.zeros_like(like)


def _with_tangent(op: Op, inputs: Sequence[Any], at: int, t: Any) -> list[Any]:
    """Return the inputs with the tangent `t` in place of input `at`, and zeros for the other inputs in the same group
    of `_FACTORS`."""
    peers = next((factor for factor in _FACTORS[op] if at in factor), ())
    others = [nothing(x) if k in peers and k != at else x for k, x in enumerate(inputs)]
    return _replaced(others, at, t)


def _other_factors(op: Op, at: int, count: int) -> list[int]:
    """Return the inputs that belong to other factors."""
    return [k for factor in _FACTORS[op] if at not in factor for k in factor if k < count]


def _derivatives(this: Op, reverse: Op) -> None:
    """Register the derivatives of PULLED or PUSHED; each is the other's transpose. In the remaining factors, the
    pairing of cotangent and tangent equals the op with the tangent in place of input `at`, paired with the
    cotangent."""

    @PULLBACK.of(this)
    def pull(g: Any, y: Any, params: tuple, needs_grad: Sequence[bool], first: Any, *inputs: Any) -> tuple:
        op, op_params, at = params
        cotangent, tangent = (first, g) if this is PULLED else (g, first)
        cotangents: list[Any] = [None] * len(needs_grad)
        if needs_grad[0]:
            met = _MEETING[op](op_params, at) if op in _MEETING and this is PULLED else op_params
            cotangents[0] = _run(reverse, (op, met, at), g, *inputs)
        for k in _other_factors(op, at, len(inputs)):
            if needs_grad[1 + k]:
                cotangents[1 + k] = _run(PULLED, (op, op_params, k), cotangent, *_with_tangent(op, inputs, at, tangent))
        return tuple(cotangents)

    @PUSHFORWARD.of(this)
    def push(tangents: Sequence[Any], y: Any, params: tuple, first: Any, *inputs: Any) -> Any:
        t, *others = tangents
        terms = [] if t is None else [_run(this, params, t, *inputs)]
        for k in _other_factors(params[0], params[2], len(inputs)):
            if others[k] is not None:
                terms.append(_run(this, params, first, *_with_tangent(params[0], inputs, k, others[k])))
        return reduce(add, terms) if terms else np.zeros((), y.dtype)


_derivatives(PULLED, PUSHED)
_derivatives(PUSHED, PULLED)


def linear(
    op: Op, factors: Factors, back: Rules, forth: Rules, holds: Callable[[tuple], bool] = lambda params: True,
    meeting: Callable[[tuple, int], tuple] | None = None,
) -> None:  # fmt: skip
    """Register symbolic rules for an op that is linear in each of these factors.

    Args:
        factors: see `_FACTORS`.
        back: the registry of pullbacks.
        forth: the registry of pushforwards.
        holds: returns True for the params with which the op is linear.
        meeting: see `_MEETING`.
    """
    _FACTORS[op] = factors
    if meeting is not None:
        _MEETING[op] = meeting

    @back.of(op)
    def pull(g: Any, y: Any, params: tuple, needs_grad: Sequence[bool], *inputs: Any) -> tuple | None:
        if not holds(params):
            return None
        return tuple([_run(PULLED, (op, params, k), g, *inputs) if on else None for k, on in enumerate(needs_grad)])

    @forth.of(op)
    def push(tangents: Sequence[Any], y: Any, params: tuple, *inputs: Any) -> Any:
        if not holds(params):
            return None
        moved = [(k, t) for k, t in enumerate(tangents) if t is not None]
        return reduce(add, [_run(PUSHED, (op, params, k), t, *inputs) for k, t in moved])
