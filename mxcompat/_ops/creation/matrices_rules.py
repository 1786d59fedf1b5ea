"""NumPy's rules of eye and tri."""

from __future__ import annotations

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST

from ..define import TABLE
from ..movement.diagonals_rules import distance

__all__: list[str] = []


@HOST.of(TABLE["eye"])
def _eye(out: Aval, params: tuple) -> np.ndarray:
    return np.eye(*out.shape, params[1], out.dtype._numpy)


@HOST.of(TABLE["tri"])
def _tri(out: Aval, params: tuple) -> np.ndarray:
    return (distance(out.shape) <= params[1]).astype(out.dtype._numpy)
