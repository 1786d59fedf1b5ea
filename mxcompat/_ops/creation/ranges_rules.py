"""NumPy's rules of arange and linspace."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST

from ..define import TABLE

__all__: list[str] = []


@HOST.of(TABLE["arange"])
def _arange(out: Aval, params: tuple, start: Any, step: Any) -> np.ndarray:
    kind = out.dtype._numpy
    work = np.dtype(np.float32) if out.dtype._kind == "f" and kind.itemsize == 2 else kind
    places = np.arange(params[0], dtype=np.int64 if kind.itemsize == 8 else np.int32)
    if places.dtype != work:
        places = places.astype(work)
    if step != 1:
        places *= step.astype(work)
    if start != 0:
        places += start.astype(work)
    return places if work == kind else places.astype(kind)


@HOST.of(TABLE["linspace"])
def _linspace(out: Aval, params: tuple, start: Any, stop: Any) -> np.ndarray:
    num, endpoint, dtype = params
    if num == 1:
        return converted_on_host(start.reshape(1), dtype)
    work = start.dtype
    t = np.arange(num, dtype=np.int32).astype(work) / work.type(num - 1 if endpoint else num)
    return converted_on_host((1 - t) * start + t * stop, dtype)
