"""Bodies of loops and branches: the user's functions, run once on placeholders and closed into Programs.

A body may draw random numbers without a key. The implicit key is then part of the carry, so the numbers are the same as
if Python ran the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.construct import node_of
from mxcompat._array.operands import node as number_node
from mxcompat._graph.ir.aval import Aval, aval, uint32
from mxcompat._graph.ir.capture import PLACEHOLDER, Body, Capture
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.program import Program
from mxcompat._ops.random.state import state as random_state

from ..trees import like_tuple, nodes_in, restore, structure
from .customs import close_specialized, modes_around

__all__ = ["Traced", "arrays_in", "check_alike", "traced", "with_paths"]

KEY = aval((2,), uint32)
"""The aval of the implicit random key."""


class Traced(NamedTuple):
    """A user's function, run on placeholders.

    Args:
        program: Its inputs are the implicit key (if `draws`), the arguments and the captured nodes. Its outputs are the
            new key (if `draws`) and the results.
        captured: nodes from outside the function.
        value: the structure of the returned tree.
        draws: whether the function draws from the implicit key.
        key: the body from the implicit key to the new key, if the new key depends on nothing else.
    """

    program: Program
    captured: list[Node]
    value: Any
    draws: bool
    key: Body | None

    def keyed(self, returns: bool = True) -> Traced:
        """Return a version of this body that takes the implicit key, even if it draws no numbers. If `returns`, the key
        is an output, too."""
        if self.draws:
            return self
        with Capture([KEY, *self.program.in_avals]) as capture:
            key, *inputs = capture.placeholders
            body = capture.close([*([key] if returns else []), *self.program.rebuild(inputs)])
        return self._replace(program=body.program, captured=[*self.captured, *body.captured])


def traced(
    fun: Callable[..., Any], arguments: Any, avals: Sequence[Aval], reals: Sequence[Node], convert: Callable[[Any], Any]
) -> Traced:
    """Run a function on placeholders.

    Args:
        fun: the user's function.
        arguments: the structure of the tuple of its arguments.
        avals: the avals of the arrays in the arguments.
        reals: the nodes that the placeholders stand for, or are slices of. They tell which transforms enclose the call.
        convert: a function to apply to the returned value.
    """
    with Capture([KEY, *avals]) as capture:
        first, *others = capture.placeholders
        before = random_state[0]
        random_state[0] = wrap(first)
        try:
            value = convert(fun(*restore(arguments, map(wrap, others))))
            key = random_state[0]._node
        finally:
            random_state[0] = before
        outputs = nodes_in(value)
        if key is first:
            capture.placeholders = others
            body = _closed(capture, outputs, reals)
            return Traced(body.program, body.captured, structure(value), False, None)
        body = _closed(capture, [key, *outputs], reals)
        capture.placeholders = [first]
        alone = capture.close([key])
        own = not any(op is PLACEHOLDER for op, _, _ in alone.program.instructions)
    return Traced(body.program, body.captured, structure(value), True, alone if own else None)


def _closed(capture: Capture, outputs: Sequence[Node], reals: Sequence[Node]) -> Body:
    modes = modes_around(reals)
    if capture.is_enclosed and not modes:  # the captured nodes may depend on a transform even if `reals` do not
        modes = modes_around([n for n in capture.close(outputs).captured if n.trace < capture.id])
    return close_specialized(capture, outputs, modes)


def arrays_in(tree: Any, function: str, what: str, path: str = "") -> Any:
    """Replace the numbers in a tree by arrays.

    Raises:
        TypeError: for a leaf that is not an array, a number or None.
    """
    if isinstance(tree, array) or tree is None:
        return tree
    if isinstance(tree, (bool, int, float, complex)):
        return wrap(number_node(tree))
    if isinstance(tree, (np.ndarray, np.generic)):
        return wrap(node_of(np.asarray(tree)))
    if isinstance(tree, dict):
        return {k: arrays_in(v, function, what, f"{path}[{k!r}]") for k, v in tree.items()}
    if isinstance(tree, list):
        return [arrays_in(v, function, what, f"{path}[{k}]") for k, v in enumerate(tree)]
    if isinstance(tree, tuple):
        return like_tuple(tree, [arrays_in(v, function, what, f"{path}[{k}]") for k, v in enumerate(tree)])
    raise TypeError(
        f"[{function}] {what}{path} must be an array, a number, None, or a tree of these, not {type(tree).__name__}."
    )


def with_paths(tree: Any, path: str) -> Iterator[tuple[str, array]]:
    """Yield the arrays of a tree, each with its path."""
    if isinstance(tree, array):
        yield path, tree
    elif isinstance(tree, dict):
        for k, v in tree.items():
            yield from with_paths(v, f"{path}[{k!r}]")
    elif isinstance(tree, (list, tuple)):
        for k, v in enumerate(tree):
            yield from with_paths(v, f"{path}[{k}]")


def check_alike(function: str, what: str, old: Any, new: Any, before: str, after: str) -> list[array]:
    """Return the arrays of one tree in the order of another.

    Args:
        what: the name of the trees.
        before, after: say for the message where each tree comes from.

    Raises:
        ValueError: if the trees' arrays differ in place, shape or dtype; the message names the first difference.
    """
    old_arrays, new_arrays = dict(with_paths(old, what)), dict(with_paths(new, what))
    for path in {**old_arrays, **new_arrays}:
        kinds = [str(arrays[path]._node.aval) if path in arrays else "no array" for arrays in (old_arrays, new_arrays)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"[{function}] {what} must have the same arrays {before} and {after}, but {path} is {kinds[0]} "
                f"{before} and {kinds[1]} {after}."
            )
    return [new_arrays[path] for path in old_arrays]
