"""Construction: nodes from Python nests, NumPy, JAX and anything that speaks DLPack."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mxcompat._graph.aval import Dtype, aval, from_numpy
from mxcompat._graph.node import Node, leaf

from .array import array

__all__ = ["node_of"]


def node_of(value: Any, dtype: Dtype | None = None) -> Node:
    """A leaf with the data of `value`, cast to `dtype` if one is given."""
    if isinstance(value, array):
        return value._node
    data = np.asarray(value)
    kind = dtype or from_numpy(data.dtype)
    if kind is None:
        raise ValueError(f"Invalid type {type(value).__name__} received in array initialization.")
    with jax.enable_x64(True):
        return leaf(jax.numpy.array(data, dtype=kind.numpy), aval(data.shape, kind))
