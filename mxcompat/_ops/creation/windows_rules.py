"""NumPy's rules of the window functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST

from ..define import TABLE

__all__: list[str] = []


def _window(name: str, shape: Callable[[Any], Any]) -> None:
    def rule(out: Aval, params: tuple) -> np.ndarray:
        (length,) = params
        if length == 1:
            return np.ones(1, np.float32)
        return shape(np.arange(length, dtype=np.float32) / np.float32(length - 1))

    HOST[TABLE[name]] = rule


def _cosine(x: Any, turns: int) -> Any:
    return np.cos(np.float32(2 * math.pi * turns) * x)


_window("bartlett", lambda x: 1 - np.abs(2 * x - 1))
_window("hanning", lambda x: np.sin(np.float32(math.pi) * x) ** 2)
_window("hamming", lambda x: np.float32(0.54) - np.float32(0.46) * _cosine(x, 1))
_window("blackman", lambda x: np.float32(0.42) - np.float32(0.5) * _cosine(x, 1) + np.float32(0.08) * _cosine(x, 2))
