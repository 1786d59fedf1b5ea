"""The update of one parameter as one node of the graph.

What an optimizer of ours does to a parameter depends on its arguments, the optimizer's settings and the scalars in its
state, and on nothing else. So its Python runs once for all parameters of a shape, and what it built is used again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mxcompat.core as mx
from mxcompat._transforms.compiling import compile_frozen

__all__ = ["Rule"]

_PLAIN = (bool, int, float, str, type(None))

_PATIENCE = 8
"""How many settings of one optimizer are worth a compile."""


class Rule:
    """Chooses, for each step of an optimizer, how to update a parameter."""

    def __init__(self) -> None:
        self._met: set[tuple] = set()

    def of(self, optimizer: Any) -> Callable[[mx.array, mx.array, dict], mx.array]:
        """What does the same as `optimizer.apply_single`, from now until its settings or scalars change.

        That is the method itself for optimizers that are not ours, and for those whose settings change all the time.
        """
        array = mx.array
        settings = _settings(optimizer)
        if settings is None or not all(isinstance(v, (array, dict, list, tuple)) for v in optimizer.state.values()):
            return optimizer.apply_single
        if settings not in self._met:
            if len(self._met) >= _PATIENCE:
                return optimizer.apply_single
            self._met.add(settings)
        scalars = {name: value for name, value in optimizer.state.items() if type(value) is array}
        updates: dict[tuple, Callable[..., list[mx.array]]] = {}

        def apply(gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
            slots = tuple(state)
            given = (gradient, parameter, *state.values())
            if {*map(type, given)} != {array}:
                return optimizer.apply_single(gradient, parameter, state)
            update = updates.get(slots)
            if update is None:
                update = updates[slots] = _compiled(type(optimizer), settings, slots, tuple(scalars))
            new, *kept = update(*given, *scalars.values())
            state.update(zip(slots, kept, strict=True))
            return new

        return apply


def _settings(optimizer: Any) -> tuple | None:
    """The public attributes of an optimizer, if they are plain numbers and the like."""
    found: list[Any] = []
    for name, value in vars(optimizer).items():
        if name[0] != "_":
            parts = tuple(value) if isinstance(value, (list, tuple)) else (value,)
            if not all(type(part) in _PLAIN for part in parts):
                return None
            found.append((name, parts if isinstance(value, (list, tuple)) else value, *map(type, parts)))
    return tuple(found)


@lru_cache(maxsize=64)
def _compiled(kind: type, settings: tuple, slots: tuple, scalars: tuple) -> Callable[..., list[mx.array]]:
    """From a gradient, a parameter, its slots and the scalars to the new parameter and slots."""

    def update(gradient: mx.array, parameter: mx.array, *rest: mx.array) -> list[mx.array]:
        optimizer = object.__new__(kind)
        vars(optimizer).update((name, value) for name, value, *_ in settings)
        optimizer._state = dict(zip(scalars, rest[len(slots) :], strict=True))  # type: ignore[attr-defined]
        state = dict(zip(slots, rest, strict=False))
        new = optimizer.apply_single(gradient, parameter, state)  # type: ignore[attr-defined]
        return [new, *[state[name] for name in slots]]

    return compile_frozen(update)
