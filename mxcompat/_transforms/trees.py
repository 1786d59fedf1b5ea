"""Trees: nested lists, tuples and dicts of arrays. As in MLX, dicts keep their insertion order and other leaves are
ignored.

A rebuilt tree has the same tuple types, including named tuples, but plain lists and dicts. Walks are recursive for
speed. One that reaches the recursion limit starts again in Python with a higher limit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from mxcompat._array.array import array, handles, nodes_of
from mxcompat._graph import policy
from mxcompat._graph.ir.node import Node
from mxcompat._native import native

__all__ = [
    "LEAF", "Snapshot", "Substitution", "TreeSlots", "call_on_copies", "copied", "fill", "flatten", "like_tuple",
    "nodes_in", "raised_recursion_limit", "rebuilt", "restore", "structure", "visit_by_prefix",
]  # fmt: skip


_limit_lock = threading.Lock()
_walks = 0
_limit = 0


@contextmanager
def raised_recursion_limit() -> Iterator[None]:
    """Raise the recursion limit within this context, enough for a tree of 5 000 levels. The limit is shared by all
    threads."""
    global _walks, _limit
    with _limit_lock:
        if not _walks:
            _limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit, policy.TREE_FRAMES))
        _walks += 1
    try:
        yield
    finally:
        with _limit_lock:
            _walks -= 1
            if not _walks:
                sys.setrecursionlimit(_limit)


def flatten(tree: Any, require_array: bool = False) -> list[array]:
    """Return the arrays of a tree. With `require_array`, any other leaf raises ValueError."""
    out: list[array] = []
    try:
        arrays_only = _flatten(tree, out, require_array)
    except RecursionError:
        out.clear()
        with raised_recursion_limit():
            arrays_only = _flatten_in_python(tree, out, require_array)
    if not arrays_only:
        raise _not_an_array()
    return out


def nodes_in(tree: Any, require_array: bool = False) -> list[Node]:
    """Return the nodes of the arrays of a tree, in the order of `flatten`."""
    return [tree._node] if type(tree) is array else nodes_of(flatten(tree, require_array))


def _flatten_in_python(tree: Any, out: list[array], require_array: bool) -> bool:
    """Append the arrays of a tree to `out`. Return False if a leaf is not an array and `require_array` is set."""
    if isinstance(tree, array):
        out.append(tree)
        return True
    if not isinstance(tree, (dict, list, tuple)):
        return not require_array
    for item in _items(tree):  # noqa: SIM110  `all` would recurse in C, where Python 3.12 has a limit of its own
        if not _flatten_in_python(item, out, require_array):
            return False
    return True


def _items(tree: Any) -> Iterable[Any]:
    return dict.values(tree) if isinstance(tree, dict) else tree


def _not_an_array() -> ValueError:
    return ValueError("[tree_flatten] The argument should contain only arrays")


def copied(tree: Any) -> Any:
    """Rebuild a tree with a separate handle in each place: an in-place update of one then leaves the others
    unchanged."""
    return rebuilt(tree, handles(nodes_in(tree)))


def call_on_copies(fun: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """Call `fun` on copies of the arguments' handles, as a trace does. In-place updates thus do not change the caller's
    arrays, and each result has its own handle."""
    positional, named = copied((args, kwargs))
    return copied(fun(*positional, **named))


def visit_by_prefix(visit: Callable[[array, Any], None], tree: Any, prefix: Any) -> None:
    """Call `visit` with each array of a tree and its leaf of `prefix`. A leaf of the prefix may stand for a whole list,
    tuple or dict. Raise MLX's ValueErrors if `prefix` is not a prefix of the tree."""
    if isinstance(tree, array):
        visit(tree, prefix)
    elif isinstance(tree, (list, tuple, dict)):
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        if isinstance(prefix, (list, tuple, dict)):
            tuples = isinstance(prefix, tuple) == isinstance(tree, tuple)
            if not tuples or isinstance(prefix, dict) != isinstance(tree, dict) or len(prefix) != len(tree):
                raise ValueError("[tree_map] Additional input tree is not a valid prefix of the first tree.")
            if isinstance(tree, dict) and any(key not in prefix for key in keys):
                raise ValueError("[tree_visit] Tree is not a valid prefix tree of the first tree.")
        else:
            prefix = dict.fromkeys(keys, prefix)
        for key in keys:
            item = tree[key]
            if isinstance(item, array):
                visit(item, prefix[key])
            else:
                visit_by_prefix(visit, item, prefix[key])


