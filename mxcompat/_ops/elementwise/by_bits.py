"""Moving bfloat16 without touching it.

XLA computes with bfloat16 on a CPU by way of float32, even where it only slices, joins, selects or pads: then all NaNs
become one, and a write in place a copy. So what is only moved is moved there as the integers of its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from mxcompat._jax import jax, jnp, lax, lazy

__all__ = ["by_bits"]


def by_bits(impl: Callable[..., Any], data: slice = slice(1)) -> Callable[..., Any]:
    """The lowering of an op that only moves elements, such that their bits stay as they are.

    Args:
        impl: the lowering for any dtype; what it fills in is 0.
        data: which of its inputs are moved; the others say where to.
    """

    @wraps(impl)
    def lowered(*inputs: Any, **params: Any) -> Any:
        if {jnp.result_type(x) for x in inputs[data]} != {jnp.dtype(jnp.bfloat16)} or jax.default_backend() != "cpu":
            return impl(*inputs, **params)
        return _moved(partial(impl, **params), data, *inputs)

    return lowered


@partial(lazy.custom_jvp, nondiff_argnums=(0, 1))
def _moved(move: Callable[..., Any], data: slice, *inputs: Any) -> Any:
    given = list(inputs)
    # behind a barrier, or XLA joins the floats first and takes the bits of the whole
    given[data] = [lax.optimization_barrier(lax.bitcast_convert_type(x, np.uint16)) for x in given[data]]
    return jax.tree.map(lambda x: lax.bitcast_convert_type(x, jnp.bfloat16), move(*given))


@_moved.defjvp
def _moved_tangents(move: Callable[..., Any], data: slice, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    return _moved(move, data, *primals), jax.jvp(move, primals, tangents)[1]
