"""Derivatives at cotangents whose dtype differs from their value's, as the rule of a custom function may return them.

MLX passes the rule's result on unchanged: a float32 cotangent of a half-precision value gives float32 cotangents for
everything before it. JAX requires cotangents in the dtypes of the values. So while JAX traces, wider float proxies
stand for the values (`integers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, Dtype, aval, float32, from_numpy
from mxcompat._graph.ir.direction import differentiating
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import FAILURE
from mxcompat._graph.run.failures import beside
from mxcompat._jax import jax, jnp
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import cast_node

from ..transform_ops import cotangent_of, gradient_of
from .cotangents import gradient_dtypes
from .integers import float_proxy, with_float_proxies

__all__ = ["MIXED_PULL", "added", "dtype_differs", "float_proxy_of"]


def dtype_differs(cotangent: Aval, value: Aval) -> bool:
    """Return True if a cotangent's dtype differs from its value's. The cotangent of an integer is cast to the integer's
    dtype."""
    return value.dtype._kind in "fc" and cotangent.dtype is not value.dtype


def added(a: Node, b: Node) -> Node:
    """Add two cotangents in their promoted dtype."""
    dtype = promote(a.aval.dtype, b.aval.dtype)
    return apply(TABLE["add"], (cast_node(a, dtype), cast_node(b, dtype)))


def _mixed_pull(*inputs: Any, program: Program, primals: int, outputs: int) -> tuple:
    count = len(program.in_avals)
    args, cotangents = list(inputs[:count]), [*map(jnp.asarray, inputs[count:])]
    dtypes = gradient_dtypes(program, primals, [from_numpy(c.dtype) for c in cotangents])  # type: ignore[misc]
    points = [float_proxy_of(x, a.dtype, d) for x, a, d in zip(args, program.in_avals, dtypes, strict=False)]
    with differentiating(forward=False), with_float_proxies():
        values, pull = jax.vjp(lambda xs: program.replay([*xs, *args[primals:]])[:outputs], points)

        def at(seeds: Iterable[Any]) -> list[Any]:
            avals = program.out_avals
            (pulled,) = pull([cotangent_of(c, y, a) for c, y, a in zip(seeds, values, avals, strict=False)])
            return [gradient_of(g, d) for g, d in zip(pulled, dtypes, strict=True)]

        turned = [jnp.iscomplexobj(c) and not jnp.iscomplexobj(y) for c, y in zip(cotangents, values, strict=True)]
        gradients = at([c.real if t else c for c, t in zip(cotangents, turned, strict=True)])
        if any(turned):  # the pullback is linear, so imaginary parts are pulled back separately
            others = at([c.imag if t else jnp.zeros_like(c) for c, t in zip(cotangents, turned, strict=True)])
            gradients = [g + 1j * h if jnp.iscomplexobj(g) else g for g, h in zip(gradients, others, strict=True)]
    return tuple(gradients)


def float_proxy_of(x: Any, own: Dtype, gradient: Dtype) -> Any:
    """Return the proxy for an argument whose gradient or tangent has dtype `gradient`."""
    if own._kind not in "fc" or gradient is own:
        return float_proxy(x)
    wide = promote(own, gradient if gradient._kind == "f" or own._kind == "c" else float32)
    return jnp.asarray(x, wide._numpy)


def _avals(*avals: Aval, program: Program, primals: int, outputs: int) -> tuple[Aval, ...]:
    dtypes = gradient_dtypes(program, primals, [a.dtype for a in avals[len(program.in_avals) :]])
    return tuple([aval(a.shape, d) for a, d in zip(program.in_avals, dtypes, strict=False)])


MIXED_PULL = Op("mixed_pull", _mixed_pull, _avals, ("program", "primals", "outputs"))
"""The op that computes gradients of the first `primals` inputs of a Program, for cotangents of any dtype of its first
`outputs`."""

FAILURE[MIXED_PULL] = beside(MIXED_PULL)
