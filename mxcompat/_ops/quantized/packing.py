"""Pack small unsigned integers into uint32 words, the storage of quantized weights.

The codes of a row form a stream of bits, the lowest first, cut into words. Codes with 1, 2, 4 or 8 bits never straddle
two words. Codes with 3, 5 or 6 bits are packed in *lanes*, the shortest runs of codes that fill whole bytes. All
operations are shifts and masks over broadcast axes, which XLA fuses into the dot product that reads the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._jax import jnp, lax

__all__ = ["pack", "unpack"]


def _lane(bits: int) -> tuple[int, int, Any]:
    """Return the number of codes in a lane, the number of bytes in a lane, and the dtype for a lane."""
    codes = 8 if bits % 2 else 4
    size = codes * bits // 8
    return codes, size, np.dtype(np.uint64 if size > 4 else np.uint32)


def unpack(words: Any, bits: int) -> Any:
    """Return the codes, uint32 of shape (..., 32 / bits * n), in uint32 words of shape (..., n)."""
    lead = words.shape[:-1]
    count = words.shape[-1] * 32 // bits
    if 32 % bits == 0:
        lanes, codes, dtype = words, 32 // bits, np.dtype(np.uint32)
    else:
        codes, size, dtype = _lane(bits)
        octets = lax.bitcast_convert_type(words, jnp.uint8).reshape(*lead, count // codes, size).astype(dtype)
        lanes = octets[..., 0]
        for k in range(1, size):
            lanes = lanes | (octets[..., k] << dtype.type(8 * k))
    shifts = (np.arange(codes) * bits).astype(dtype)
    return ((lanes[..., None] >> shifts) & dtype.type((1 << bits) - 1)).astype(jnp.uint32).reshape(*lead, count)


def pack(codes: Any, bits: int) -> Any:
    """Pack uint32 codes below 2**bits into words: the inverse of `unpack`."""
    lead, count = codes.shape[:-1], codes.shape[-1]
    run, size, dtype = (32 // bits, 4, np.dtype(np.uint32)) if 32 % bits == 0 else _lane(bits)
    shifts = (np.arange(run) * bits).astype(dtype)
    lanes = (codes.reshape(*lead, count // run, run).astype(dtype) << shifts).sum(-1, dtype=dtype)
    if 32 % bits == 0:
        return lanes
    octets = (lanes[..., None] >> (np.arange(size) * 8).astype(dtype)).astype(jnp.uint8)
    return lax.bitcast_convert_type(octets.reshape(*lead, count * bits // 32, 4), jnp.uint32)
