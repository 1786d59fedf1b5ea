"""NumPy's reductions in float32 at least: half precision is accumulated in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.run.values import in_order

from .blocks import folded_on_host, widened

__all__ = ["in_float32", "inexact", "is_half", "narrowed", "summed"]

_FLOAT32 = np.dtype(np.float32)


def inexact(x: Any) -> Any:
    """Return x in float32 at least."""
    return x.astype(_FLOAT32) if x.dtype.kind in "biu" else widened(x)


def narrowed(x: Any, out: Aval) -> Any:
    """Return x in the dtype of the result."""
    return x.astype(out.dtype._numpy, copy=False)


def is_half(out: Aval) -> bool:
    """Return True if the result is half precision."""
    return out.dtype.size == 2 and out.dtype._kind == "f"


def in_float32(ufunc: np.ufunc, out: Aval, x: Any, axes: tuple[int, ...]) -> Any:
    """Return the reduction of half precision by a ufunc, in float32."""
    return folded_on_host(ufunc, widened, x, (), axes).reshape(out.shape)


def summed(x: Any, params: tuple) -> Any:
    """Return the sum along the axes of `params`, in float32 at least."""
    return np.add.reduce(in_order(widened(x)), params[0], None, None, params[1])
