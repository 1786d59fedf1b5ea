"""`eval` and `async_eval`: give the arrays of trees their values."""

from __future__ import annotations

from typing import Any

from mxcompat._graph.evaluate import evaluate, wait

from .trees import flatten

__all__ = ["async_eval", "eval"]


def eval(*args: Any) -> None:
    """Evaluate arrays, or trees of arrays, and wait until they are there. Other leaves are ignored.

    Raises:
        ValueError: for an array inside a function under `vmap` or `compile`.

    Example:
        >>> x = mx.ones((2,)) + 1
        >>> mx.eval(x)
    """
    nodes = [x._node for x in flatten(args)]
    evaluate(nodes)
    wait(nodes)


def async_eval(*args: Any) -> None:
    """Like `eval`, without waiting: the work goes on in the background.

    Example:
        >>> x = mx.ones((2,)) + 1
        >>> mx.async_eval(x)
    """
    evaluate([x._node for x in flatten(args)])
