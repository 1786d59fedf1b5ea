"""XLA's lowering of custom functions that a transform has rewritten.

A function with a vjp rule needs care: as in MLX, forward mode must use the derivative of the function itself, and
reverse mode the user's rule. So it becomes a `jax.custom_jvp` whose tangents pass through a linear primitive. The
primitive runs the function's own derivative, and its transpose runs the user's rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import FAILURE
from mxcompat._graph.run.failures import beside
from mxcompat._jax import jax, jnp

from ..calls import pure

__all__ = ["CUSTOM_JVP", "CUSTOM_VJP", "CUSTOM_VMAP"]


def _custom_vjp(*inputs: Any, program: Program, rule: Program, count: int) -> tuple:
    inner = len(program.in_avals) - count
    args, captured, extra = inputs[:count], inputs[count : count + inner], inputs[count + inner :]
    from .linear import linear_with_transpose  # imported here because the import is slow

    linear = [k for k, x in enumerate(args) if jnp.issubdtype(x.dtype, np.inexact)]
    smooth = [k for k, a in enumerate(program.out_avals) if a.dtype._kind in "fc"]

    def forward(residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        args, captured, _, _ = residuals

        def smooth_outputs(*xs: Any) -> list[Any]:
            full = list(args)
            for k, x in zip(linear, xs, strict=True):
                full[k] = x
            outs = pure(program, full, captured)
            return [outs[k] for k in smooth]

        return jax.jvp(smooth_outputs, [args[k] for k in linear], list(tangents))[1]

    def transpose(residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        args, _, extra, outs = residuals
        full: list[Any] = [jnp.zeros_like(o) for o in outs]
        for k, c in zip(smooth, cotangents, strict=True):
            full[k] = jnp.conj(c)
        products = rule.replay([*args, *full, *outs, *extra])
        products += [jnp.zeros_like(a) for a in args[len(products) :]]
        return [jnp.conj(products[k].astype(args[k].dtype)) for k in linear]

    @jax.custom_jvp
    def function(args: Any, captured: Any, extra: Any) -> tuple:
        return pure(program, args, captured)

    @function.defjvp
    def function_jvp(primals: Any, tangents: Any) -> tuple[tuple, tuple]:
        outs = function(*primals)
        moved = linear_with_transpose(forward, transpose, (*primals, outs), [tangents[0][k] for k in linear])
        following = iter(moved)
        return outs, tuple(
            next(following) if k in smooth else np.zeros(o.shape, jax.dtypes.float0) for k, o in enumerate(outs)
        )

    return function(tuple(map(jnp.asarray, args)), tuple(captured), tuple(extra))


CUSTOM_VJP = Op(
    "custom_vjp",
    _custom_vjp,
    lambda *_, program, rule, count: program.out_avals,
    ("program", "rule", "count"),
)
"""`rule` maps the arguments, the cotangents, the outputs and its captured nodes to the cotangents of the arguments."""


def _custom_jvp(*inputs: Any, program: Program, rule: Program, count: int, active: tuple[bool, ...]) -> tuple:
    inner = len(program.in_avals) - count
    args, captured, extra = inputs[:count], inputs[count : count + inner], inputs[count + inner :]

    @jax.custom_jvp
    def function(args: Any, captured: Any, extra: Any) -> tuple:
        return pure(program, args, captured)

    @function.defjvp
    def function_jvp(primals: Any, tangents: Any) -> tuple[tuple, tuple]:
        args, _, extra = primals
        active_tangents = [
            t if t.dtype != jax.dtypes.float0 else jnp.zeros_like(x)
            for x, t, on in zip(args, tangents[0], active, strict=True)
            if on
        ]
        outs = function(*primals)
        out_tangents = rule.replay([*args, *active_tangents, *extra])
        return outs, tuple(
            t.astype(o.dtype) if jnp.issubdtype(o.dtype, np.inexact) else np.zeros(o.shape, jax.dtypes.float0)
            for o, t in zip(outs, out_tangents, strict=True)
        )

    return function(tuple(map(jnp.asarray, args)), tuple(captured), tuple(extra))


CUSTOM_JVP = Op(
    "custom_jvp",
    _custom_jvp,
    lambda *_, program, rule, count, active: program.out_avals,
    ("program", "rule", "count", "active"),
)
"""`rule` maps the arguments, the tangents of the `active` ones and its captured nodes to the tangents of the
outputs."""


def _custom_vmap(*inputs: Any, program: Program, rule: Program, count: int, in_axes: tuple, out_axes: tuple) -> tuple:
    inner = len(program.in_avals) - count

    @jax.custom_batching.custom_vmap
    def function(*inputs: Any) -> tuple:
        return tuple(program.replay(inputs[: count + inner]))

    @function.def_vmap
    def function_vmap(size: int, batched: Any, *inputs: Any) -> tuple[tuple, tuple]:
        args = [
            x if axis is None else jnp.moveaxis(x if has else jnp.broadcast_to(x, (size, *x.shape)), 0, axis)
            for x, axis, has in zip(inputs[:count], in_axes, batched[:count], strict=True)
        ]
        outs = rule.replay([*args, *inputs[count + inner :]])
        moved = tuple(o if axis is None else jnp.moveaxis(o, axis, 0) for o, axis in zip(outs, out_axes, strict=True))
        return moved, tuple(axis is not None for axis in out_axes)

    return function(*map(jnp.asarray, inputs))


CUSTOM_VMAP = Op(
    "custom_vmap",
    _custom_vmap,
    lambda *_, program, rule, count, in_axes, out_axes: program.out_avals,
    ("program", "rule", "count", "in_axes", "out_axes"),
)
"""`rule` maps the arguments, with mapped axes `in_axes`, to outputs with mapped axes `out_axes`."""

FAILURE.update((op, beside(op)) for op in (CUSTOM_VJP, CUSTOM_JVP, CUSTOM_VMAP))
