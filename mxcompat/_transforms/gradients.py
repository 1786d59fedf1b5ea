"""The gradient of a Program as a Program: what NumPy differentiates once more.

The rules by which NumPy carries cotangents back (PULLBACK) are run on symbolic arrays, for ops whose rules mean the
same derivative as JAX's when they are differentiated themselves. Others, half precision, complex numbers and integers
are left to XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, apply, items
from mxcompat._graph.ir.program import Program, programs_in
from mxcompat._graph.run.differentiate import carry_back
from mxcompat._graph.run.interpret import NoRule
from mxcompat._ops.define import TABLE

from .batching import value_on_host
from .symbolic import Symbolic
from .symbolic_rules import RULES

__all__ = ["Derivative", "gradient", "inlined", "tangent"]


class Derivative(NamedTuple):
    """The Program of a derivative: its inputs are those of the node, of which tangents and cotangents have the shapes
    and dtypes of what they belong to, then what it captured, which has these values."""

    program: Program
    values: list[Any]


def gradient(program: Program, primals: int, outputs: int) -> Derivative | None:
    """The Program of a `vjp` node with these params; None where a rule is missing."""
    return _remembered("gradient", _gradient, program, primals, outputs)


def tangent(program: Program, primals: int, outputs: int) -> Derivative | None:
    """The Program of a `jvp` node with these params; None where a rule is missing."""
    return _remembered("tangent", _tangent, program, primals, outputs)


def _remembered(what: str, make: Callable[..., Derivative], program: Program, *counts: int) -> Derivative | None:
    key = (what, *counts)
    if key not in program.facts:
        try:
            program.facts[key] = make(program, *counts)
        except (NoRule, ValueError):  # that is what NumPy makes of NoRule where an array is to hold a symbolic one
            program.facts[key] = None
    return program.facts[key]


def _gradient(program: Program, primals: int, outputs: int) -> Derivative:
    cotangents = program.out_avals[:outputs]
    if not all(a.dtype._kind == "f" and a.dtype.size >= 4 for a in (*program.in_avals[:primals], *cotangents)):
        raise NoRule("other than float32 and float64")

    def pulled(*given: Symbolic) -> Iterable[Any]:
        count = len(program.in_avals)
        outs, found = _pulled(program, tuple(range(primals)), given[:count], given[count:])
        return [*outs, *found]

    return _captured(pulled, (*program.in_avals, *cotangents))


def _tangent(program: Program, primals: int, outputs: int) -> Derivative:
    """The gradient is linear in the cotangents: the transpose of that is what a `jvp` makes of tangents."""
    if any(op in _KINKED for one in _every(program) for op, _, _ in one.instructions):
        raise NoRule("ties, at which the two derivatives differ")
    back = _gradient(program, primals, outputs)
    count = len(program.in_avals)

    def pushed(*given: Symbolic) -> Iterable[Any]:
        points, tangents = given[:count], given[count:]
        cotangents = [_zeros(a, given[0]) for a in program.out_avals[:outputs]]
        values = [given[0].like(v) for v in back.values]
        g = [*[None] * len(program.out_slots), *tangents]
        outs, found = _pulled(back.program, tuple(range(count, count + outputs)), [*points, *cotangents, *values], g)
        return [*outs[: len(program.out_slots)], *found]

    return _captured(pushed, (*program.in_avals, *program.in_avals[:primals]))


def _every(program: Program) -> Iterator[Program]:
    """A Program, and those in it, to any depth."""
    yield program
    for _, params, _ in program.instructions:
        for inner in programs_in(params):
            yield from _every(inner)


def _captured(function: Callable[..., Iterable[Any]], avals: Sequence[Aval]) -> Derivative:
    """The Program of what a function gives for inputs of these avals: symbolic arrays, and zeros of NumPy's."""
    with Capture(avals) as capture:
        given = [Symbolic(n) for n in capture.placeholders]
        outs = [x if isinstance(x, Symbolic) else _zeros(x, given[0]) for x in function(*given)]
        body = capture.close([x.node for x in outs])
    return Derivative(body.program, [value_on_host(n) for n in body.captured])


def _zeros(g: Any, like: Symbolic) -> Symbolic:
    """Zeros of this one's shape and dtype."""
    zero = like.like(0.0).astype(getattr(g.dtype, "_numpy", g.dtype))
    return zero.op("broadcast_to", params=(g.shape,))


def _pulled(
    program: Program, primals: tuple[int, ...], inputs: Sequence[Symbolic], cotangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The outputs of a Program, and the cotangents of some of its inputs; all symbolic, but for zeros."""
    env: list[Any] = [*[None] * len(program.instructions), *reversed(inputs)]
    for slot, (op, params, slots) in enumerate(program.instructions):
        if op is ITEM:
            env[slot] = env[slots[0]][params[0]]
            continue
        node = apply(op, tuple([env[s].node for s in slots]), params)
        if not slots:
            node.trace = inputs[0].node.trace  # or it would be a node from outside
        env[slot] = tuple(map(Symbolic, items(node))) if isinstance(node.aval, tuple) else Symbolic(node)
    return carry_back(program, primals, env, cotangents, RULES)


_KINKED = {TABLE[name] for name in ("abs", "max", "maximum", "min", "minimum", "sign")}
"""Ops whose tangents at ties and kinks are not the transpose of their gradients."""


def inlined(program: Program, values: Sequence[Any], primals: tuple[int, ...], g: tuple, inputs: Sequence[Any]) -> list:
    """The cotangents of some inputs of a Program that is part of another one, which has these values besides. None for
    one that is zero."""
    given = [*inputs, *[inputs[0].like(v) for v in values]]
    return [x if isinstance(x, Symbolic) else None for x in _pulled(program, primals, given, g)[1]]
