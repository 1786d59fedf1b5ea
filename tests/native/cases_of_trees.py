"""Cases of mxcompat/_native/trees.c."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

import mxcompat.core as mx
from mxcompat._native import native
from mxcompat._transforms import trees

from .cases import Case

__all__ = ["Backwards", "cases", "deep"]


class Point(NamedTuple):
    x: Any
    y: Any


class Backwards(list):
    """A list that iterates from its end."""

    def __iter__(self) -> Iterator[Any]:
        return iter(list.__getitem__(self, slice(None, None, -1)))


class Closed(list):
    """A list that cannot be iterated."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("closed")


class Shut(dict):
    """A dict that can be neither read nor written."""

    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("shut")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise RuntimeError("shut")


class Unlike(tuple):
    """A tuple that cannot be rebuilt from other items."""

    def __new__(cls, *items: Any) -> Unlike:
        if not items or isinstance(items[0], list):
            raise RuntimeError("not to be made")
        return super().__new__(cls, items)


def deep(tree: Any, levels: int = 100_000) -> list:
    """Nest a tree in more levels than any Python's C recursion limit."""
    for _ in range(levels):
        tree = [tree]
    return tree


a, b, c = mx.array(1.0), mx.array(2.0), mx.array(3.0)
DEEP = deep(a)
TREE = {
    "w": a,
    "l": [b, (c, "x", None), {"k": Point(a, 2), 3: {}}],
    "stride": (1, 2.0),
    "r": Backwards([a, b]),
    "n": None,
}
COUNT = 6  # the tree has arrays inside


def _of_flatten() -> Iterator[Case]:
    flatten = native.flatten
    yield Case("flatten", "a tree", flatten, lambda: (TREE, [], False))
    yield Case("flatten", "an array", flatten, lambda: (a, [], True))
    yield Case("flatten", "a leaf that is no array", flatten, lambda: ([a, (b, 3)], [], True))
    yield Case("flatten", "a list that cannot be walked", flatten, lambda: ({"x": Closed()}, [], False), RuntimeError)
    yield Case("flatten", "too many levels", flatten, lambda: (DEEP, [], False), RecursionError, calls=100)
    yield Case("flatten", "no list to append to", flatten, (TREE, (), False), TypeError)
    yield Case("flatten", "two arguments", flatten, lambda: (TREE, []), TypeError)


def _of_rebuild() -> Iterator[Case]:
    rebuild = native.rebuild
    shape = trees.structure(TREE)
    leaves = [mx.array(0.0)] * COUNT

    yield Case("rebuild", "a tree", rebuild, lambda: (TREE, iter(leaves)))
    yield Case("rebuild", "a structure", rebuild, lambda: (shape, repeat(trees.LEAF)))
    yield Case("rebuild", "fewer leaves", rebuild, lambda: (TREE, iter(leaves[1:])), StopIteration)
    yield Case("rebuild", "leaves that fail", rebuild, lambda: (TREE, map(int, ["1", "x"])), ValueError)
    yield Case("rebuild", "a tuple like no other", rebuild, lambda: ([Unlike(a)], iter(leaves)), RuntimeError)
    yield Case("rebuild", "a list that cannot be walked", rebuild, lambda: ([a, Closed()], iter(leaves)), RuntimeError)
    yield Case("rebuild", "too many levels", rebuild, lambda: (DEEP, iter(leaves)), RecursionError, calls=100)
    yield Case("rebuild", "no iterator", rebuild, (TREE, leaves), TypeError)
    yield Case("rebuild", "one argument", rebuild, (TREE,), TypeError)


class Unhashed:
    """A key that cannot be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")


def _of_find() -> Iterator[Case]:
    find = native.find
    unhashed = Unhashed()
    many = [a] * 400

    def lists() -> tuple[list, list, list]:
        return [], [], []

    yield Case("find", "in a list", find, lambda: ([TREE, a], [], *lists()))
    yield Case("find", "in a dictionary", find, lambda: (TREE, [], *lists()))
    yield Case("find", "some that are wanted", find, lambda: ({"x": [a], "y": 1}, ["x"], *lists()))
    yield Case("find", "many", find, lambda: ([many], [0], *lists()), calls=500)
    yield Case("find", "one that is wanted, and no array", find, lambda: ({"x": [a, 1]}, ["x"], *lists()))
    yield Case("find", "one in a list that is wanted, and no array", find, lambda: ([3], [0], *lists()))
    yield Case("find", "a key that cannot be compared", find, lambda: ({unhashed: a}, [1], *lists()), RuntimeError)
    yield Case("find", "a list that cannot be walked", find, lambda: ([a, {"x": Closed()}], [], *lists()), RuntimeError)
    yield Case("find", "too many levels", find, lambda: ([DEEP], [], *lists()), RecursionError, calls=100)
    yield Case("find", "no container", find, lambda: ([a], 3, *lists()), TypeError)
    yield Case("find", "a tuple", find, lambda: ((a,), [], *lists()), TypeError)
    yield Case("find", "a tuple to append to", find, ([a], [], [], [], ()), TypeError)
    yield Case("find", "four arguments", find, ([a], [], [], []), TypeError)


def _of_slots() -> Iterator[Case]:
    tree = {"w": a, "l": [b, c], "t": None}
    slots = [(tree, "w"), (tree["l"], 0), (tree["l"], 1)]
    old, new = [a, b, c], [mx.array(0.0) for _ in range(3)]
    nodes = [x._node for x in new]

    def there() -> None:
        native.fill(slots, new)

    fill, put_back = native.fill, native.put_back
    yield Case("fill", "three", fill, (slots, new))
    yield Case("fill", "one that cannot be written", fill, ([*slots, (Shut(), 0)], [*new, a]), RuntimeError)
    yield Case("fill", "a tuple", fill, ([((), 0)], [a]), TypeError)
    yield Case("fill", "a slot that is none", fill, ([3], [a]), SystemError)
    yield Case("fill", "lists of other lengths", fill, (slots, []), TypeError)
    yield Case("fill", "one argument", fill, (slots,), TypeError)

    yield Case("put_back", "three", put_back, (slots, old, new, nodes), before=there)
    yield Case("put_back", "without nodes", put_back, (slots, old, new, None), before=there)
    yield Case("put_back", "one that was written to", put_back, (slots, old, new, [*nodes[:2], a._node]), before=there)
    yield Case("put_back", "one that is gone", put_back, ([({}, "w")], [a], [new[0]], None))
    yield Case("put_back", "one that cannot be read", put_back, ([(Shut(), 0)], [a], [b], None), RuntimeError)
    yield Case("put_back", "a slot that is none", put_back, ([3], [a], [b], None), SystemError)
    yield Case("put_back", "leaves that are no arrays", put_back, (slots, old, [1, 2, 3], nodes), TypeError)
    yield Case("put_back", "lists of other lengths", put_back, (slots, old, new, []), TypeError)
    yield Case("put_back", "three arguments", put_back, (slots, old, new), TypeError)


def _of_connect() -> Iterator[Case]:
    yield Case("connect_trees", "the same again", native.connect_trees, (mx.array, trees.Leaf, trees.like_tuple))
    yield Case("connect_trees", "one", native.connect_trees, (mx.array,), TypeError)


def cases() -> Iterator[Case]:
    for some in (_of_flatten, _of_rebuild, _of_find, _of_slots, _of_connect):
        yield from some()
