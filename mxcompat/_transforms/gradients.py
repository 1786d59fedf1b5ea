"""The gradient of a Program as a Program, and its tangents as one: what NumPy differentiates once more.

The rules by which cotangents are carried back, and tangents forward, are run on symbolic arrays (`symbolic_rules`).
What has no such rule, and derivatives with respect to complex numbers and integers, are left to XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import DEPENDS
from mxcompat._graph.run.differentiate import carry_back, carry_forward, fit
from mxcompat._graph.run.interpret import NoRule

from .batching import value_on_host
from .dependence import reached_inputs
from .lowering import JVP, VJP
from .split import PULL
from .symbolic import Symbolic
from .symbolic_rules import FORWARD, RULES
from .tangents import tangent_avals

__all__ = [
    "Derivative", "captured", "gradient", "inlined", "inlined_forward", "pulled", "replayed", "tangent", "zeros",
]  # fmt: skip


class Derivative(NamedTuple):
    """The Program of a derivative: its inputs are those of the node, of which tangents and cotangents have the shapes
    and dtypes of what they belong to, then what it captured, which has these values."""

    program: Program
    values: list[Any]


def gradient(program: Program, primals: int, outputs: int) -> Derivative | None:
    """The Program of a `vjp` node with these params; None where a rule is missing."""
    return _remembered("gradient", _gradient, program, primals, outputs)


def pulled(program: Program, primals: int, outputs: int) -> Derivative | None:
    """The Program of a `pull` node with these params; None where a rule is missing."""
    found, skipped = gradient(program, primals, outputs), len(program.out_slots)
    if found is None:
        return None
    return found._replace(program=found.program.giving(tuple(range(skipped, skipped + primals))))


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


@DEPENDS.of(VJP)
def _behind_vjp(params: tuple, result: int, behind_stops: bool) -> frozenset[int] | None:
    return _behind(gradient(*params), result, behind_stops)


@DEPENDS.of(PULL)
def _behind_pull(params: tuple, result: int, behind_stops: bool) -> frozenset[int] | None:
    return _behind(pulled(*params), result, behind_stops)


@DEPENDS.of(JVP)
def _behind_jvp(params: tuple, result: int, behind_stops: bool) -> frozenset[int] | None:
    return _behind(tangent(*params), result, behind_stops)


def _behind(derivative: Derivative | None, result: int, behind_stops: bool) -> frozenset[int] | None:
    return None if derivative is None else reached_inputs(derivative.program, frozenset([result]), behind_stops)


def _gradient(program: Program, primals: int, outputs: int) -> Derivative:
    cotangents = program.out_avals[:outputs]
    if not all(a.dtype._kind == "f" for a in (*program.in_avals[:primals], *cotangents)):
        raise NoRule("complex numbers and integers")

    def made(*given: Symbolic) -> Iterable[Any]:
        count = len(program.in_avals)
        outs, found = _pulled(program, tuple(range(primals)), given[:count], given[count:])
        return [*outs, *found]

    return captured(made, (*program.in_avals, *cotangents))


def _tangent(program: Program, primals: int, outputs: int) -> Derivative:
    if not all(a.dtype._kind == "f" for a in program.in_avals[:primals]):
        raise NoRule("complex numbers and integers")

    def pushed(*given: Symbolic) -> Iterable[Any]:
        count = len(program.in_avals)
        outs, found = _pushed(program, tuple(range(primals)), given[:count], given[count:])
        avals = tangent_avals(program, [a.dtype for a in program.in_avals[:primals]], outputs)
        return [*outs, *[zeros(a, given[0]) if t is None else t for a, t in zip(avals, found, strict=False)]]

    return captured(pushed, (*program.in_avals, *program.in_avals[:primals]))


def captured(function: Callable[..., Iterable[Any]], avals: Sequence[Aval]) -> Derivative:
    """The Program of what a function gives for inputs of these avals: symbolic arrays, and zeros of NumPy's."""
    with Capture(avals) as capture:
        given = [Symbolic(n) for n in capture.placeholders]
        body = capture.close([_node(x, given[0]) for x in function(*given)])
    return Derivative(body.program, [value_on_host(n) for n in body.captured])


def _node(x: Any, like: Symbolic) -> Node:
    """The node of a symbolic array, of zeros, or of all the results of an op that has several."""
    if isinstance(x, tuple):
        return x[0].node.inputs[0]
    return (x if isinstance(x, Symbolic) else zeros(x, like)).node


