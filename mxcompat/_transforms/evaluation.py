"""`eval` and `async_eval`: evaluate the arrays in trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.trace_stack import modes_of, readable
from mxcompat._graph.run.deferred import read_ahead, split_deferred
from mxcompat._graph.run.evaluate import evaluate, wait

from .trees import nodes_in

__all__ = ["async_eval", "eval"]


def eval(*args: Any) -> None:
    """Evaluate arrays, or trees of arrays, and wait for the values. Leaves that are not arrays are ignored. For large
    arrays of a file, the reading is started; their first use waits for it.

    Raises:
        RuntimeError: if the file of an array was changed after `load`.
        ValueError: for an array inside a function under `vmap` or `compile`.

    Example:
        >>> x = mx.ones((2,)) + 1
        >>> mx.eval(x)
    """
    nodes, leaves = split_deferred(_nodes(args))
    wait(*evaluate(nodes))
    read_ahead(leaves)


def async_eval(*args: Any) -> None:
    """Start the evaluation of arrays, or trees of arrays, without waiting for the values.

    Raises:
        ValueError: for an array that depends on the arguments of a function under a transform.

    Example:
        >>> x = mx.ones((2,)) + 1
        >>> mx.async_eval(x)
    """
    nodes: Sequence[Node] = _nodes(args)
    modes = modes_of(nodes)
    if modes and (modes != {"call"} or not readable()):  # `checkpoint` alone does not change values
        raise ValueError("[async_eval] Not allowed inside a graph transformation.")
    nodes, leaves = split_deferred(nodes)
    evaluate(nodes)
    read_ahead(leaves)


def _nodes(args: tuple) -> list[Node]:
    return nodes_in(args[0] if len(args) == 1 else args)
