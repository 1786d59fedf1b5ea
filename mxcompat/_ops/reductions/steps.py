"""Scans step by step: a loop over the axis, in which each step combines two rows across the axis.

XLA compiles this in a fraction of the time of a scan over pairs, above all its derivative. A long axis is cut into
pieces, which are scanned side by side as rows. Then the result before each piece is combined with the piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mxcompat._graph import policy
from mxcompat._jax import jnp, lax

__all__ = ["scan_in_steps"]


def scan_in_steps(combine: Callable[[Any, Any], Any], x: Any, axis: int, reverse: bool) -> Any:
    """Return the running results of an associative operation along a nonempty axis.

    Args:
        combine: an elementwise function of two arrays with one shape, such as `lax.add`.
        reverse: whether the scan starts at the end.
    """
    return jnp.moveaxis(_scanned(combine, jnp.moveaxis(x, axis, 0), reverse), 0, axis)


def _scanned(combine: Callable[[Any, Any], Any], x: Any, reverse: bool) -> Any:
    """Return the scan along the first axis."""
    n, *others = x.shape
    if n <= policy.FEW_ELEMENTS:
        return _rows(combine, x, reverse)
    length = math.isqrt(n - 1) + 1
    count = -(-n // length)
    extra = count * length - n
    padding = [(extra, 0) if reverse else (0, extra), *[(0, 0)] * len(others)]
    pieces = jnp.pad(x, padding, mode="edge").reshape(count, length, *others)
    inside = _rows(combine, jnp.swapaxes(pieces, 0, 1), reverse)
    before = _scanned(combine, inside[0 if reverse else -1], reverse)
    if reverse:
        whole = [combine(inside[:, :-1], jnp.broadcast_to(before[1:], inside[:, 1:].shape)), inside[:, -1:]]
    else:
        whole = [inside[:, :1], combine(jnp.broadcast_to(before[:-1], inside[:, 1:].shape), inside[:, 1:])]
    out = jnp.swapaxes(lax.concatenate(whole, 1), 0, 1).reshape(count * length, *others)
    return out[extra:] if reverse else out[:n]


def _rows(combine: Callable[[Any, Any], Any], rows: Any, reverse: bool) -> Any:
    first, following = (rows[-1], rows[:-1]) if reverse else (rows[0], rows[1:])

    def step(before: Any, row: Any) -> tuple[Any, Any]:
        out = combine(before, row)
        return out, out

    out = lax.scan(step, first, following, reverse=reverse)[1]
    return lax.concatenate([out, first[None]] if reverse else [first[None], out], 0)
