"""Random words, uniform numbers and noise in NumPy, for the rules of the draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .threefry import words, words_of_each

__all__ = ["SQRT2", "between", "cast", "gumbel_noise", "random_words", "unit", "wide"]

SQRT2 = math.sqrt(2.0)

_OVER_2_32 = np.array(2.0**-32, np.float32)  # NumPy handles a 0-d array faster than a number
_BELOW_ONE = {d: np.nextafter(np.ones((), d), np.zeros((), d)) for d in (np.dtype(np.float32), np.dtype(np.float16))}


def random_words(key: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return random words of this shape. With several keys, each key fills its row."""
    if key.ndim == 1:
        return words(key, math.prod(shape)).reshape(shape)
    return words_of_each(key, math.prod(shape[1:])).reshape(shape)


def _below_one(dtype: np.dtype) -> Any:
    if dtype not in _BELOW_ONE:
        _BELOW_ONE[dtype] = np.nextafter(np.ones((), dtype), np.zeros((), dtype))
    return _BELOW_ONE[dtype]


def unit(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype | None = None) -> np.ndarray:
    """Return uniform numbers in [0, 1), by default float32."""
    x = random_words(key, shape).astype(np.float32)
    np.multiply(x, _OVER_2_32, x)
    np.minimum(x, _BELOW_ONE[x.dtype], out=x)
    if dtype is None or dtype == x.dtype:
        return x
    x = x.astype(dtype)
    return np.minimum(x, _below_one(dtype), out=x)


def cast(x: Any, dtype: np.dtype) -> Any:
    """Return `x` in a dtype. For a real dtype, a complex number loses its imaginary part."""
    if x.dtype == dtype:
        return x
    return (x.real if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)


def wide(function: Any, x: Any) -> Any:
    """Apply a function to half-precision numbers in float32, and round the result."""
    return function(x) if x.dtype == np.float32 else function(x.astype(np.float32)).astype(x.dtype)


def between(key: np.ndarray, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    low, high = cast(low, dtype), cast(high, dtype)
    x = unit(key, shape, dtype)
    return np.add(np.multiply(x, high - low, x), low, x)


def gumbel_noise(key: np.ndarray, shape: tuple[int, ...], dtype: np.dtype | None = None) -> Any:
    x = unit(key, shape, dtype)
    return -wide(np.log, -wide(np.log, x))
