"""Random bits: the counter-based generator (threefry 2x32) of all distributions, as pure JAX functions.

The words for one key and size are MLX's own. Counters 0 … n-1 are hashed in pairs (i, i + n/2). The first results fill
the first half of the output, and the second results the other half. The distributions in `random` start from `unit`,
whose numbers equal MLX's to the last bit.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._jax import jnp, lax, lazy

from .threefry import PARITY, ROTATIONS

__all__ = ["bits", "check_bits", "scaled", "split_words", "unit"]

_PARITY = np.uint32(PARITY)


@partial(lazy.jit, static_argnums=1)
def bits(key: Any, shape: tuple[int, ...]) -> Any:
    """Return random uint32 words of the given shape. (Jitted, so that draws of one shape are traced and lowered
    once.)"""
    size = math.prod(shape)
    if size == 0:
        return jnp.zeros(shape, np.uint32)
    half = np.uint32((size + 1) // 2)
    place = lax.iota(np.uint32, size)
    first = place < half
    low = jnp.where(first, place, place - half)
    # Hash each element's pair and keep one result: twice the work, but one loop that fuses with its consumer.
    words = _hash(key, low, _partner(low, size))
    return jnp.where(first, *words).reshape(shape)


def split_words(key: Any, size: int) -> Any:
    """Return the words of `bits`, flat, for sizes of a few words, as keys have."""
    if size == 0:
        return jnp.zeros((0,), np.uint32)
    low = lax.iota(np.uint32, (size + 1) // 2)
    words = jnp.concatenate(_hash(key, low, _partner(low, size)))[:size]
    # The barrier keeps XLA from recomputing the hash in every consumer of the key, to any depth of splits.
    return lax.optimization_barrier(words)


def _partner(low: Any, size: int) -> Any:
    """Return the counter that is hashed together with `low`. For an odd size, the last counter has no partner, so 0 is
    used."""
    half = np.uint32((size + 1) // 2)
    high = low + half
    return jnp.where(low == half - np.uint32(1), np.uint32(0), high) if size % 2 else high


def _hash(key: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return threefry 2x32 with 20 rounds: a pair of words for each pair of counters."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x = x + schedule[0]
    y = y + schedule[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(distance)) | (y >> np.uint32(32 - distance)))
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def unit(key: Any, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Return uniform numbers in [0, 1) with a floating dtype.

    They are words divided by 2^32 - 1 (in float32: 2^32), kept below 1.
    """
    fractions = bits(key, shape).astype(np.float32) * np.float32(2.0**-32)
    fractions = jnp.minimum(fractions, _below_one(np.float32))
    if dtype == np.float32:
        return fractions
    return jnp.minimum(fractions.astype(dtype), _below_one(dtype))


def _below_one(dtype: Any) -> Any:
    kind = np.dtype(dtype).type
    return np.nextafter(kind(1), kind(0))


def scaled(x: Any, factor: Any, bound: float) -> Any:
    """Return `x * factor`, rounded before anything is added to it; |x| is at most `bound`.

    The `where` does not change the value. It keeps the compiler from fusing the product and a following sum into one
    multiply-add, which would change the last bit of the numbers. (A minimum would halve the derivative where the factor
    is 0 and both are equal.)
    """
    product, most = x * factor, lax.stop_gradient(jnp.abs(factor)) * jnp.asarray(bound, x.dtype)
    return jnp.where(product > most, most, product)


def check_bits(key: Aval, shape: tuple[int, ...]) -> None:
    """Raise MLX's error if random bits of this shape cannot be drawn with this key."""
    if any(n < 0 for n in shape):
        raise ValueError("[bits] Negative dimensions not allowed.")
    if key.dtype._label != "uint32":
        raise ValueError(f"[bits] Expected key type uint32 but received {key.dtype._label}.")
    if key.shape != (2,):
        raise ValueError(f"[bits] Expected key shape (2) but received ({','.join(map(str, key.shape))}).")
