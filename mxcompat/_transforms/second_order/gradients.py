"""Build the gradient or the tangent of a Program as another Program, which NumPy can run and differentiate again.

The pullbacks and pushforwards are run on symbolic arrays (`symbolic_rules`). XLA computes the unsupported derivatives:
those of ops without a rule, and those with respect to complex numbers and integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import DEPENDS
from mxcompat._graph.run.differentiate import carry_back, carry_forward, fit
from mxcompat._graph.run.interpret import NoRule

from ..derivative_dtypes.tangents import tangent_avals
from ..programs.batching import value_on_host
from ..programs.dependence import reached_inputs
from ..programs.split import PULL
from ..transform_ops import JVP, VJP
from .symbolic import Symbolic
from .symbolic_rules import FORWARD, RULES

__all__ = [
    "Derivative", "captured", "gradient", "inlined", "inlined_forward", "pulled", "replayed", "tangent", "zeros",
]  # fmt: skip


class Derivative(NamedTuple):
    """The Program of a derivative, and the values of the constants that it captured.

    Its inputs are the inputs of the derivative's node, then the captured constants. Tangents and cotangents have the
    shapes and dtypes of their primals and outputs.
    """

    program: Program
    values: list[Any]


@analysis
def gradient(program: Program, primals: int, outputs: int) -> Derivative | None:
    """Return the Program of a `vjp` node with these params, or None if an op has no rule."""
    return _if_ruled(_gradient, program, primals, outputs)


def pulled(program: Program, primals: int, outputs: int) -> Derivative | None:
    """Return the Program of a `pull` node with these params, or None if an op has no rule."""
    derivative, skipped = gradient(program, primals, outputs), len(program.out_slots)
    if derivative is None:
        return None
    return derivative._replace(program=derivative.program.giving(tuple(range(skipped, skipped + primals))))


@analysis
def tangent(program: Program, primals: int, outputs: int) -> Derivative | None:
    """Return the Program of a `jvp` node with these params, or None if an op has no rule."""
    return _if_ruled(_tangent, program, primals, outputs)


def _if_ruled(make: Callable[..., Derivative], program: Program, *counts: int) -> Derivative | None:
    try:
        return make(program, *counts)
    except (NoRule, ValueError):  # NumPy raises ValueError for NoRule when it converts a symbolic array
        return None


@DEPENDS.of(VJP)
def _inputs_of_vjp(params: tuple, result: int, behind_stops: bool) -> frozenset[int] | None:
    return _inputs_of(gradient(*params), result, behind_stops)


@DEPENDS.of(PULL)
def _inputs_of_pull(params: tuple, result: int, behind_stops: bool) -> frozenset[int] | None:
    return _inputs_of(pulled(*params), result, behind_stops)


@DEPENDS.of(JVP)
def _inputs_of_jvp(params: tuple, result: int, behind_stops: bool) -> frozenset[int] | None:
    return _inputs_of(tangent(*params), result, behind_stops)


def _inputs_of(derivative: Derivative | None, result: int, behind_stops: bool) -> frozenset[int] | None:
    return None if derivative is None else reached_inputs(derivative.program, frozenset([result]), behind_stops)


def _gradient(program: Program, primals: int, outputs: int) -> Derivative:
    cotangents = program.out_avals[:outputs]
    if not all(a.dtype._kind == "f" for a in (*program.in_avals[:primals], *cotangents)):
        raise NoRule("complex numbers and integers")

    def run(*arguments: Symbolic) -> Iterable[Any]:
        count = len(program.in_avals)
        outs, gradients = _pulled(program, tuple(range(primals)), arguments[:count], arguments[count:])
        return [*outs, *gradients]

    return captured(run, (*program.in_avals, *cotangents))


def _tangent(program: Program, primals: int, outputs: int) -> Derivative:
    if not all(a.dtype._kind == "f" for a in program.in_avals[:primals]):
        raise NoRule("complex numbers and integers")

    def pushed(*arguments: Symbolic) -> Iterable[Any]:
        count = len(program.in_avals)
        outs, out_tangents = _pushed(program, tuple(range(primals)), arguments[:count], arguments[count:])
        avals = tangent_avals(program, [a.dtype for a in program.in_avals[:primals]], outputs)
        return [*outs, *[zeros(a, arguments[0]) if t is None else t for a, t in zip(avals, out_tangents, strict=False)]]

    return captured(pushed, (*program.in_avals, *program.in_avals[:primals]))


def captured(function: Callable[..., Iterable[Any]], avals: Sequence[Aval]) -> Derivative:
    """Trace `function` on symbolic arrays of these avals; its results may be symbolic arrays or NumPy zeros."""
    with Capture(avals) as capture:
        arguments = [Symbolic(n) for n in capture.placeholders]
        body = capture.close([_node(x, arguments[0]) for x in function(*arguments)])
    return Derivative(body.program, [value_on_host(n) for n in body.captured])


def _node(x: Any, like: Symbolic) -> Node:
    """Return the node of a symbolic array or of zeros. For a tuple of items, return the node that the items select
    from."""
    if isinstance(x, tuple):
        return x[0].node.inputs[0]
    return (x if isinstance(x, Symbolic) else zeros(x, like)).node


def zeros(g: Any, like: Symbolic) -> Symbolic:
    """Return symbolic zeros of the shape and dtype of `g`."""
    zero = like.like(0.0).astype(getattr(g.dtype, "_numpy", g.dtype))
    return zero.op("broadcast_to", params=(g.shape,))


def _environment(program: Program, inputs: Sequence[Symbolic]) -> list[Any]:
    """Apply all instructions; return the results and inputs in the layout of `carry_back` and `carry_forward`."""
    env: list[Any] = [*[None] * len(program.instructions), *reversed(inputs)]
    for slot, (op, params, slots) in enumerate(program.instructions):
        if op is ITEM:
            env[slot] = env[slots[0]][params[0]]
            continue
        node = apply(op, tuple([env[s].node for s in slots]), params)
        if not slots:
            node.trace = inputs[0].node.trace  # otherwise the capture would count the node as an outside value
        env[slot] = tuple(map(Symbolic, items(node))) if isinstance(node.aval, tuple) else Symbolic(node)
    return env


def _pulled(
    program: Program, primals: tuple[int, ...], inputs: Sequence[Symbolic], cotangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a Program, and the cotangents of some of its inputs. Zero cotangents are not symbolic."""
    return carry_back(program, primals, _environment(program, inputs), cotangents, RULES)


