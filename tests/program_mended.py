"""Real MLX with corrections: the second oracle of the random programs, if the first fails or is wrong.

`vmap` is a loop, and `compile` and `checkpoint` do nothing. Functions of complex numbers with wrong derivatives are
composed of other ops (see docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import mlx.core as real

__all__ = ["MENDED"]


class _Mended:
    def __getattr__(self, name: str) -> Any:
        return getattr(real, name)

    def checkpoint(self, f: Callable) -> Callable:
        return f

    def compile(self, f: Callable, **options: Any) -> Callable:
        return f

    def vmap(self, f: Callable, in_axes: Any = 0, out_axes: int = 0) -> Callable:
        def call(*args: Any) -> Any:
            axes = [in_axes] * len(args) if isinstance(in_axes, int) else in_axes
            (size,) = {x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None}
            rows = [
                f(*[x if a is None else real.moveaxis(x, a, 0)[k] for x, a in zip(args, axes, strict=True)])
                for k in range(size)
            ]
            if isinstance(rows[0], real.array):
                return real.stack(rows, out_axes)
            return type(rows[0])(real.stack(list(outs), out_axes) for outs in zip(*rows, strict=True))

        return call

    def abs(self, x: Any) -> Any:
        if x.dtype != real.complex64:
            return real.abs(x)
        return real.sqrt(real.square(real.real(x)) + real.square(real.imag(x)))

    def cumprod(self, x: Any, *, axis: int, reverse: bool, inclusive: bool) -> Any:
        if x.dtype != real.complex64 or not -x.ndim <= axis < x.ndim:
            return real.cumprod(x, axis=axis, reverse=reverse, inclusive=inclusive)
        parts = real.split(x, x.shape[axis], axis)[:: -1 if reverse else 1]
        if not inclusive:
            parts = [real.ones_like(parts[0]), *parts[:-1]]
        parts = list(accumulate(parts, mul))
        return real.concatenate(parts[:: -1 if reverse else 1], axis)


MENDED = _Mended()
