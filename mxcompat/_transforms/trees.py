"""Trees: lists, tuples and dicts of arrays, as MLX walks them: dicts in insertion order, other leaves untouched.

A tree made like another has its tuples' types, named tuples among them, and plain lists and dicts. Walks recurse, which
is fast; one that comes to the limit of that begins again with another limit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._graph import policy

__all__ = [
    "LEAF", "Snapshot", "Substitution", "TreeSlots", "copied", "deep", "flatten", "like_tuple", "map_arrays", "restore",
    "structure", "visit_by_prefix",
]  # fmt: skip


_deep = threading.Lock()
_walks = 0
_limit = 0


@contextmanager
def deep() -> Iterator[None]:
    """Within this context Python recurses as deep as a tree of 5 000 levels needs. The limit is one of all threads."""
    global _walks, _limit
    with _deep:
        if not _walks:
            _limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit, policy.TREE_FRAMES))
        _walks += 1
    try:
        yield
    finally:
        with _deep:
            _walks -= 1
            if not _walks:
                sys.setrecursionlimit(_limit)


def flatten(tree: Any, require_array: bool = False) -> list[array]:
    """The arrays of a tree. With `require_array`, any other leaf raises ValueError."""
    out: list[array] = []
    try:
        _flatten([tree], out, require_array)
    except RecursionError:
        out.clear()
        with deep():
            _flatten([tree], out, require_array)
    return out


def _flatten(tree: Any, out: list[array], require_array: bool) -> None:
    for item in tree.values() if isinstance(tree, dict) else tree:
        if type(item) is array:
            out.append(item)
        elif isinstance(item, (dict, list, tuple)):
            if item:
                _flatten(item, out, require_array)
        elif isinstance(item, array):
            out.append(item)
        elif require_array:
            raise _not_an_array()


def _not_an_array() -> ValueError:
    return ValueError("[tree_flatten] The argument should contain only arrays")


def map_arrays(function: Callable[[array], Any], tree: Any) -> Any:
    """The same tree with `function(array)` for each array; new lists, tuples and dicts."""
    if isinstance(tree, dict):
        return {k: function(v) if type(v) is array else map_arrays(function, v) for k, v in tree.items()}
    if isinstance(tree, list):
        return [map_arrays(function, item) for item in tree]
    if isinstance(tree, tuple):
        return like_tuple(tree, [map_arrays(function, item) for item in tree])
    return function(tree) if isinstance(tree, array) else tree


def copied(tree: Any) -> Any:
    """The tree with an array of its own in every place: one that is there twice may be written to in one."""
    try:
        return map_arrays(_copy, tree)
    except RecursionError:
        with deep():
            return map_arrays(_copy, tree)


def _copy(x: array) -> array:
    return wrap(x._node)


def visit_by_prefix(visit: Callable[[array, Any], None], tree: Any, prefix: Any) -> None:
    """Call `visit` with each array of a tree and what a prefix of the tree has for it: one leaf of the prefix may stand
    for all of a list, tuple or dict. Raises MLX's ValueErrors for what is no prefix."""
    if isinstance(tree, array):
        visit(tree, prefix)
    elif isinstance(tree, (list, tuple, dict)):
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        if isinstance(prefix, (list, tuple, dict)):
            alike = all(isinstance(prefix, kind) == isinstance(tree, kind) for kind in (tuple, dict))
            if not alike or len(prefix) != len(tree):
                raise ValueError("[tree_map] Additional input tree is not a valid prefix of the first tree.")
            if isinstance(tree, dict) and any(key not in prefix for key in keys):
                raise ValueError("[tree_visit] Tree is not a valid prefix tree of the first tree.")
            for key in keys:
                visit_by_prefix(visit, tree[key], prefix[key])
        else:
            for key in keys:
                visit_by_prefix(visit, tree[key], prefix)


def like_tuple(old: tuple, items: list[Any]) -> tuple:
    """A tuple of these items, of the type of another: a named tuple, for example."""
    kind = type(old)
    if kind is tuple:
        return tuple(items)
    return kind(*items) if hasattr(old, "_fields") else kind(items)


class Leaf:
    """Stands for an array in the `structure` of a tree."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


class _Deep:
    """A structure that has so many levels that restoring it needs another limit."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def structure(tree: Any) -> Any:
    """The tree without its arrays, to `restore` later."""
    try:
        return map_arrays(lambda _: LEAF, tree)
    except RecursionError:
        with deep():
            return _Deep(map_arrays(lambda _: LEAF, tree))


def restore(shape: Any, leaves: Iterator[Any]) -> Any:
    """The tree of this `structure` with these leaves."""
    if type(shape) is _Deep:
        with deep():
            return _restore(shape.shape, leaves)
    return _restore(shape, leaves)