def _pushed(
    program: Program, primals: tuple[int, ...], inputs: Sequence[Symbolic], tangents: Sequence[Symbolic]
) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a Program and their tangents, with None for zero tangents."""
    return carry_forward(program, primals, _environment(program, inputs), tangents, FORWARD)


def _all_inputs(values: Sequence[Any], inputs: Sequence[Symbolic]) -> list[Symbolic]:
    """Return the inputs of an inlined Program: `inputs`, then its captured `values`."""
    return [*inputs, *[inputs[0].like(v) for v in values]]


def replayed(program: Program, inputs: Sequence[Symbolic]) -> list[Symbolic]:
    """Inline a Program into the one being traced, and return its outputs."""
    env = _environment(program, inputs)
    return [env[s] for s in program.out_slots]


def inlined(program: Program, values: Sequence[Any], primals: tuple[int, ...], g: tuple, inputs: Sequence[Any]) -> list:
    """Inline the gradient of a Program with captured `values`; return the cotangents of some inputs, None for a zero
    one."""
    gradients = _pulled(program, primals, _all_inputs(values, inputs), g)[1]
    return [x if isinstance(x, Symbolic) else None for x in gradients]


def inlined_forward(program: Program, values: Sequence[Any], tangents: Sequence[Any], inputs: Sequence[Any]) -> list:
    """Inline the pushforward of a Program; return its outputs' tangents, None for a zero one."""
    primals = tuple([k for k, t in enumerate(tangents) if t is not None])
    return _pushed(program, primals, _all_inputs(values, inputs), [tangents[k] for k in primals])[1]


def _transposed(op: Op) -> Callable[..., Any]:
    """Derive the pushforward of an op from its pullback.

    The pullback is linear in the cotangents, and its transpose maps the inputs' tangents to the outputs'.
    """

    def push(tangents: Sequence[Any], y: Any, params: tuple, *inputs: Symbolic) -> Any:
        several = isinstance(y, tuple)
        ys = y if several else (y,)
        count = len(inputs)
        primals = tuple([k for k, t in enumerate(tangents) if t is not None])

        def pull_back(*arguments: Symbolic) -> list[Any]:
            out = apply(op, tuple([x.node for x in arguments[:count]]), params)
            z = tuple(map(Symbolic, items(out))) if several else Symbolic(out)
            needs_grad = tuple([k in primals for k in range(count)])
            g = arguments[count:] if several else arguments[count]
            cotangents = RULES[op](g, z, params, needs_grad, *arguments[:count])
            if cotangents is None:
                raise NoRule(f"[{op}] has no pullback for these inputs")
            pairs = [(cotangents[k], arguments[k]) for k in primals]
            return [zeros(x, x) if c is None else fit(c, x.node.aval) for c, x in pairs]

        back = captured(pull_back, [x.node.aval for x in (*inputs, *ys)])
        nothing = [zeros(z, inputs[0]) for z in ys]
        places = tuple(range(count, count + len(ys)))
        out_tangents = inlined(
            back.program, back.values, places, tuple([tangents[k] for k in primals]), [*inputs, *nothing]
        )
        moved = [zeros(z, inputs[0]) if t is None else t for t, z in zip(out_tangents, ys, strict=True)]
        return moved if several else moved[0]

    return push


for _op in RULES:
    if _op not in FORWARD:
        FORWARD[_op] = _transposed(_op)
