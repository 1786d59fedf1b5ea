"""Ops that move bfloat16 elements without a change of their bits.

On a CPU, XLA computes with bfloat16 through float32, even when it only slices, joins, selects or pads. The conversion
makes all NaNs equal, and turns an in-place write into a copy. So ops that only move elements treat them as 16-bit
integers on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from mxcompat._jax import jax, jnp, lax, lazy

__all__ = ["by_bits"]


def by_bits(impl: Callable[..., Any], data: slice = slice(1), reads_few: bool = False) -> Callable[..., Any]:
    """Return the lowering of an op that only moves elements, such that their bits do not change.

    Args:
        impl: the lowering for any dtype; the value that it fills in is 0.
        data: the inputs whose elements are moved. The other inputs give the positions.
        reads_few: True if the op usually reads a small part of its input. XLA then reads the bits of this part only,
            not of the whole input (one row of a matrix of 151936x896: 272 MB of temporary memory with the barrier, none
            without).
    """

    @wraps(impl)
    def lowered(*inputs: Any, **params: Any) -> Any:
        if {jnp.result_type(x) for x in inputs[data]} != {jnp.dtype(jnp.bfloat16)} or jax.default_backend() != "cpu":
            return impl(*inputs, **params)
        return _moved(partial(impl, **params), data, reads_few, *inputs)

    return lowered


@partial(lazy.custom_jvp, nondiff_argnums=(0, 1, 2))
def _moved(move: Callable[..., Any], data: slice, reads_few: bool, *inputs: Any) -> Any:
    operands = list(inputs)
    bits = [lax.bitcast_convert_type(x, np.uint16) for x in operands[data]]
    # The barrier keeps XLA from joining the floats first and taking the bits of the joined array.
    operands[data] = bits if reads_few else [lax.optimization_barrier(x) for x in bits]
    return jax.tree.map(lambda x: lax.bitcast_convert_type(x, jnp.bfloat16), move(*operands))


@_moved.defjvp
def _moved_tangents(
    move: Callable[..., Any], data: slice, reads_few: bool, primals: tuple, tangents: tuple
) -> tuple[Any, Any]:
    return _moved(move, data, reads_few, *primals), jax.jvp(move, primals, tangents)[1]
