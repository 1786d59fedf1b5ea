"""A linear function with a custom transpose, as a JAX primitive.

JAX's `linear_call` lacks a batching rule and derivatives with respect to the residuals. Second derivatives and nested
transforms need both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mxcompat._jax import ad, batching, jax, jnp, mlir
from mxcompat._metal.derivatives import shapes_alone

__all__ = ["linear_with_transpose"]


def linear_with_transpose(
    forward: Callable, transpose: Callable, residuals: Any, arguments: Sequence[Any]
) -> list[Any]:
    """Compute `forward(residuals, arguments)`, with the transpose `transpose(residuals, cotangents)`.

    Both functions return lists of arrays; `forward` must be linear in the arguments.
    """
    flat, tree = jax.tree.flatten(residuals)

    def run(function: Callable) -> Callable[..., list[Any]]:
        return lambda res, xs: function(jax.tree.unflatten(tree, res), xs)

    return _primitive().bind(*flat, *arguments, forward=run(forward), transpose=run(transpose), split=len(flat))


def _run(*operands: Any, forward: Callable, transpose: Callable, split: int) -> list[Any]:
    return forward(tuple(operands[:split]), tuple(operands[split:]))


def _abstract(*avals: Any, forward: Callable, transpose: Callable, split: int) -> list[Any]:
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    with shapes_alone():  # the function itself may have no derivative, because it has a rule for reverse mode
        out = jax.eval_shape(lambda *xs: _run(*xs, forward=forward, transpose=transpose, split=split), *structs)
    return [jax.core.ShapedArray(o.shape, o.dtype) for o in out]


def _linear_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    split = params["split"]
    outs = _primitive().bind(*primals, **params)
    residuals, linear = primals[:split], tangents[split:]
    out_tangents: list[Any] = [jnp.zeros_like(o) for o in outs]
    if any(type(t) is not ad.Zero for t in linear):
        straight = [ad.instantiate_zeros(t) for t in linear]
        out_tangents = _primitive().bind(*residuals, *straight, **params)
    if any(type(t) is not ad.Zero for t in tangents[:split]):
        bending = [ad.instantiate_zeros(t) for t in tangents[:split]]
        forward = params["forward"]
        bent = jax.jvp(lambda *res: forward(res, tuple(primals[split:])), tuple(residuals), tuple(bending))[1]
        out_tangents = [a + b for a, b in zip(out_tangents, bent, strict=True)]
    return outs, out_tangents


def _linear_transpose(cotangents: Any, *operands: Any, forward: Callable, transpose: Callable, split: int) -> list[Any]:
    full_cotangents = [ad.instantiate_zeros(c) for c in cotangents]
    return [None] * split + list(transpose(tuple(operands[:split]), tuple(full_cotangents)))


def _linear_batch(operands: Any, axes: Any, *, forward: Callable, transpose: Callable, split: int) -> tuple:
    size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
    moved = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(operands, axes, strict=True)]
    res_axes = tuple(None if a is None else 0 for a in axes[:split])
    # All linear operands and results are mapped, so that both directions have the same axes.
    moved[split:] = [
        jnp.broadcast_to(x, (size, *x.shape)) if a is None else x
        for x, a in zip(moved[split:], axes[split:], strict=True)
    ]
    outs = _primitive().bind(
        *moved,
        forward=jax.vmap(forward, in_axes=(res_axes, 0)),
        transpose=jax.vmap(transpose, in_axes=(res_axes, 0)),
        split=split,
    )
    return outs, [0] * len(outs)


@cache
def _primitive() -> Any:
    from jax.extend.core import Primitive  # imported here because the import is slow

    linear = Primitive("custom_linear")
    linear.multiple_results = True
    linear.def_impl(_run)
    linear.def_abstract_eval(_abstract)
    ad.primitive_jvps[linear] = _linear_jvp
    ad.primitive_transposes[linear] = _linear_transpose
    batching.primitive_batchers[linear] = _linear_batch
    mlir.register_lowering(linear, mlir.lower_fun(_run, multiple_results=True))
    return linear
