"""The update of a few parameters as one node of the graph.

The update of an optimizer of ours depends only on its arguments, the optimizer's methods (which a program may replace),
its settings, and the scalars in its state. So its Python runs once for parameters of given shapes, and the Program is
reused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter, is_
from typing import Any

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._transforms.compiling import compile_frozen
from mxcompat.optimizers._walk import Leaf, assign, operands

__all__ = ["Rule"]

_PLAIN = (bool, int, float, str, type(None))


class Rule:
    """Carries out the steps of one optimizer, and caches its settings."""

    def __init__(self) -> None:
        self._known: set[tuple | None] = set()
        self._names: list[str] = []
        self._sequences: list[Any] = []
        self._seen: list[Any] = []
        self._settings: tuple | None = None

    def apply(self, optimizer: Any, leaves: list[Leaf]) -> list[mx.array]:
        """Apply `optimizer.apply_single` to each leaf and return the results; the leaves' states are updated.

        The method is called directly if the optimizer's settings keep changing or are not plain numbers, and for leaves
        that are not arrays.
        """
        array = mx.array
        kind = type(optimizer)
        methods = _methods(kind._mx_methods)
        settings = self._to_compile(optimizer, methods)
        scalars: dict[str, mx.array] = {}
        for name, value in optimizer.state.items():
            if type(value) is array:
                scalars[name] = value
            elif name in optimizer._schedulers or not isinstance(value, (dict, list, tuple)):
                settings = None
        if settings is None:
            return [optimizer.apply_single(*leaf) for leaf in leaves]
        new = []
        for start in range(0, len(leaves), optimizer._mx_together):
            group = leaves[start : start + optimizer._mx_together]
            gathered = operands(group)
            if gathered is None:
                new += [optimizer.apply_single(*leaf) for leaf in group]
                continue
            arrays, slots = gathered
            update = _compiled(kind, methods, settings, slots, tuple(scalars))
            new += assign(group, update(*arrays, *scalars.values()))
        return new

    def _to_compile(self, optimizer: Any, methods: tuple) -> tuple | None:
        """Return the settings to compile for, or None."""
        seen = self._look(optimizer, methods)
        if len(seen) != len(self._seen) or not all(map(is_, seen, self._seen)):
            attributes = _attributes(optimizer)
            self._names = [*attributes]
            self._sequences = [value for value in attributes.values() if isinstance(value, (list, tuple))]
            self._seen = self._look(optimizer, methods)
            settings = _settings(attributes)
            if len(self._known) < policy.COMPILED_SETTINGS:
                self._known.add(settings)
            # with REPRODUCIBLE, results must not depend on the optimizer's history
            self._settings = settings if policy.REPRODUCIBLE or settings in self._known else None
        return self._settings

    def _look(self, optimizer: Any, methods: tuple) -> list[Any]:
        """Return the objects that determine the settings; if they are the same, the settings are the same."""
        held = vars(optimizer)
        seen = [policy.REPRODUCIBLE, *methods, *held, *map(held.get, self._names)]
        for sequence in self._sequences:
            seen += sequence
        return seen


def _methods(defined: tuple[tuple[type, tuple[str, ...]], ...]) -> tuple:
    """Return the current methods of these names in these classes."""
    methods: tuple = ()
    for kind, names in defined:
        methods += _reader(names)(kind)
    return methods


@lru_cache(policy.MOST_PROGRAMS)
def _reader(names: tuple[str, ...]) -> Callable[[type], tuple]:
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda kind: (get(kind),)


def _attributes(optimizer: Any) -> dict[str, Any]:
    """Return the attributes set on an optimizer: public ones, and replacements of methods."""
    _, methods = optimizer._mx_methods[0]
    return {name: value for name, value in vars(optimizer).items() if name[0] != "_" or name in methods}


def _settings(attributes: dict[str, Any]) -> tuple | None:
    """Return the settings of an optimizer, or None if one is not a plain number, string or sequence of these."""
    settings: list[Any] = []
    for name, value in attributes.items():
        parts = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if not all(type(part) in _PLAIN for part in parts):
            return None
        settings.append((name, parts if isinstance(value, (list, tuple)) else value, *map(type, parts)))
    return tuple(settings)


@lru_cache(policy.MOST_PROGRAMS)
def _compiled(
    kind: type, methods: tuple, settings: tuple, slots: tuple[tuple[str, ...], ...], scalars: tuple[str, ...]
) -> Callable[..., list[mx.array]]:
    """Compile the update of several parameters.

    Its arguments are, for each parameter, the gradient, the parameter and the arrays of its slots, and then the
    scalars. Its results are, for each parameter, the new parameter and the new arrays of its slots. `methods` are the
    current methods of the class.
    """

    def update(*arguments: mx.array) -> list[mx.array]:
        values = iter(arguments)
        leaves = [(next(values), next(values), {name: next(values) for name in names}) for names in slots]
        optimizer = object.__new__(kind)
        vars(optimizer).update((name, value) for name, value, *_ in settings)
        optimizer._state = dict(zip(scalars, values, strict=True))  # type: ignore[attr-defined]
        new = []
        for names, (gradient, parameter, state) in zip(slots, leaves, strict=True):
            new.append(optimizer.apply_single(gradient, parameter, state))  # type: ignore[attr-defined]
            new += [state[name] for name in names]
        return new

    return compile_frozen(update)