def _restore(shape: Any, leaves: Iterator[Any]) -> Any:
    if shape is LEAF:
        return next(leaves)
    if isinstance(shape, list):
        return [next(leaves) if item is LEAF else _restore(item, leaves) for item in shape]
    if isinstance(shape, tuple):
        return like_tuple(shape, [_restore(item, leaves) for item in shape])
    if isinstance(shape, dict):
        return {key: _restore(item, leaves) for key, item in shape.items()}
    return shape


class Snapshot:
    """What the lists and dicts of a tree hold, to put back if a trace fails."""

    def __init__(self, tree: Any) -> None:
        self._saved: list[tuple[Any, Any]] = []
        try:
            self._save(tree)
        except RecursionError:
            self._saved.clear()
            with deep():
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
                dict.clear(container)
                dict.update(container, content)  # a module's own `update` takes parameters only
            else:
                container[:] = content


_NUMBERS = {int, float}


class TreeSlots:
    """The arrays of lists and dicts, and where in them they are, to put others there.

    Whoever looks at the same lists and dicts sees the others. A tuple that holds arrays is replaced by another. `deep`
    says whether a tree has so many levels that walking it needs another limit.
    """

    def __init__(self) -> None:
        self.deep = False
        self.arrays: list[array] = []
        self._slots: list[tuple[Any, Any]] = []
        self._tuples: list[tuple[Any, Any, tuple, list[Any]]] = []  # what is in a tuple comes before it

    @classmethod
    def of(cls, tree: Any) -> TreeSlots:
        """The slots of the arrays of a tree."""
        slots = cls()
        slots.add([tree], 0)
        return slots

    def add(self, container: Any, key: Any, require_array: bool = False) -> range:
        """Find the arrays under one key of a list or dict. Returns their positions in `arrays`.

        With `require_array`, other leaves raise ValueError.
        """
        before, tuples = len(self.arrays), len(self._tuples)
        entry = ((key, container[key]),)
        try:
            self._find(container, entry, require_array)
        except RecursionError:
            self.deep = True
            del self.arrays[before:], self._slots[before:], self._tuples[tuples:]
            with deep():
                self._find(container, entry, require_array)
        return range(before, len(self.arrays))

    def _find(self, container: Any, entries: Iterable[tuple[Any, Any]], require_array: bool) -> None:
        for key, item in entries:
            if type(item) is array:
                self.arrays.append(item)
                self._slots.append((container, key))
            elif isinstance(item, dict):
                self._find(item, item.items(), require_array)
            elif not require_array and isinstance(item, (list, tuple)) and {*map(type, item)} <= _NUMBERS:
                continue  # the settings of a layer
            elif isinstance(item, list):
                self._find(item, enumerate(item), require_array)
            elif isinstance(item, tuple):
                content = list(item)
                before = len(self.arrays)
                self._find(content, enumerate(item), require_array)
                if len(self.arrays) > before:
                    self._tuples.append((container, key, item, content))
            elif isinstance(item, array):
                self.arrays.append(item)
                self._slots.append((container, key))
            elif require_array:
                raise _not_an_array()

    def fill(self, leaves: Sequence[array]) -> list[tuple]:
        """Put other arrays there. Returns the tuples that were made of them."""
        for (container, key), leaf in zip(self._slots, leaves, strict=True):
            container[key] = leaf
        made = []
        for container, key, old, content in self._tuples:
            container[key] = new = like_tuple(old, content)
            made.append(new)
        return made

    def empty(self, leaves: Sequence[array], made: Sequence[tuple], written: set[int]) -> None:
        """Put the arrays back where `fill` has put these, but for those `written` to (by id)."""
        for (container, key), old, new in zip(self._slots, self.arrays, leaves, strict=True):
            try:
                if container[key] is new and id(new) not in written:
                    container[key] = old
            except LookupError:
                continue  # the function has taken it away
        for (container, key, old, content), new in zip(self._tuples, made, strict=True):
            try:
                if container[key] is new:
                    container[key] = like_tuple(old, content) if written else old
            except LookupError:
                continue


class Substitution:
    """Other arrays in some slots, for as long as a `with` lasts.

    Afterwards each slot that still holds its substitute gets its array back. One that the user's function assigned
    to is left alone, and so is one whose array it wrote to (unless it failed).
    """

    def __init__(self, slots: TreeSlots, leaves: Sequence[array]) -> None:
        self._slots = slots
        self._leaves = leaves
        self._nodes = [x._node for x in leaves]

    def __enter__(self) -> None:
        self._made = self._slots.fill(self._leaves)

    def __exit__(self, kind: type | None, *exc: object) -> None:
        written: set[int] = set()
        if kind is None and [x._node for x in self._leaves] != self._nodes:
            written = {id(x) for x, n in zip(self._leaves, self._nodes, strict=True) if x._node is not n}
        self._slots.empty(self._leaves, self._made, written)
