"""Walks over what a step of an optimizer takes and gives: gradients, and in their places parameters and states."""

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
    """Collect each gradient with what is in its place in the other trees, and where in theirs the parameters are."""
    if places is not None and isinstance(gradient, tuple):
        raise invalid_type(gradient)  # of no use to a module
    for key, child in gradient.items() if isinstance(gradient, dict) else enumerate(gradient):
        if isinstance(child, (dict, list, tuple)):
            _gather(child, parameter[key], state[key], leaves, places)
        else:
            leaves.append((child, parameter[key], state[key]))
            if places is not None:
                places.append((parameter, key))


def _operands(leaves: list[Leaf]) -> tuple[list[mx.array], tuple[tuple[str, ...], ...]] | None:
    """The arrays of each leaf, those of its state last, and the names of these. None if anything is no array."""
    if not all(isinstance(state, dict) for _, _, state in leaves):
        return None
    given = [x for gradient, parameter, state in leaves for x in (gradient, parameter, *state.values())]
    if not {*map(type, given)} <= {mx.array}:
        return None
    return given, tuple([tuple(state) for _, _, state in leaves])


def _assign(leaves: list[Leaf], results: Sequence[mx.array]) -> list[mx.array]:
    """Put results into the states: for each leaf the new parameter, which is returned, then what its state holds."""
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
