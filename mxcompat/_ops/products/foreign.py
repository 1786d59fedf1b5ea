"""Products with stored matrices in XLA's programs.

On a CPU, these call C (`_native/ffi.c`) through XLA's foreign function interface. Then no matrix is unpacked in memory,
independently of XLA's fusion. A product is a primitive of JAX. If C cannot be called, the primitive is lowered to JAX
operations: on other platforms, over several devices, in exported programs, and if the C code was not built. On GPUs and
TPUs, a primitive may have a kernel in Pallas for some of its products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mxcompat._compat.jax_internals import is_for_one_device
from mxcompat._graph.run.foreign import TARGET, register
from mxcompat._jax import ad, jax, mlir
from mxcompat._native import native
from mxcompat._native.products import KINDS, product_numbers

__all__ = ["call_stored", "derivative_of_moved", "primitive", "reads"]


def reads(*dtypes: Any) -> bool:
    """Return True if the C code was built, and reads these dtypes."""
    return native is not None and all(np.dtype(d) in KINDS for d in dtypes)


def primitive(
    name: str, plain: Callable[..., Any], foreign: Callable[..., Any], kernel: Callable[..., Any] | None = None
) -> Any:
    """Return a primitive of JAX with one result.

    Args:
        name: its name.
        plain: computes it with JAX operations. The primitive's parameters are keyword arguments.
        foreign: computes it by a call of C.
        kernel: returns a function that computes it by a kernel, or None if there is none for this product. It gets the
            platform ("cuda" or "tpu"), the avals of the arguments, and the primitive's parameters.

    The caller must register its derivatives and its batching rule.
    """
    from jax.extend.core import Primitive  # imported here because the import loads JAX

    jax_primitive = Primitive(name)
    jax_primitive.def_impl(lambda *args, **params: jax.jit(partial(jax_primitive.bind, **params))(*args))

    @jax_primitive.def_abstract_eval
    def _(*avals: Any, **params: Any) -> Any:
        out = jax.eval_shape(partial(plain, **params), *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals])
        return jax.core.ShapedArray(out.shape, out.dtype)

    composed, called = (mlir.lower_fun(f, multiple_results=False) for f in (plain, foreign))
    mlir.register_lowering(jax_primitive, composed)
    mlir.register_lowering(
        jax_primitive,
        lambda ctx, *args, **params: (called if _is_called(ctx) else composed)(ctx, *args, **params),
        "cpu",
    )
    if kernel is not None:
        for platform in ("cuda", "tpu"):
            mlir.register_lowering(jax_primitive, partial(_lower_kernel, platform, kernel, composed), platform)
    return jax_primitive


def _is_called(ctx: Any) -> bool:
    """Return True if the lowered program runs on one device of this process, and C can be called."""
    return is_for_one_device(ctx) and register()


def _lower_kernel(
    platform: str, kernel: Callable[..., Any], composed: Callable[..., Any], ctx: Any, *args: Any, **params: Any
) -> Any:
    """Lower a product to its kernel, or to JAX operations. XLA cannot divide a kernel among devices, and an exported
    program must not depend on the version of Pallas."""
    call = kernel(platform, ctx.avals_in, **params) if is_for_one_device(ctx) else None
    if call is None:
        return composed(ctx, *args, **params)
    with jax.enable_x64(False):  # with 64-bit types, Pallas makes invalid code for a TPU
        return mlir.lower_fun(call, multiple_results=False)(ctx, *args)


def derivative_of_moved(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the value and the tangent of a function. Arguments whose tangent is JAX's symbolic zero are constants."""
    moved = [k for k, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]

    def of_moved(*values: Any) -> Any:
        arguments = list(primals)
        for k, value in zip(moved, values, strict=True):
            arguments[k] = value
        return function(*arguments)

    return jax.jvp(of_moved, [primals[k] for k in moved], [tangents[k] for k in moved])


def call_stored(
    x: Any, words: Any, scales: Any, biases: Any, units: Any, lhs: Any, rhs: Any, kind: int, scale_kind: int,
    transposed: bool, group: int, sizes: tuple[int, ...], out: Any,
) -> Any:  # fmt: skip
    """Return the result of a call of C.

    Args:
        kind, scale_kind, transposed, group, sizes: see `product_numbers`.
        out: the shape and dtype of the result.
    """
    operands = [a for a in (x, words, scales, biases, units, lhs, rhs) if a is not None]
    present = [a is not None for a in (units, lhs, rhs)]
    numbers = product_numbers(kind, scale_kind, transposed, group, sizes, present)
    return jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(out.shape, out.dtype))(*operands, numbers=numbers)
