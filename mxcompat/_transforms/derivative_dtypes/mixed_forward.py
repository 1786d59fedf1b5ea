"""Tangents whose dtype differs from their value's. The user passes them to `jvp`, or the rule of a custom function
returns them.

In MLX each op decides the dtype of its tangent. So tangents are pushed op by op, in the dtypes that `tangents` gives.
While JAX traces an op, wider float proxies stand for its operands (`integers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.direction import differentiating
from mxcompat._graph.ir.node import ITEM, Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import FAILURE
from mxcompat._graph.run.failures import beside
from mxcompat._jax import jax, jnp

from ..calls import CALL, CHECKPOINT, PURE_CALL
from ..transform_ops import JVP, VMAP, tangent_of
from .integers import interpret_proxies, with_float_proxies
from .mixed_reverse import float_proxy_of
from .tangents import of_operands, tangent_avals, tangent_dtypes

__all__ = ["MIXED_PUSH", "dtypes_differ", "pushed"]


def dtypes_differ(tangents: Iterable[Aval], values: Iterable[Aval]) -> bool:
    """Return True if a tangent's dtype differs from its value's."""
    return any(t.dtype is not x.dtype for t, x in zip(tangents, values, strict=True))


def pushed(program: Program, inputs: Sequence[Node], tangents: Sequence[Node], outputs: int) -> Node:
    """Make the node of a `jvp`. Its results are the Program's outputs, then the tangents of the first `outputs`.

    Args:
        tangents: the tangents of the first inputs, in any dtypes.
    """
    op = MIXED_PUSH if dtypes_differ([t.aval for t in tangents], program.in_avals[: len(tangents)]) else JVP
    return apply(op, (*inputs, *tangents), (program, len(tangents), outputs))


def _mixed_push(*inputs: Any, program: Program, primals: int, outputs: int) -> tuple:
    count = len(program.in_avals)
    tangents = [*map(jnp.asarray, inputs[count:])]
    with differentiating(forward=True):
        values, out_tangents = _pushed(program, inputs[:count], [*tangents, *[None] * (count - primals)])
    avals = tangent_avals(program, [from_numpy(t.dtype) for t in tangents], outputs)  # type: ignore[misc]
    return (
        *values,
        *[jnp.zeros(a.shape, a.dtype._numpy) if t is None else t for t, a in zip(out_tangents, avals, strict=False)],
    )


def _pushed(program: Program, inputs: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return a Program's outputs and their tangents, given its inputs' tangents. None is a zero tangent."""
    dtypes = tangent_dtypes(program, [None if t is None else from_numpy(t.dtype) for t in tangents])
    values: list[Any] = [*[None] * len(program.instructions), *reversed(inputs)]
    known: dict[int, Any] = {~k: t for k, t in enumerate(tangents) if t is not None}
    for slot, (op, params, slots) in enumerate(program.instructions):
        xs = [values[s] for s in slots]
        if op is ITEM:
            values[slot] = xs[0][params[0]]
            if slot in dtypes:
                known[slot] = known[slots[0]][params[0]]
            continue
        values[slot] = op.lower(params, xs)
        if slot in dtypes:
            in_tangents = of_operands(op, params, slots, known)
            avals = [program.aval(s) for s in slots]
            known[slot] = _result_tangents(op, params, xs, in_tangents, avals, program.avals[slot], dtypes[slot])
    return [values[s] for s in program.out_slots], [known.get(s) for s in program.out_slots]


def _result_tangents(
    op: Op, params: tuple, xs: list[Any], tangents: list[Any], avals: list[Any], out: Any, dtypes: Any
) -> Any:
    """Return the tangents of an op's results in these dtypes, given those of its operands."""
    if op in (CALL, PURE_CALL, CHECKPOINT):
        return _pushed(params[0], xs, tangents)[1]
    if op is VMAP:
        return _over_axis(*params, xs, tangents)  # type: ignore[call-arg]
    turned = [jnp.iscomplexobj(t) and not jnp.iscomplexobj(x) for x, t in zip(xs, tangents, strict=True)]
    out_tangents = _jax_result_tangents(
        op, params, xs, [t.real if on else t for t, on in zip(tangents, turned, strict=True)], avals, out
    )
    if any(turned):  # tangents are linear, so imaginary parts are pushed separately
        parts = [
            t.imag if on else None if t is None else jnp.zeros_like(t) for t, on in zip(tangents, turned, strict=True)
        ]
        others = _jax_result_tangents(op, params, xs, parts, avals, out)
        out_tangents = [t + 1j * u if _is_float(t) else t for t, u in zip(out_tangents, others, strict=True)]
    if isinstance(out, tuple):
        return [
            None if d is None else tangent_of(t, aval(a.shape, d))
            for t, a, d in zip(out_tangents, out, dtypes, strict=True)
        ]
    return tangent_of(out_tangents[0], aval(out.shape, dtypes))


def _jax_result_tangents(
    op: Op, params: tuple, xs: list[Any], tangents: list[Any], avals: list[Any], out: Any
) -> list[Any]:
    """Return the tangents of an op's results as JAX computes them, in the dtype of the float proxies."""
    places = [k for k, t in enumerate(tangents) if t is not None]
    points = [float_proxy_of(xs[k], avals[k].dtype, from_numpy(tangents[k].dtype)) for k in places]  # type: ignore[arg-type]

    def function(points: list[Any]) -> Any:
        moved = dict(zip(places, points, strict=True))
        return interpret_proxies(op, params, [moved.get(k, x) for k, x in enumerate(xs)], avals, out, truncating=False)

    in_tangents = [tangents[k].astype(p.dtype) for k, p in zip(places, points, strict=True)]
    with with_float_proxies():
        out_tangents = jax.jvp(function, (points,), (in_tangents,))[1]
    return [*out_tangents] if isinstance(out, tuple) else [out_tangents]


def _over_axis(
    program: Program, in_axes: tuple, out_axes: tuple, size: int, xs: list[Any], tangents: list[Any]
) -> list[Any]:
    """Return the tangents of the outputs of a Program that `vmap` runs."""
    moving = [t is not None for t in tangents]

    def function(xs: list[Any], in_tangents: list[Any]) -> list[Any]:
        following = iter(in_tangents)
        return _pushed(program, xs, [next(following) if on else None for on in moving])[1]

    in_tangents = [t for t in tangents if t is not None]
    axes = [axis for axis, on in zip(in_axes, moving, strict=True) if on]
    return jax.vmap(function, in_axes=([*in_axes], axes), out_axes=[*out_axes], axis_size=size)(xs, in_tangents)


def _is_float(t: Any) -> bool:
    return t.dtype != jax.dtypes.float0


def _avals(*avals: Aval, program: Program, primals: int, outputs: int) -> tuple[Aval, ...]:
    in_dtypes = [a.dtype for a in avals[len(program.in_avals) :]]
    return (*program.out_avals, *tangent_avals(program, in_dtypes, outputs))


MIXED_PUSH = Op("mixed_push", _mixed_push, _avals, ("program", "primals", "outputs"))
"""The op that computes a jvp, as `JVP` does, with tangents of any dtypes."""

FAILURE[MIXED_PUSH] = beside(MIXED_PUSH)
