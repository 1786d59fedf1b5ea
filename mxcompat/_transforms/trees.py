"""Trees: lists, tuples and dicts of arrays, as MLX walks them: dicts in insertion order, other leaves untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mxcompat._array.array import array

__all__ = ["Contents", "Substitution", "fill", "flatten", "map_arrays", "restore", "structure"]


def flatten(tree: Any, strict: bool = False) -> list[array]:
    """The arrays of a tree. With `strict`, any other leaf raises ValueError."""
    out: list[array] = []
    _flatten(tree, out, strict)
    return out


def _flatten(tree: Any, out: list[array], strict: bool) -> None:
    if type(tree) is array:
        out.append(tree)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            _flatten(item, out, strict)
    elif isinstance(tree, dict):
        for item in tree.values():
            _flatten(item, out, strict)
    elif isinstance(tree, array):
        out.append(tree)
    elif strict:
        raise ValueError("[tree_flatten] The argument should contain only arrays")


def map_arrays(function: Callable[[array], Any], tree: Any) -> Any:
    """The same tree with `function(array)` for each array; new lists, tuples and dicts."""
    if isinstance(tree, array):
        return function(tree)
    if isinstance(tree, list):
        return [map_arrays(function, item) for item in tree]
    if isinstance(tree, tuple):
        return tuple([map_arrays(function, item) for item in tree])
    if isinstance(tree, dict):
        return {key: map_arrays(function, item) for key, item in tree.items()}
    return tree


class Leaf:
    """Stands for an array in the `structure` of a tree."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


def structure(tree: Any) -> Any:
    """The tree without its arrays, to `restore` later."""
    return map_arrays(lambda _: LEAF, tree)


def restore(shape: Any, leaves: Iterator[Any]) -> Any:
    """The tree of this structure with these leaves."""
    if shape is LEAF:
        return next(leaves)
    if isinstance(shape, list):
        return [restore(item, leaves) for item in shape]
    if isinstance(shape, tuple):
        return tuple([restore(item, leaves) for item in shape])
    if isinstance(shape, dict):
        return {key: restore(item, leaves) for key, item in shape.items()}
    return shape


class Contents:
    """What the lists and dicts of a tree hold, to put back if a trace fails."""

    def __init__(self, tree: Any) -> None:
        self._saved: list[tuple[Any, Any]] = []
        self._save(tree)

    def _save(self, tree: Any) -> None:
        if isinstance(tree, dict):
            self._saved.append((tree, dict(tree)))
            for item in tree.values():
                self._save(item)
        elif isinstance(tree, (list, tuple)):
            if isinstance(tree, list):
                self._saved.append((tree, list(tree)))
            for item in tree:
                self._save(item)

    def put_back(self) -> None:
        for container, content in self._saved:
            if isinstance(container, dict):
                container.clear()
                container.update(content)
            else:
                container[:] = content


class Substitution:
    """Other arrays in the places of those of a tree, for as long as a `with` lasts.

    Lists and dicts are changed in place, so the user's function sees the caller's own containers; afterwards each
    place that still holds the substitute gets its array back, and one that the function assigned to is left alone.
    """

    def __init__(self, tree: list[Any], leaves: Sequence[array]) -> None:
        self._tree = tree
        self._leaves = iter(leaves)
        self._changed: list[tuple[Any, Any, Any, Any]] = []

    def __enter__(self) -> list[Any]:
        return self._swap(self._tree)

    def _swap(self, tree: Any) -> Any:
        if isinstance(tree, array):
            return next(self._leaves)
        if isinstance(tree, tuple):
            items = [self._swap(item) for item in tree]
            return tuple(items) if any(a is not b for a, b in zip(items, tree, strict=True)) else tree
        if isinstance(tree, dict):
            places: Any = list(tree.items())
        elif isinstance(tree, list):
            places = enumerate(tree)
        else:
            return tree
        for key, item in places:
            new = self._swap(item)
            if new is not item:
                tree[key] = new
                self._changed.append((tree, key, item, new))
        return tree

    def __exit__(self, *exc: object) -> None:
        for container, key, old, new in self._changed:
            there = key in container if isinstance(container, dict) else key < len(container)
            if there and container[key] is new:
                container[key] = old


def fill(tree: Any, leaves: Sequence[array]) -> None:
    """Put other arrays in the places of those of a tree, in place."""
    Substitution(tree, leaves).__enter__()
