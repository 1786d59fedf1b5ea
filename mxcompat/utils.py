"""Trees: nested lists, tuples and dictionaries with anything else as leaves (MLX's ``mlx.utils``).

``mxcompat.nn`` and ``mxcompat.optimizers`` use these functions to walk through parameters, gradients and optimizer
state. Dictionaries keep their insertion order. Nothing here touches arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, overload

__all__ = ["tree_flatten", "tree_map", "tree_map_with_path", "tree_merge", "tree_reduce", "tree_unflatten"]


def _rebuild(sequence: Any, children: Iterator[Any]) -> Any:
    """Return a list or tuple with ``children`` and the same type as ``sequence`` (named tuples included)."""
    kind = type(sequence)
    return kind(*children) if hasattr(sequence, "_fields") else kind(children)


def tree_map(fn: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None) -> Any:
    """Apply ``fn`` to every leaf and keep the structure.

    Args:
        fn: called as ``fn(leaf, *leaves_at_the_same_place_of_rest)``.
        tree: the tree that sets the structure.
        rest: further trees, each with at least the places of ``tree``.
        is_leaf: a predicate that stops the walk early. A subtree for which it is true is passed to ``fn`` whole.

    Returns:
        A tree like ``tree`` with the values that ``fn`` returned.

    Raises:
        KeyError, IndexError: if a tree of ``rest`` lacks a place.

    Example:
        >>> mx.utils.tree_map(lambda x, y: x + y, {"a": [1, 2]}, {"a": [10, 20]})
        {'a': [11, 22]}
    """
    if is_leaf is not None and is_leaf(tree):
        return fn(tree, *rest)
    if not rest and is_leaf is None:
        return _map_one(fn, tree)
    if isinstance(tree, dict):
        return {k: tree_map(fn, v, *(r[k] for r in rest), is_leaf=is_leaf) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        mapped = (tree_map(fn, v, *(r[i] for r in rest), is_leaf=is_leaf) for i, v in enumerate(tree))
        return _rebuild(tree, mapped)
    return fn(tree, *rest)


def _map_one(fn: Callable, tree: Any) -> Any:
    """Return ``tree_map`` of one tree."""
    if isinstance(tree, dict):
        return {k: _map_one(fn, v) if isinstance(v, (dict, list, tuple)) else fn(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return _rebuild(tree, (_map_one(fn, v) for v in tree))
    return fn(tree)


def tree_map_with_path(
    fn: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None, path: Any | None = None
) -> Any:
    """Apply ``fn`` to the dotted path and the value of every leaf, and keep the structure.

    Args:
        fn: called as ``fn(path, leaf, *others)``; the path of a bare leaf is ``path`` itself.
        tree: the tree that sets the structure.
        rest: further trees with at least the places of ``tree``.
        is_leaf: a predicate that stops the walk at subtrees for which it is true.
        path: a prefix for all paths.

    Returns:
        A tree like ``tree`` with the values that ``fn`` returned.

    Raises:
        KeyError, IndexError: if a tree of ``rest`` lacks a place.

    Example:
        >>> mx.utils.tree_map_with_path(lambda path, x: f"{path}={x}", {"a": [1, 2]})
        {'a': ['a.0=1', 'a.1=2']}
    """
    if is_leaf is not None and is_leaf(tree):
        return fn(path, tree, *rest)
    if not isinstance(tree, (dict, list, tuple)):
        return fn(path, tree, *rest)
    prefix = f"{path}." if path else ""

    def visit(key: Any, child: Any) -> Any:
        others = (r[key] for r in rest)
        return tree_map_with_path(fn, child, *others, is_leaf=is_leaf, path=f"{prefix}{key}")

    if isinstance(tree, dict):
        return {k: visit(k, v) for k, v in tree.items()}
    return _rebuild(tree, (visit(i, v) for i, v in enumerate(tree)))


@overload
def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable | None = None,
    destination: list[tuple[str, Any]] | None = None,
) -> list[tuple[str, Any]]: ...
@overload
def tree_flatten(
    tree: Any, prefix: str = "", is_leaf: Callable | None = None, *, destination: dict[str, Any]
) -> dict[str, Any]: ...
def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable | None = None,
    destination: list[tuple[str, Any]] | dict[str, Any] | None = None,
) -> list[tuple[str, Any]] | dict[str, Any]:
    """List the leaves of a tree with their dotted paths.

    Args:
        tree: the tree to flatten; a bare leaf has the path ``""``.
        prefix: a prefix for each path. Its first character is dropped, as in MLX (write ``".model"``).
        is_leaf: a predicate that stops the walk at subtrees for which it is true.
        destination: a list or dictionary to extend and return; by default a new list.

    Returns:
        ``destination``: ``(path, leaf)`` pairs, or ``{path: leaf}``.

    Raises:
        ValueError: if ``destination`` is neither a list nor a dictionary.

    Example:
        >>> mx.utils.tree_flatten({"a": [1, 2], "b": 3})
        [('a.0', 1), ('a.1', 2), ('b', 3)]
    """
    if destination is None:
        destination = []
    if not isinstance(destination, (list, dict)):
        raise ValueError("Destination should be either a list or a dictionary or None")
    pairs: list[tuple[str, Any]] = destination if isinstance(destination, list) else []

    _walk(tree, prefix, is_leaf, pairs)
    if isinstance(destination, dict):
        destination.update(pairs)
    return destination


def _walk(node: Any, path: str, is_leaf: Callable | None, pairs: list[tuple[str, Any]]) -> None:
    """Add the leaves to `pairs`. (A closure that calls itself would keep them alive until the next garbage
    collection.)"""
    if is_leaf is not None and is_leaf(node):
        pairs.append((path[1:], node))
    elif isinstance(node, dict):
        for key, child in node.items():
            _walk(child, f"{path}.{key}", is_leaf, pairs)
    elif isinstance(node, (list, tuple)):
        for index, child in enumerate(node):
            _walk(child, f"{path}.{index}", is_leaf, pairs)
    else:
        pairs.append((path[1:], node))


def tree_unflatten(tree: list[tuple[str, Any]] | dict[str, Any]) -> Any:
    """Build a tree from the list of ``tree_flatten``.

    Args:
        tree: ``(path, leaf)`` pairs or ``{path: leaf}``.

    Returns:
        Nested dictionaries and lists; tuples become lists. Keys that are distinct numbers give a list, in which missing
        places are ``{}``.

    Example:
        >>> mx.utils.tree_unflatten([("a.0", 1), ("a.1", 2), ("b", 3)])
        {'a': [1, 2], 'b': 3}
    """
    pairs: Any = tree.items() if isinstance(tree, dict) else tree
    if len(pairs) == 1:
        ((path, leaf),) = pairs
        if path == "":
            return leaf
    groups: dict[str, list[tuple[str, Any]]] = {}
    for path, leaf in pairs:
        head, *tail = path.split(".", 1)
        groups.setdefault(head, []).append((tail[0] if tail else "", leaf))
    try:
        places = {int(key): key for key in groups}
    except ValueError:
        places = {}
    if len(places) < len(groups):  # one key is no number, or two keys such as "1" and "01" are the same number
        return {key: tree_unflatten(group) for key, group in groups.items()}
    children: list[Any] = []
    for index, key in sorted(places.items()):
        children.extend({} for _ in range(index - len(children)))
        children.append(tree_unflatten(groups[key]))
    return children


def tree_reduce(fn: Callable, tree: Any, initializer: Any = None, is_leaf: Callable | None = None) -> Any:
    """Fold the leaves, in order, into one value.

    Args:
        fn: called as ``fn(accumulated, leaf)``.
        tree: the tree whose leaves are folded.
        initializer: the first accumulated value; ``None`` starts from the first leaf.
        is_leaf: a predicate that stops the walk at subtrees for which it is true.

    Returns:
        The accumulated value (``initializer`` if there are no leaves).

    Example:
        >>> mx.utils.tree_reduce(lambda total, x: total + x, {"a": [1, 2], "b": 3}, 0)
        6
    """
    if is_leaf is None or not is_leaf(tree):
        children = None
        if isinstance(tree, dict):
            children = tree.values()
        elif isinstance(tree, (list, tuple)):
            children = tree
        if children is not None:
            for child in children:
                initializer = tree_reduce(fn, child, initializer, is_leaf)
            return initializer
    return tree if initializer is None else fn(initializer, tree)


def _is_empty(tree: Any) -> bool:
    return isinstance(tree, (dict, list, tuple)) and len(tree) == 0


def tree_merge(tree_a: Any, tree_b: Any, merge_fn: Callable | None = None) -> Any:
    """Join two trees that hold values at different places.

    Args:
        tree_a: the first tree; ``None`` and empty containers count as no value.
        tree_b: the second tree.
        merge_fn: called as ``merge_fn(a, b)`` where both hold a value.

    Returns:
        A tree with the places of both.

    Raises:
        ValueError: if both trees hold a value at some place and there is no ``merge_fn``, or if empty containers of two
            types meet.

    Example:
        >>> mx.utils.tree_merge({"a": 1, "b": [None, 2]}, {"b": [3], "c": 4})
        {'a': 1, 'b': [3, 2], 'c': 4}
    """
    if _is_empty(tree_a) and _is_empty(tree_b):
        if type(tree_a) is type(tree_b):
            return type(tree_a)()
        raise ValueError(f"Cannot merge {type(tree_a).__name__} with {type(tree_b).__name__}")
    tree_a = None if _is_empty(tree_a) else tree_a
    tree_b = None if _is_empty(tree_b) else tree_b
    if tree_a is None and tree_b is not None:
        return tree_b
    if tree_b is None and tree_a is not None:
        return tree_a
    if isinstance(tree_a, (list, tuple)) and isinstance(tree_b, (list, tuple)):
        return _rebuild(tree_a, (tree_merge(a, b, merge_fn) for a, b in zip_longest(tree_a, tree_b)))
    if isinstance(tree_a, dict) and isinstance(tree_b, dict):
        merged = {k: tree_merge(v, tree_b.get(k), merge_fn) for k, v in tree_a.items()}
        merged.update((k, tree_merge(None, v, merge_fn)) for k, v in tree_b.items() if k not in tree_a)
        return merged
    if merge_fn is None:
        raise ValueError("Trees contain elements at the same locations but no merge function was provided")
    return merge_fn(tree_a, tree_b)
