"""Window functions: tapers for signal processing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import aval, float32
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import integer
from ..define import op
from ..elementwise.quotient import quotient
from ..examples import example

__all__ = ["bartlett", "blackman", "hamming", "hanning"]


def _window(name: str, shape: Callable[[Any], Any], summary: str, formula: str) -> Callable[..., array]:
    """Make the public function of a window. `shape` computes the window from positions between 0 and 1."""

    def lower(length: int) -> Any:
        if length == 1:
            return jnp.ones(1, jnp.float32)
        return shape(quotient(jax.lax.iota(jnp.int32, length).astype(jnp.float32), jnp.float32(length - 1)))

    record = op(name, lower, lambda length: aval((length,), float32), ("length",))

    def function(M: int, *, stream: Any = None) -> array:
        check_stream(stream)
        return wrap(apply(record, (), (max(0, integer(M)),)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}: {formula} for n from 0 to M - 1.

Args:
    M: the number of points.
    stream: accepted, and ignored.

Returns:
    A float32 array of shape (M,): empty if M is not positive, a single 1 if M is 1.

Example:
{example(name)}
"""
    return function


def _cosine(x: Any, turns: int) -> Any:
    return jnp.cos(jnp.float32(2 * math.pi * turns) * x)


bartlett = _window(
    "bartlett",
    lambda x: 1 - jnp.abs(2 * x - 1),
    "Return the Bartlett window, a triangle",
    "1 - 2 |n - (M - 1)/2| / (M - 1)",
)
hanning = _window(
    "hanning",
    lambda x: jnp.sin(jnp.float32(math.pi) * x) ** 2,
    "Return the Hann window, a raised cosine",
    "0.5 - 0.5 cos(2 pi n / (M - 1))",
)
hamming = _window(
    "hamming",
    lambda x: jnp.float32(0.54) - jnp.float32(0.46) * _cosine(x, 1),
    "Return the Hamming window, a raised cosine that does not reach zero",
    "0.54 - 0.46 cos(2 pi n / (M - 1))",
)
blackman = _window(
    "blackman",
    lambda x: jnp.float32(0.42) - jnp.float32(0.5) * _cosine(x, 1) + jnp.float32(0.08) * _cosine(x, 2),
    "Return the Blackman window, a sum of two cosines",
    "0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))",
)
