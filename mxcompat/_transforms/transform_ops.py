"""XLA's lowering of the transform nodes: `jax.vjp`, `jax.jvp` and `jax.vmap` of a Program's replay, with MLX's
conventions.

MLX and JAX differ in three ways: MLX's complex cotangents are conjugated, integers have integer gradients, and indices
have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from mxcompat._array.casting import converted
from mxcompat._array.errors import no_derivative
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.direction import differentiating
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import BODY, FAILURE, INDEX_ERROR, SUBPROGRAMS, Failure
from mxcompat._graph.run.failures import beside, messages, run
from mxcompat._jax import jax, jnp

from .calls import CALL, CHECKPOINT, PURE_CALL
from .derivative_dtypes.integers import float_proxy, passes_integers, with_float_proxies
from .derivative_dtypes.tangents import tangent_avals
from .programs.dependence import reached_slots

__all__ = ["JVP", "VJP", "VMAP", "check_indices", "cotangent_of", "dependent_outputs", "gradient_of", "tangent_of"]


def _vjp(*inputs: Any, program: Program, primals: int, outputs: int) -> tuple:
    count = len(program.in_avals)
    args, cotangents = list(inputs[:count]), inputs[count:]
    through = _through_integers(program, primals, outputs)

    def function(xs: list[Any]) -> tuple[list[Any], list[Any]]:
        outs = program.replay([*xs, *args[primals:]])
        return outs[:outputs], outs

    with differentiating(forward=False), with_float_proxies() if through else nullcontext():
        values, pull, outs = jax.vjp(function, [float_proxy(x) for x in args[:primals]], has_aux=True)
        triples = zip(cotangents, values, program.out_avals, strict=False)
        (grads,) = pull([cotangent_of(c, y, a) for c, y, a in triples])
    if through:
        outs = program.replay(args)
    return (*outs, *[gradient_of(g, a.dtype) for g, a in zip(grads, program.in_avals, strict=False)])


def _through_integers(program: Program, primals: int, outputs: int) -> bool:
    has_integers = any(a.dtype._kind not in "fc" for a in program.in_avals[:primals])
    return has_integers or passes_integers(program, primals, outputs)


def cotangent_of(c: Any, y: Any, aval: Aval) -> Any:
    """Convert MLX's cotangent of a value of aval `aval` to JAX's cotangent of `y`, which may be a float proxy."""
    if not jnp.issubdtype(y.dtype, np.inexact):
        return np.zeros(y.shape, jax.dtypes.float0)
    c = jnp.asarray(c)
    if aval.dtype._kind not in "fc":
        c = converted(c, aval.dtype)
    return _conjugate(jnp.broadcast_to(c.astype(y.dtype), y.shape))


def gradient_of(g: Any, dtype: Dtype) -> Any:
    """Convert JAX's gradient to MLX's, in this dtype."""
    return _conjugate(converted(g, dtype))


def _conjugate(x: Any) -> Any:
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


VJP = Op(
    "vjp",
    _vjp,
    lambda *_, program, primals, outputs: (*program.out_avals, *program.in_avals[:primals]),
    ("program", "primals", "outputs"),
)
"""Inputs: the Program's, then a cotangent for each of the first `outputs`. Outputs: the Program's, then a gradient for
each of the first `primals`."""


def _jvp(*inputs: Any, program: Program, primals: int, outputs: int) -> tuple:
    count = len(program.in_avals)
    args, tangents = list(inputs[:count]), inputs[count:]
    through = _through_integers(program, primals, outputs)
    points = [float_proxy(x) for x in args[:primals]]

    def function(xs: list[Any]) -> tuple[list[Any], list[Any]]:
        outs = program.replay([*xs, *args[primals:]])
        return outs[:outputs], outs

    pushed = [jnp.asarray(t).astype(x.dtype) for x, t in zip(points, tangents, strict=True)]
    with differentiating(forward=True), with_float_proxies() if through else nullcontext():
        _, out_tangents, outs = jax.jvp(function, (points,), (pushed,), has_aux=True)
    if through:
        outs = program.replay(args)
    avals = _tangent_avals(program, primals, outputs)
    return (*outs, *[tangent_of(t, a) for t, a in zip(out_tangents, avals, strict=True)])


def _tangent_avals(program: Program, primals: int, outputs: int) -> tuple[Aval, ...]:
    return tangent_avals(program, [a.dtype for a in program.in_avals[:primals]], outputs)


def tangent_of(t: Any, aval: Aval) -> Any:
    """Convert JAX's tangent to MLX's, with this aval."""
    if t.dtype == jax.dtypes.float0:
        return jnp.zeros(aval.shape, aval.dtype._numpy)
    return converted(t, aval.dtype)


JVP = Op(
    "jvp",
    _jvp,
    lambda *_, program, primals, outputs: (*program.out_avals, *_tangent_avals(program, primals, outputs)),
    ("program", "primals", "outputs"),
)
"""Inputs: the Program's, then a tangent for each of the first `primals`. Outputs: the Program's, then a tangent for
each of the first `outputs`."""


def _vmap(*inputs: Any, program: Program, in_axes: tuple, out_axes: tuple, size: int) -> tuple:
    mapped = jax.vmap(lambda *xs: tuple(program.replay(xs)), in_axes=in_axes, out_axes=out_axes, axis_size=size)
    return mapped(*inputs)


def _vmap_avals(*_: Any, program: Program, in_axes: tuple, out_axes: tuple, size: int) -> tuple:
    return tuple(
        a if axis is None else aval((*a.shape[:axis], size, *a.shape[axis:]), a.dtype)
        for a, axis in zip(program.out_avals, out_axes, strict=True)
    )


VMAP = Op("vmap", _vmap, _vmap_avals, ("program", "in_axes", "out_axes", "size"))
"""Runs a Program over a new axis of the inputs whose entry in `in_axes` is not None."""

BODY[VJP] = BODY[JVP] = BODY[VMAP] = lambda params: params[0]


def _vmap_with_codes(params: tuple, inputs: Sequence[Any]) -> tuple[tuple, list[Any]]:
    program, in_axes, out_axes, size = params

    def function(*xs: Any) -> tuple[tuple, list[Any]]:
        outputs, codes = run(program, xs)
        return tuple(outputs), codes

    return jax.vmap(function, in_axes=in_axes, out_axes=(out_axes, 0), axis_size=size)(*inputs)


FAILURE[VMAP] = Failure(lambda params: messages(params[0]), _vmap_with_codes)
FAILURE.update((op, beside(op)) for op in (VJP, JVP))


@analysis
def check_indices(program: Program, primals: int, outputs: int, transform: str) -> None:
    """Raise MLX's ValueError if an output depends on a differentiated input through an index.

    Args:
        transform: "VJP" or "JVP", for the message.
    """
    _check_indices(program, {~k for k in range(primals)}, outputs, transform)


def _check_indices(program: Program, active: set[int], outputs: int, transform: str) -> None:
    """Raise the error of a derivative with respect to indices, if the Program has one.

    Args:
        active: the slots of the differentiated inputs.
    """
    _add_dependent(program, active)
    reached = {s for s in reached_slots(program, range(outputs)) if s >= 0 and s in active}
    for slot in sorted(reached, reverse=transform == "VJP"):
        op, params, slots = program.instructions[slot]
        subprograms = SUBPROGRAMS.get(op)
        if subprograms is not None:
            for inner, inputs in subprograms(params, {k for k, s in enumerate(slots) if s in active}, transform):
                _check_indices(inner, {~k for k in inputs}, len(inner.out_slots), transform)
        elif op.indices is not None or op in INDEX_ERROR:
            places = {k for k, s in enumerate(slots) if s in active and k >= (op.indices or 0)}
            rule = INDEX_ERROR.get(op, _indices_error(op))
            error = rule(transform, params, places, [program.aval(s) for s in slots]) if places else None
            if error is not None:
                raise error
        elif op.draws and slots[0] in active:
            raise ValueError(f"[Primitive::{transform.lower()}] Not implemented for RandomBits.")


def _indices_error(op: Op) -> Callable[..., Exception]:
    return lambda transform, *_: ValueError(no_derivative(op.name, "indices", transform))


@SUBPROGRAMS.of(CALL, CHECKPOINT, VMAP)
def _same_inputs(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    return [(params[0], active)]


@SUBPROGRAMS.of(PURE_CALL)
def _first_inputs(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    return [(params[0], {k for k in active if k < params[1]})]


def dependent_outputs(program: Program, inputs: set[int]) -> set[int]:
    """Return the outputs of a Program that depend on these inputs in a way that may have a derivative."""
    active = {~k for k in inputs}
    _add_dependent(program, active)
    return {k for k, s in enumerate(program.out_slots) if s in active}


def _add_dependent(program: Program, active: set[int]) -> None:
    for slot, (op, _, slots) in enumerate(program.instructions):
        if any(s in active for s in slots[op.smooth]):
            active.add(slot)
