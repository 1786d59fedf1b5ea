"""Ops that move bfloat16 elements without a change of their bits.

On a CPU, XLA computes with bfloat16 through float32, even when it only slices, joins, selects or pads. That makes all
NaNs equal, and turns an in-place write into a copy. So ops that only move elements treat them as 16-bit integers on a
CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from mxcompat._jax import jax, jnp, lax, lazy

__all__ = ["by_bits"]


def by_bits(impl: Callable[..., Any], data: slice = slice(1)) -> Callable[..., Any]:
    """Return the lowering of an op that only moves elements, such that their bits do not change.

    Args:
        impl: the lowering for any dtype; the value that it fills in is 0.
        data: the inputs whose elements are moved. The other inputs give the positions.
    """

    @wraps(impl)
    def lowered(*inputs: Any, **params: Any) -> Any:
        if {jnp.result_type(x) for x in inputs[data]} != {jnp.dtype(jnp.bfloat16)} or jax.default_backend() != "cpu":
            return impl(*inputs, **params)
        return _moved(partial(impl, **params), data, *inputs)

    return lowered


@partial(lazy.custom_jvp, nondiff_argnums=(0, 1))
def _moved(move: Callable[..., Any], data: slice, *inputs: Any) -> Any:
    operands = list(inputs)
    # The barrier keeps XLA from joining the floats first and taking the bits of the joined array.
    operands[data] = [lax.optimization_barrier(lax.bitcast_convert_type(x, np.uint16)) for x in operands[data]]
    return jax.tree.map(lambda x: lax.bitcast_convert_type(x, jnp.bfloat16), move(*operands))


@_moved.defjvp
def _moved_tangents(move: Callable[..., Any], data: slice, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    return _moved(move, data, *primals), jax.jvp(move, primals, tangents)[1]
