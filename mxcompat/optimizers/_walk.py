"""Walks over the trees of an optimizer's step: gradients, with the parameters and states in the same places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mxcompat.core as mx
from mxcompat._native import native
from mxcompat.nn.layers._walk import invalid_type

__all__ = ["Leaf", "assign", "gather", "operands"]

Leaf = tuple[mx.array, mx.array, dict]
"""A gradient, its parameter, and the parameter's state."""


def _gather(
    gradient: Any, parameter: Any, state: Any, leaves: list[Leaf], places: list[tuple[Any, Any]] | None
) -> None:
    """Collect each gradient with its parameter and state, and the places of the parameters."""
    if places is not None and isinstance(gradient, tuple):
        raise invalid_type(gradient)  # modules reject tuples
    for key, child in gradient.items() if isinstance(gradient, dict) else enumerate(gradient):
        if isinstance(child, (dict, list, tuple)):
            _gather(child, parameter[key], state[key], leaves, places)
        else:
            leaves.append((child, parameter[key], state[key]))
            if places is not None:
                places.append((parameter, key))


def _operands(leaves: list[Leaf]) -> tuple[list[mx.array], tuple[tuple[str, ...], ...]] | None:
    """Return the arrays of each leaf (gradient, parameter, then state), and the names of the state's arrays. None if a
    value is not an array."""
    if not all(isinstance(state, dict) for _, _, state in leaves):
        return None
    arrays = [x for gradient, parameter, state in leaves for x in (gradient, parameter, *state.values())]
    if not {*map(type, arrays)} <= {mx.array}:
        return None
    return arrays, tuple([tuple(state) for _, _, state in leaves])


def _assign(leaves: list[Leaf], results: Sequence[mx.array]) -> list[mx.array]:
    """Store results in the states, and return the new parameters. For each leaf, the results are the new parameter and
    then its state."""
    following = iter(results)
    new = []
    for _, _, state in leaves:
        new.append(next(following))
        for name in state:
            state[name] = next(following)
    return new


gather: Callable[..., None] = native.gather if native else _gather
operands: Callable[..., Any] = native.operands if native else _operands
assign: Callable[..., list[mx.array]] = native.assign if native else _assign
