"""What NumPy computes of float32 in float64, and rounds once: with some processors its vector instructions for float32
are off by 2 or 3 units in the last place, and log10(1000) is not 3, nor 27 ** (1 / 3).

That takes 2 ns an element more, so what activations and losses are made of is computed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["arccos", "arcsin", "arctan", "arctan2", "cosh", "log10", "power", "tan"]


class _Precise:
    """A ufunc; of float32, computed in float64, block by block."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        if inputs[0].dtype != np.float32:
            return self._ufunc(*inputs, out=out)
        if out is None:
            out = np.empty(np.broadcast_shapes(*[x.shape for x in inputs]), np.float32)
        return self._ufunc(*inputs, out=out, dtype=np.float64, casting="same_kind")


arccos, arcsin, arctan, arctan2 = _Precise(np.arccos), _Precise(np.arcsin), _Precise(np.arctan), _Precise(np.arctan2)
cosh, log10, power, tan = _Precise(np.cosh), _Precise(np.log10), _Precise(np.power), _Precise(np.tan)
