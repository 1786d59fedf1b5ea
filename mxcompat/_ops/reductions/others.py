"""The derivative of a product: for each element, the product of all other elements.

Division would fail, because some elements may be zero. The elements of an axis are multiplied in pairs, then the
products in pairs, until one is left. On the way back, the product of all elements except one is the product outside its
pair, times its partner. The algorithm takes three multiplications for each element, on contiguous slices.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

__all__ = ["products_of_others"]


def products_of_others(xp: ModuleType, x: Any, axes: tuple[int, ...]) -> Any:
    """Return, for each element, the product of the others along some axes.

    Args:
        xp: the module of the array `x`: `numpy` or `jax.numpy`.
    """
    if len(axes) == 1:
        return _along(xp, x, axes[0])
    kept = [k for k in range(x.ndim) if k not in axes]
    order = [*kept, *axes]
    moved = x.transpose(order)
    lines = moved.reshape((*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :])))
    return _along(xp, lines, len(kept)).reshape(moved.shape).transpose([order.index(k) for k in range(x.ndim)])


def _along(xp: ModuleType, x: Any, axis: int) -> Any:
    half, odd = divmod(x.shape[axis], 2)
    if not half:
        return xp.ones_like(x)
    before = (slice(None),) * axis
    left, right, last = (*before, slice(half)), (*before, slice(half, 2 * half)), (*before, slice(2 * half, None))
    pairs = x[left] * x[right]
    others = _along(xp, xp.concatenate([pairs, x[last]], axis) if odd else pairs, axis)
    of_pairs = others[left]
    return xp.concatenate([of_pairs * x[right], of_pairs * x[left], *([others[right]] if odd else [])], axis)
