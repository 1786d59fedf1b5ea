"""Moving: ops that only move data do so with NumPy, if the data is small and what to compile would not return.

So nothing is compiled to look at a corner of an array once. And a graph that is a new one at each step because a small
array in it grows (the list of the tokens so far, say) is, but for that array, the same at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..ir.aval import number
from ..ir.node import SCALAR, Node
from ..ir.rules import HOST
from ..ir.structure import Subgraph, linearize
from .segments import unevaluated

__all__ = ["WORTH_A_LOOK", "moved"]

_SMALL = 1 << 16
"""Up to how many bytes an array is small."""

WORTH_A_LOOK = 16
"""How often a structure that only moves data is met before it is compiled."""

_SURE = 2
"""What is left after moving had to be the same this often, for it to be the same the next time."""


def moved(subgraph: Subgraph, roots: Sequence[Node]) -> dict[Node, jax.Array]:
    """The values of the nodes that only move data, in a stretch that has not been met before.

    Nothing, unless what is left to compute has been met: the whole had better be compiled then.
    """
    structure = subgraph.structure
    structure.met += 1
    if structure.met > 1 and not all(op in HOST for op, _, _ in structure.instructions):
        return {}
    found = _results(subgraph)
    if not found:
        return {}
    try:
        for node, result in found.items():
            node.value = result
        rest = unevaluated(roots)
        left = linearize(rest).structure if rest else None
    finally:
        for node in found:
            node.value = None
    if left is not None and left.met < _SURE:
        left.met += 1
        return {}
    return {node: _put(result) for node, result in found.items()}


def _results(subgraph: Subgraph) -> dict[Node, np.ndarray]:
    """What NumPy makes of the nodes that only move small data that is there."""
    structure, _, order, leaves = subgraph
    found: dict[int, Any] = {}
    for slot, (op, params, slots) in enumerate(structure.instructions):
        out = structure.avals[slot]
        rule = HOST.get(op)
        if rule is None or out.nbytes > _SMALL:
            continue
        inputs = [found.get(s) if s >= 0 else _small(leaves[~s]) for s in slots]
        if not any(x is None for x in inputs):
            result = rule(out, params, *inputs)
            if result is not None:
                found[slot] = result
    return {order[slot]: result for slot, result in found.items()}


def _small(leaf: Node) -> Any:
    """The data of a leaf, if it is small."""
    if leaf.op is SCALAR:
        return number(leaf.value, leaf.aval.dtype)
    return np.asarray(leaf.value) if leaf.aval.nbytes <= _SMALL and not isinstance(leaf.value, Tracer) else None


def _put(result: np.ndarray) -> jax.Array:
    with jax.enable_x64(True):
        return jax.device_put(np.array(result, order="C"))  # a copy: what it shows may be written over
