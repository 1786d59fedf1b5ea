"""Trees: lists, tuples and dicts of arrays, as MLX walks them: dicts in insertion order, other leaves untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_not
from typing import Any

from mxcompat._array.array import array

__all__ = ["Contents", "Substitution", "fill", "flatten", "map_arrays", "restore", "structure"]


def flatten(tree: Any, strict: bool = False) -> list[array]:
    """The arrays of a tree. With `strict`, any other leaf raises ValueError."""
    out: list[array] = []
    _flatten(tree, out, strict)
    return out


_PLAIN = frozenset((bool, int, float, str, type(None)))
"""What trees of modules and settings hold besides arrays, passed over quickly."""


def _flatten(tree: Any, out: list[array], strict: bool) -> None:
    if isinstance(tree, (list, tuple, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            if type(item) is array:
                out.append(item)
            elif strict or type(item) not in _PLAIN:
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

    Lists and dicts are changed in place, so the user's function sees the caller's own containers. Afterwards each place
    that still holds its substitute gets its array back. A place that the function assigned to is left alone, and so is
    one whose array it wrote to (unless it failed).
    """

    def __init__(self, tree: list[Any], leaves: Sequence[array]) -> None:
        self._tree = tree
        self._leaves = leaves
        self._nodes = [x._node for x in leaves]
        self._changed: list[tuple[Any, Any, Any, Any]] = []

    def __enter__(self) -> list[Any]:
        return self._swap(self._tree, iter(self._leaves))

    def _swap(self, tree: Any, leaves: Iterator[array]) -> Any:
        if isinstance(tree, array):
            return next(leaves)
        if isinstance(tree, tuple):
            items = tuple([item if type(item) in _PLAIN else self._swap(item, leaves) for item in tree])
            return items if any(map(is_not, items, tree)) else tree
        if isinstance(tree, (dict, list)):
            for key, item in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
                if type(item) is array:
                    new = next(leaves)
                elif type(item) in _PLAIN:
                    continue
                else:
                    new = self._swap(item, leaves)
                    if new is item:
                        continue
                tree[key] = new
                self._changed.append((tree, key, item, new))
        return tree

    def __exit__(self, kind: type | None, *exc: object) -> None:
        written: set[int] = set()
        if kind is None and [x._node for x in self._leaves] != self._nodes:
            written = {id(x) for x, n in zip(self._leaves, self._nodes, strict=True) if x._node is not n}
        for container, key, old, new in self._changed:
            if isinstance(container, dict):
                there = container.get(key)
            else:
                there = container[key] if key < len(container) else None
            if there is new:
                container[key] = _back(old, new, written) if written else old


def _back(old: Any, new: Any, written: set[int]) -> Any:
    """What was substituted, but for the arrays that were written to."""
    if isinstance(old, tuple):
        return tuple([_back(a, b, written) for a, b in zip(old, new, strict=True)])
    return new if id(new) in written else old


def fill(tree: Any, leaves: Sequence[array]) -> None:
    """Put other arrays in the places of those of a tree, in place."""
    Substitution(tree, leaves).__enter__()