def like_tuple(old: tuple, items: list[Any]) -> tuple:
    """Return a tuple of these items with the type of `old`, which may be a named tuple."""
    kind = type(old)
    if kind is tuple:
        return tuple(items)
    return kind(*items) if hasattr(old, "_fields") else kind(items)


class Leaf:
    """A marker for an array in the `structure` of a tree."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


class _Deep:
    """A structure that is nested too deeply to be restored with the normal recursion limit."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def structure(tree: Any) -> Any:
    """Return the tree with markers in place of its arrays, for `restore`."""
    try:
        return _rebuild(tree, repeat(LEAF))
    except RecursionError:
        with raised_recursion_limit():
            return _Deep(_rebuild_in_python(tree, repeat(LEAF)))


def restore(shape: Any, leaves: Iterable[Any]) -> Any:
    """Rebuild a tree from its `structure` and its leaves. Surplus leaves are ignored."""
    if type(shape) is _Deep:
        with raised_recursion_limit():
            return _rebuild_in_python(shape.shape, iter(leaves))
    return _rebuild(shape, iter(leaves))


def rebuilt(tree: Any, leaves: Sequence[Any]) -> Any:
    """Rebuild a tree with these leaves in place of its arrays. Raise StopIteration if there are too few."""
    try:
        return _rebuild(tree, iter(leaves))
    except RecursionError:
        with raised_recursion_limit():
            return _rebuild_in_python(tree, iter(leaves))


def _rebuild_in_python(tree: Any, leaves: Iterator[Any]) -> Any:
    """Rebuild a tree with the next leaf in place of each array or LEAF."""
    if isinstance(tree, (array, Leaf)):
        return next(leaves)
    if isinstance(tree, dict):
        return {key: _rebuild_in_python(item, leaves) for key, item in dict.items(tree)}
    if isinstance(tree, (list, tuple)):
        items = [_rebuild_in_python(item, leaves) for item in tree]
        return items if isinstance(tree, list) else like_tuple(tree, items)
    return tree


class Snapshot:
    """A copy of the contents of all lists and dicts of a tree, to restore if a trace fails."""

    def __init__(self, tree: Any) -> None:
        self._saved: list[tuple[Any, Any]] = []
        try:
            self._save(tree)
        except RecursionError:
            self._saved.clear()
            with raised_recursion_limit():
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
                # `dict.update` is called because a Module's own `update` accepts parameters only
                dict.update(container, content)
            else:
                container[:] = content


_NUMBERS = {int, float}


def _find_in_python(
    container: Any, keys: Sequence[Any], arrays: list[array], slots: list[tuple[Any, Any]], tuples: list[tuple]
) -> list[int] | None:
    """Collect the arrays of a list or dict, and return the positions in `arrays` of those under one of the `keys`.

    For each array, add its slot (container, key) to `slots`. For each tuple that holds arrays, add (container, key,
    tuple, items as a list) to `tuples`. Return None if a leaf under a wanted key is not an array.
    """
    positions: list[int] = []
    for key, item in dict.items(container) if isinstance(container, dict) else enumerate(container):
        before, required = len(arrays), key in keys
        if not _find_one(container, key, item, arrays, slots, tuples, required):
            return None
        if required:
            positions += range(before, len(arrays))
    return positions


def _find_one(
    container: Any, key: Any, item: Any, arrays: list[array], slots: list[tuple[Any, Any]], tuples: list[tuple],
    require_array: bool,
) -> bool:  # fmt: skip
    """Collect the arrays under one key. Return False if a leaf is not an array and `require_array` is set."""
    lists = (arrays, slots, tuples, require_array)
    if isinstance(item, array):
        arrays.append(item)
        slots.append((container, key))
    elif isinstance(item, dict):
        for k, value in dict.items(item):
            if not _find_one(item, k, value, *lists):
                return False
    elif not isinstance(item, (list, tuple)):
        return not require_array
    elif not require_array and {*map(type, item)} <= _NUMBERS:
        return True  # such a list is common in the settings of a layer
    else:
        content, before = item if isinstance(item, list) else list(item), len(arrays)
        for k, value in enumerate(item):
            if not _find_one(content, k, value, *lists):
                return False
        if isinstance(item, tuple) and len(arrays) > before:
            tuples.append((container, key, item, content))
    return True