def zeros(g: Any, like: Symbolic) -> Symbolic:
    """Zeros of this one's shape and dtype."""
    zero = like.like(0.0).astype(getattr(g.dtype, "_numpy", g.dtype))
    return zero.op("broadcast_to", params=(g.shape,))


def _environment(program: Program, inputs: Sequence[Symbolic]) -> list[Any]:
    """The results of all instructions, and the inputs, where `carry_back` and `carry_forward` look for them."""
    env: list[Any] = [*[None] * len(program.instructions), *reversed(inputs)]
    for slot, (op, params, slots) in enumerate(program.instructions):
        if op is ITEM:
            env[slot] = env[slots[0]][params[0]]
            continue
        node = apply(op, tuple([env[s].node for s in slots]), params)
        if not slots:
            node.trace = inputs[0].node.trace  # or it would be a node from outside
        env[slot] = tuple(map(Symbolic, items(node))) if isinstance(node.aval, tuple) else Symbolic(node)
    return env


def _pulled(
    program: Program, primals: tuple[int, ...], inputs: Sequence[Symbolic], cotangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The outputs of a Program, and the cotangents of some of its inputs; all symbolic, but for zeros."""
    return carry_back(program, primals, _environment(program, inputs), cotangents, RULES)


def _pushed(
    program: Program, primals: tuple[int, ...], inputs: Sequence[Symbolic], tangents: Sequence[Symbolic]
) -> tuple[list[Any], list[Any]]:
    """The outputs of a Program, and their tangents, None for those that are zero."""
    return carry_forward(program, primals, _environment(program, inputs), tangents, FORWARD)


def _given(values: Sequence[Any], inputs: Sequence[Symbolic]) -> list[Symbolic]:
    """The inputs of a Program that is part of another one, which has these values besides."""
    return [*inputs, *[inputs[0].like(v) for v in values]]


def replayed(program: Program, inputs: Sequence[Symbolic]) -> list[Symbolic]:
    """The outputs of a Program that is part of another one."""
    env = _environment(program, inputs)
    return [env[s] for s in program.out_slots]


def inlined(program: Program, values: Sequence[Any], primals: tuple[int, ...], g: tuple, inputs: Sequence[Any]) -> list:
    """The cotangents of some inputs of a Program that is part of another one, which has these values besides. None for
    one that is zero."""
    found = _pulled(program, primals, _given(values, inputs), g)[1]
    return [x if isinstance(x, Symbolic) else None for x in found]


def inlined_forward(program: Program, values: Sequence[Any], tangents: Sequence[Any], inputs: Sequence[Any]) -> list:
    """The tangents of its outputs, from those of its first inputs; None for those that are zero."""
    primals = tuple([k for k, t in enumerate(tangents) if t is not None])
    return _pushed(program, primals, _given(values, inputs), [tangents[k] for k in primals])[1]


def _transposed(op: Op) -> Callable[..., Any]:
    """The rule of FORWARD for an op that has none: the gradient is linear in the cotangents, and its transpose is what
    becomes of tangents."""

    def push(tangents: Sequence[Any], y: Any, params: tuple, *inputs: Symbolic) -> Any:
        several = isinstance(y, tuple)
        ys = y if several else (y,)
        count = len(inputs)
        primals = tuple([k for k, t in enumerate(tangents) if t is not None])

        def made(*given: Symbolic) -> list[Any]:
            out = apply(op, tuple([x.node for x in given[:count]]), params)
            z = tuple(map(Symbolic, items(out))) if several else Symbolic(out)
            wanted = tuple([k in primals for k in range(count)])
            g = given[count:] if several else given[count]
            found = RULES[op](g, z, params, wanted, *given[:count])
            if found is None:
                raise NoRule(f"[{op}] has no pullback for these inputs")
            pairs = [(found[k], given[k]) for k in primals]
            return [zeros(x, x) if c is None else fit(c, x.node.aval) for c, x in pairs]

        back = captured(made, [x.node.aval for x in (*inputs, *ys)])
        nothing = [zeros(z, inputs[0]) for z in ys]
        places = tuple(range(count, count + len(ys)))
        found = inlined(back.program, back.values, places, tuple([tangents[k] for k in primals]), [*inputs, *nothing])
        moved = [zeros(z, inputs[0]) if t is None else t for t, z in zip(found, ys, strict=True)]
        return moved if several else moved[0]

    return push


for _op in RULES:
    if _op not in FORWARD:
        FORWARD[_op] = _transposed(_op)
