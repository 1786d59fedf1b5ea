"""Half precision in the NumPy rules of `mx.fast`: computed in float32, and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.run.values import in_order

__all__ = ["widened"]

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


def widened(x: Any) -> Any:
    """Return x in float32 at least."""
    x, dtype = in_order(x), x.dtype
    return x if dtype in (_FLOAT32, _FLOAT64) else x.astype(_FLOAT32)