def _fill_in_python(slots: list[tuple[Any, Any]], leaves: list[array]) -> None:
    """Write an array into each slot (container, key)."""
    for (container, key), leaf in zip(slots, leaves, strict=True):
        container[key] = leaf


def _put_back_in_python(
    slots: list[tuple[Any, Any]], arrays: list[array], leaves: list[array], nodes: list[Node] | None
) -> bool:
    """Write `arrays` back into the slots that still hold `leaves`. Leaves whose node is no longer in `nodes` were
    updated in place and stay, unless `nodes` is None. Return True if a leaf was updated."""
    any_written = False
    for k, ((container, key), old, new) in enumerate(zip(slots, arrays, leaves, strict=True)):
        if nodes is not None and new._node is not nodes[k]:
            any_written = True
            continue
        try:
            if container[key] is new:
                container[key] = old
        except LookupError:
            continue  # the function removed the entry
    return any_written


class TreeSlots:
    """The arrays of lists and dicts, with their positions, so that other arrays can be substituted.

    The substitution is visible through every reference to the same lists and dicts. A tuple that holds arrays is
    replaced by a new one.
    """

    __slots__ = ("_slots", "_tuples", "arrays")

    def __init__(self) -> None:
        self.arrays: list[array] = []
        self._slots: list[tuple[Any, Any]] = []
        self._tuples: list[tuple[Any, Any, tuple, list[Any]]] = []  # a tuple comes after the tuples inside it

    @classmethod
    def of(cls, tree: Any) -> TreeSlots:
        """Return the slots of all arrays of a tree."""
        slots = cls()
        slots.add([tree])
        return slots

    def add(self, container: Any, keys: Sequence[Any] = ()) -> list[int]:
        """Collect the arrays in a list or dict. Return the positions in `arrays` of those under one of the `keys`.
        Raise ValueError if another leaf is under such a key."""
        lists = (self.arrays, self._slots, self._tuples)
        before = [*map(len, lists)]
        try:
            positions = _find(container, keys, *lists)
        except RecursionError:
            for items, count in zip(lists, before, strict=True):
                del items[count:]  # type: ignore[attr-defined]
            with raised_recursion_limit():
                positions = _find_in_python(container, keys, *lists)
        if positions is None:
            raise _not_an_array()
        return positions

    def fill(self, leaves: list[array]) -> list[tuple]:
        """Write other arrays into the slots. Return the tuples that were created for them."""
        fill(self._slots, leaves)
        created = []
        for container, key, old, content in self._tuples:
            container[key] = new = like_tuple(old, content)
            created.append(new)
        return created

    def empty(self, leaves: list[array], created: Sequence[tuple], nodes: list[Node] | None) -> None:
        """Write the original arrays back where `fill` wrote `leaves`. Leaves whose node is no longer in `nodes` were
        updated in place and stay, unless `nodes` is None."""
        any_written = _put_back(self._slots, self.arrays, leaves, nodes)
        for (container, key, old, content), new in zip(self._tuples, created, strict=True):
            try:
                if container[key] is new:
                    container[key] = like_tuple(old, content) if any_written else old
            except LookupError:
                continue


class Substitution:
    """Substitute other arrays in some slots for the duration of a `with` block.

    Afterwards each slot that still holds its substitute gets its array back. Other slots stay as they are: those that
    the user's function assigned to, and those whose array it updated in place, unless the function raised.
    """

    __slots__ = ("_leaves", "_made", "_nodes", "_slots")

    def __init__(self, slots: TreeSlots, leaves: list[array]) -> None:
        self._slots = slots
        self._leaves = leaves
        self._nodes = nodes_of(leaves)

    def __enter__(self) -> None:
        self._made = self._slots.fill(self._leaves)

    def __exit__(self, kind: type | None, *exc: object) -> None:
        self._slots.empty(self._leaves, self._made, self._nodes if kind is None else None)


if native:
    native.connect_trees(array, Leaf, like_tuple)
_flatten: Callable[..., bool] = native.flatten if native else _flatten_in_python
_rebuild: Callable[..., Any] = native.rebuild if native else _rebuild_in_python
_find: Callable[..., list[int] | None] = native.find if native else _find_in_python
fill: Callable[..., None] = native.fill if native else _fill_in_python
_put_back: Callable[..., bool] = native.put_back if native else _put_back_in_python
