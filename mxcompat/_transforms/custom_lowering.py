"""How custom functions run once they have met their transform.

The delicate one is the vjp rule: forward mode must still see the function's own derivative (MLX's `jvp` of such a
function is the plain one), reverse mode the user's. So the function is a `jax.custom_jvp` whose tangents go through a
primitive that runs as the plain derivative and transposes as the user's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from mxcompat._graph.op import Op
from mxcompat._graph.program import Program

from .calls import pure

__all__ = ["CUSTOM_JVP", "CUSTOM_VJP", "CUSTOM_VMAP"]


def _custom_vjp(*inputs: Any, program: Program, rule: Program, count: int) -> tuple:
    inner = len(program.in_avals) - count
    args, captured, extra = inputs[:count], inputs[count : count + inner], inputs[count + inner :]
    linear = [k for k, x in enumerate(args) if jnp.issubdtype(x.dtype, np.inexact)]
    smooth = [k for k, a in enumerate(program.out_avals) if a.dtype.kind in "fc"]

    def forward(residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        args, captured, _, _ = residuals

        def moving(*xs: Any) -> list[Any]:
            full = list(args)
            for k, x in zip(linear, xs, strict=True):
                full[k] = x
            outs = pure(program, full, captured)
            return [outs[k] for k in smooth]

        return jax.jvp(moving, [args[k] for k in linear], list(tangents))[1]

    def transpose(residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        args, _, extra, outs = residuals
        full: list[Any] = [jnp.zeros_like(o) for o in outs]
        for k, c in zip(smooth, cotangents, strict=True):
            full[k] = jnp.conj(c)
        found = rule.replay([*args, *full, *outs, *extra])
        found += [jnp.zeros_like(a) for a in args[len(found) :]]
        return [jnp.conj(found[k].astype(args[k].dtype)) for k in linear]

    @jax.custom_jvp
    def function(args: Any, captured: Any, extra: Any) -> tuple:
        return pure(program, args, captured)

    @function.defjvp
    def function_jvp(primals: Any, tangents: Any) -> tuple[tuple, tuple]:
        outs = function(*primals)
        moved = _linear(forward, transpose, (*primals, outs), [tangents[0][k] for k in linear])
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
"""`rule` maps arguments, cotangents, outputs and what it captured to the cotangents of the arguments."""


def _custom_jvp(*inputs: Any, program: Program, rule: Program, count: int, active: tuple[bool, ...]) -> tuple:
    inner = len(program.in_avals) - count
    args, captured, extra = inputs[:count], inputs[count : count + inner], inputs[count + inner :]

    @jax.custom_jvp
    def function(args: Any, captured: Any, extra: Any) -> tuple:
        return pure(program, args, captured)

    @function.defjvp
    def function_jvp(primals: Any, tangents: Any) -> tuple[tuple, tuple]:
        args, _, extra = primals
        given = [
            t if t.dtype != jax.dtypes.float0 else jnp.zeros_like(x)
            for x, t, on in zip(args, tangents[0], active, strict=True)
            if on
        ]
        outs = function(*primals)
        moved = rule.replay([*args, *given, *extra])
        return outs, tuple(
            t.astype(o.dtype) if jnp.issubdtype(o.dtype, np.inexact) else np.zeros(o.shape, jax.dtypes.float0)
            for o, t in zip(outs, moved, strict=True)
        )

    return function(tuple(map(jnp.asarray, args)), tuple(captured), tuple(extra))


CUSTOM_JVP = Op(
    "custom_jvp",
    _custom_jvp,
    lambda *_, program, rule, count, active: program.out_avals,
    ("program", "rule", "count", "active"),
)
"""`rule` maps arguments, the tangents of the `active` ones and what it captured to the tangents of the outputs."""


def _custom_vmap(
    *inputs: Any, program: Program, rule: Program, count: int, active: tuple[bool, ...], out_axes: tuple
) -> tuple:
    inner = len(program.in_avals) - count

    @jax.custom_batching.custom_vmap
    def function(*inputs: Any) -> tuple:
        return tuple(program.replay(inputs[: count + inner]))

    @function.def_vmap
    def function_vmap(size: int, batched: Any, *inputs: Any) -> tuple[tuple, tuple]:
        args = [
            jnp.broadcast_to(x, (size, *x.shape)) if on and not has else x
            for x, on, has in zip(inputs[:count], active, batched[:count], strict=True)
        ]
        outs = rule.replay([*args, *inputs[count + inner :]])
        moved = tuple(o if axis is None else jnp.moveaxis(o, axis, 0) for o, axis in zip(outs, out_axes, strict=True))
        return moved, tuple(axis is not None for axis in out_axes)

    return function(*map(jnp.asarray, inputs))


CUSTOM_VMAP = Op(
    "custom_vmap",
    _custom_vmap,
    lambda *_, program, rule, count, active, out_axes: program.out_avals,
    ("program", "rule", "count", "active", "out_axes"),
)
"""`rule` maps the arguments, the `active` ones with the mapped axis first, to outputs mapped over `out_axes`."""


# A linear function with a transpose of its own choosing. JAX's `linear_call` has the idea, but neither a batching rule
# nor derivatives with respect to the residuals, which second derivatives and nested transforms need.

_linear_p = Primitive("custom_linear")
_linear_p.multiple_results = True


def _linear(forward: Callable, transpose: Callable, residuals: Any, arguments: Sequence[Any]) -> list[Any]:
    flat, tree = jax.tree.flatten(residuals)

    def run(function: Callable) -> Callable[..., list[Any]]:
        return lambda res, xs: function(jax.tree.unflatten(tree, res), xs)

    return _linear_p.bind(*flat, *arguments, forward=run(forward), transpose=run(transpose), split=len(flat))


def _run(*operands: Any, forward: Callable, transpose: Callable, split: int) -> list[Any]:
    return forward(tuple(operands[:split]), tuple(operands[split:]))


def _abstract(*avals: Any, forward: Callable, transpose: Callable, split: int) -> list[Any]:
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    out = jax.eval_shape(lambda *xs: _run(*xs, forward=forward, transpose=transpose, split=split), *structs)
    return [jax.core.ShapedArray(o.shape, o.dtype) for o in out]


def _linear_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    split = params["split"]
    outs = _linear_p.bind(*primals, **params)
    residuals, moving = primals[:split], tangents[split:]
    out_tangents: list[Any] = [jnp.zeros_like(o) for o in outs]
    if any(type(t) is not ad.Zero for t in moving):
        straight = [ad.instantiate_zeros(t) for t in moving]
        out_tangents = _linear_p.bind(*residuals, *straight, **params)
    if any(type(t) is not ad.Zero for t in tangents[:split]):
        bending = [ad.instantiate_zeros(t) for t in tangents[:split]]
        forward = params["forward"]
        bent = jax.jvp(lambda *res: forward(res, tuple(primals[split:])), tuple(residuals), tuple(bending))[1]
        out_tangents = [a + b for a, b in zip(out_tangents, bent, strict=True)]
    return outs, out_tangents


def _linear_transpose(cotangents: Any, *operands: Any, forward: Callable, transpose: Callable, split: int) -> list[Any]:
    given = [ad.instantiate_zeros(c) for c in cotangents]
    return [None] * split + list(transpose(tuple(operands[:split]), tuple(given)))


def _linear_batch(operands: Any, axes: Any, *, forward: Callable, transpose: Callable, split: int) -> tuple:
    size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
    moved = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(operands, axes, strict=True)]
    res_axes = tuple(None if a is None else 0 for a in axes[:split])
    # Every linear operand and result is mapped, so that both directions have the same axes.
    moved[split:] = [
        jnp.broadcast_to(x, (size, *x.shape)) if a is None else x
        for x, a in zip(moved[split:], axes[split:], strict=True)
    ]
    outs = _linear_p.bind(
        *moved,
        forward=jax.vmap(forward, in_axes=(res_axes, 0)),
        transpose=jax.vmap(transpose, in_axes=(res_axes, 0)),
        split=split,
    )
    return outs, [0] * len(outs)


_linear_p.def_impl(_run)
_linear_p.def_abstract_eval(_abstract)
ad.primitive_jvps[_linear_p] = _linear_jvp
ad.primitive_transposes[_linear_p] = _linear_transpose
batching.primitive_batchers[_linear_p] = _linear_batch
mlir.register_lowering(_linear_p, mlir.lower_fun(_run, multiple_results=True))
