"""Logarithms in NumPy, with the negative NaN for negative numbers in float64, as in MLX. The sign of NumPy's own NaN
depends on the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["log", "log2"]

_NEGATIVE_NAN = np.copysign(np.nan, -1.0)


def _signed(logarithm: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def signed(x: Any) -> Any:
        y = logarithm(x)
        return np.where(x < 0, _NEGATIVE_NAN, y) if x.dtype == np.float64 else y

    return signed


log, log2 = _signed(np.log), _signed(np.log2)
