"""The gradient of a Program as a Program: what NumPy differentiates once more.

The rules by which NumPy carries cotangents back (PULLBACK) are run on symbolic arrays, for ops whose rules mean the
same derivative as JAX's when they are differentiated themselves. Others, half precision, complex numbers and integers
are left to XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mxcompat._array.construct import CAST, COPY
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.capture import ALIAS, Capture
from mxcompat._graph.ir.node import ITEM, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program, programs_in
from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD, Rules
from mxcompat._graph.run.differentiate import carry_back
from mxcompat._graph.run.interpret import NoRule
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import ASTYPE, STOP_GRADIENT
from mxcompat._ops.fast.norms import LAYER_NORM, RMS_NORM
from mxcompat._ops.indexing.gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from mxcompat._ops.linalg.norm import NORM
from mxcompat._ops.linalg.solve import INV
from mxcompat._ops.products.einsum import EINSUM
from mxcompat._ops.products.matmul import ADDMM, MATMUL, TENSORDOT

from .batching import value_on_host
from .symbolic import Symbolic

__all__ = ["RULES", "Derivative", "gradient", "inlined", "tangent"]


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
    if not all(a.dtype.kind == "f" and a.dtype.size >= 4 for a in (*program.in_avals[:primals], *cotangents)):
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
    zero = like.like(0.0).astype(getattr(g.dtype, "numpy", g.dtype))
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

_SAME = (
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "atleast",
    "broadcast_to", "ceil", "concatenate", "constant_like", "cos", "cosh", "degrees", "divide", "erf", "erfinv",
    "exp", "expand_dims", "expm1", "flatten", "floor", "inner", "kron", "log", "log10", "log1p", "log2", "max",
    "maximum", "mean", "min", "minimum", "multiply", "negative", "outer", "pad", "positive", "radians", "reshape",
    "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "squeeze", "stack",
    "subtract", "sum", "tan", "tanh", "transpose", "trunc", "unflatten", "vecdot", "where",
)  # fmt: skip

RULES = Rules({TABLE[name]: PULLBACK[TABLE[name]] for name in _SAME})
RULES.update({op: PULLBACK[op] for op in (ADDMM, EINSUM, INV, MATMUL, TENSORDOT, ASTYPE, CAST, COPY, STOP_GRADIENT)})
"""The rules that can be run on symbolic arrays: NumPy's, and those below where that one writes into arrays, or would
lose digits, or make infinities, once it is differentiated."""


@RULES.of(ALIAS)
def _alias(g: Symbolic, y: Any, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple:
    return (g,)


@RULES.of(TABLE["power"])
def _power(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], a: Symbolic, b: Symbolic) -> tuple | None:
    if wanted[1]:
        return None
    a, b = a.astype(y.dtype), b.astype(y.dtype)
    zero = b == 0
    return g * np.where(zero, 0.0, b * np.power(a, np.where(zero, 1.0, b - 1))), None


@RULES.of(TABLE["logaddexp"])
def _logaddexp(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], a: Symbolic, b: Symbolic) -> tuple:
    return g * (a - b).op("sigmoid"), g * (b - a).op("sigmoid")


@RULES.of(TABLE["softmax"])
def _softmax(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple:
    return (y * (g - (y * g).sum(params[0], keepdims=True)),)


def _kept(g: Symbolic, params: tuple, x: Symbolic) -> Symbolic:
    return g.reshape([1 if k in params[0] else n for k, n in enumerate(x.shape)])


@RULES.of(TABLE["logsumexp"])
def _logsumexp(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple:
    return (_kept(g, params, x) * np.exp(x - _kept(y, params, x)),)


@RULES.of(TABLE["var"])
def _var(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple | None:
    axes, _, ddof = params
    count = x.size // max(g.size, 1)
    if count <= ddof:
        return None
    away = x - x.sum(axes, keepdims=True) / count
    return (_kept(g, params, x) * (2 * away) / (count - ddof),)


@RULES.of(TABLE["std"])
def _std(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple | None:
    return _var(g * 0.5 / y, y, params, wanted, x)


@RULES.of(NORM)
def _norm(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple | None:
    order, axes, _ = params
    if order is not None and (order != 2 or len(axes) > 1):
        return None
    by = (tuple([k % x.ndim for k in axes]),)
    return (_kept(g / y, by, x) * x,)


def _mean(x: Symbolic) -> Symbolic:
    return x.sum(-1, keepdims=True) / x.shape[-1]


def _normalised(g: Symbolic, away: Symbolic, eps: Symbolic, weight: Sequence[Symbolic]) -> tuple[Symbolic, Symbolic]:
    """The cotangents of what is divided by its root mean square, and of the weight."""
    root = (_mean(away * away) + eps).op("rsqrt")
    normal = away * root
    scaled = g * weight[0] if weight else g
    return root * (scaled - normal * _mean(scaled * normal)), g * normal


@RULES.of(RMS_NORM)
def _rms_norm(
    g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic, eps: Symbolic, *weight: Symbolic
) -> tuple | None:
    if wanted[1]:
        return None
    gx, gw = _normalised(g, x, eps, weight)
    return gx, None, *[gw] * len(weight)


@RULES.of(LAYER_NORM)
def _layer_norm(
    g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic, eps: Symbolic, *rest: Symbolic
) -> tuple | None:
    if wanted[1]:
        return None
    weighted, biased = params
    gx, gw = _normalised(g, x - _mean(x), eps, rest[:weighted])
    return gx - _mean(gx), None, *[gw] * weighted, *[g] * biased


def _transposed(g: Any, *others: Any, op: Op, params: tuple, like: Aval) -> Any:
    _, pull = jax.vjp(lambda x: op.lower(params, [x, *others]), jnp.zeros(like.shape, like.dtype.numpy))
    return pull(g)[0]


TRANSPOSED = Op("transposed", _transposed, lambda *_, op, params, like: like, ("op", "params", "like"))
"""The transpose of an op that is linear in its first input, which is like this."""


@HOST.of(TRANSPOSED)
def _run_transposed(out: Aval, params: tuple, g: Any, *others: Any) -> Any:
    op, given, like = params
    x = np.broadcast_to(np.zeros((), like.dtype.numpy), like.shape)
    found = PULLBACK[op](g, g, given, (True, *[False] * len(others)), x, *others)
    return None if found is None else np.asarray(found[0], like.dtype.numpy)


def _run_transposed_back(g: Any, params: tuple, c: Any, others: Sequence[Any]) -> Any:
    op, given, _ = params
    return HOST[op](aval(c.shape, from_numpy(c.dtype)), given, g, *others)  # type: ignore[arg-type]


@PULLBACK.of(TRANSPOSED)
def _pull_transposed(g: Any, y: Any, params: tuple, wanted: Sequence[bool], c: Any, *others: Any) -> tuple:
    return _run_transposed_back(g, params, c, others), *[None] * len(others)


@PUSHFORWARD.of(TRANSPOSED)
def _push_transposed(tangents: Sequence[Any], y: Any, params: tuple, c: Any, *others: Any) -> Any:
    return _run_transposed(None, params, tangents[0], *others)


@RULES.of(TRANSPOSED)
def _pull_transposed_again(
    g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], c: Symbolic, *others: Symbolic
) -> tuple:
    op, given, _ = params
    return Symbolic(apply(op, (g.node, *[x.node for x in others]), given)), *[None] * len(others)


def _linear(op: Op) -> None:
    @RULES.of(op)
    def rule(
        g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic, *others: Symbolic
    ) -> tuple | None:
        if any(wanted[1:]):
            return None
        given = (g.node, *[i.node for i in others])
        return Symbolic(apply(TRANSPOSED, given, (op, params, x.node.aval))), *[None] * len(others)


for _op in (SLICE, GATHER, GATHER_AXIS, DYNAMIC_SLICE):
    _linear(_op)
for _name in ("as_strided", "cumsum", "diag", "diagonal", "diff", "flip", "repeat", "roll", "tile", "trace"):
    _linear(TABLE[_name])
_linear(TABLE["triangle"])


def inlined(program: Program, values: Sequence[Any], primals: tuple[int, ...], g: tuple, inputs: Sequence[Any]) -> list:
    """The cotangents of some inputs of a Program that is part of another one, which has these values besides."""
    given = [*inputs, *[inputs[0].like(v) for v in values]]
    return _pulled(program, primals, given, g)[1]
