"""Products with stored matrices in XLA's programs: on a CPU these call C (`_native/ffi.c`), through XLA's foreign-
function interface, so that no version's fusion decides whether a matrix is unpacked.

A product is a primitive of JAX. Where C cannot be called it is lowered to what it is made of in JAX: on other
platforms, over several devices, in what is exported, and without a compiler at installation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxcompat._compat.jax_internals import is_for_one_device
from mxcompat._graph.run.foreign import TARGET, register
from mxcompat._jax import jax, mlir
from mxcompat._native import native

from .stored import KINDS

__all__ = ["call_stored", "primitive", "reads"]


def reads(*dtypes: Any) -> bool:
    """Whether there is C, and it has these dtypes of JAX arrays."""
    return native is not None and all(np.dtype(d) in KINDS for d in dtypes)


def primitive(name: str, plain: Callable[..., Any], foreign: Callable[..., Any]) -> Any:
    """A primitive of JAX that has one result.

    Args:
        name: its name.
        plain: computes it of JAX arrays, with the primitive's parameters by name.
        foreign: the same where C can be called.

    Its derivatives, and what it is over an axis more, are for the caller to register.
    """
    from jax.extend.core import Primitive  # here, since it imports JAX

    made = Primitive(name)
    made.def_impl(lambda *args, **params: jax.jit(partial(made.bind, **params))(*args))

    @made.def_abstract_eval
    def _(*avals: Any, **params: Any) -> Any:
        out = jax.eval_shape(partial(plain, **params), *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals])
        return jax.core.ShapedArray(out.shape, out.dtype)

    composed, called = (mlir.lower_fun(f, multiple_results=False) for f in (plain, foreign))
    mlir.register_lowering(made, composed)
    mlir.register_lowering(
        made, lambda ctx, *args, **params: (called if _is_called(ctx) else composed)(ctx, *args, **params), "cpu"
    )
    return made


def _is_called(ctx: Any) -> bool:
    """Whether what is being lowered runs on one device of this process, where there is C."""
    return is_for_one_device(ctx) and register()


def call_stored(
    x: Any, words: Any, scales: Any, biases: Any, units: Any, lhs: Any, rhs: Any, kind: int, scale_kind: int,
    transposed: bool, group: int, sizes: tuple[int, ...], out: Any,
) -> Any:  # fmt: skip
    """A call of C.

    Args:
        kind, scale_kind: how C calls the elements of the matrices, and scales that are codes.
        sizes: of `Product` in kernels.h: inner, outer, matrices, x_matrices, products, rows.
        out: the shape and dtype of the result.
    """
    given = [a for a in (x, words, scales, biases, units, lhs, rhs) if a is not None]
    there = (a is not None for a in (units, lhs, rhs))
    numbers = np.array([kind, scale_kind, *there, transposed, group, *sizes], np.int64)
    return jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(out.shape, out.dtype))(*given, numbers=numbers)
