"""`checkpoint`: recompute intermediates in the backward pass to save memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.array import handles, wrap_all
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.trace_stack import transforms_of

from .calls import CHECKPOINT
from .functions import check_callable, transformed
from .programs.split_at_effects import called
from .trees import call_on_copies, nodes_in, rebuilt

__all__ = ["checkpoint"]


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of `fun` whose intermediates are recomputed for the gradient, not kept in memory.

    Args:
        fun: takes and returns trees of arrays. Gradients flow to its arguments only: arrays that it captures are
            constants. Under `vmap`, `checkpoint` has no effect and captured arrays have gradients.

    Returns:
        A function that takes the arguments of `fun` and returns the same values.

    Raises:
        TypeError: if `fun` cannot be called.

    Example:
        >>> mx.grad(lambda x: mx.checkpoint(mx.exp)(x).sum())(mx.array([0.0]))
        array([1], dtype=float32)
    """
    check_callable(fun, "checkpoint")

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = (args, kwargs)
        reals = nodes_in(arguments)
        around = transforms_of(reals)
        if around and around[0].mode == "vmap":
            return call_on_copies(fun, args, kwargs)
        with Capture(reals) as capture:
            inner_args, inner_kwargs = rebuilt(arguments, handles(capture.placeholders))
            value = fun(*inner_args, **inner_kwargs)
            body = capture.close(nodes_in(value))
        node = called(CHECKPOINT, (body.program, len(reals)), (*reals, *body.captured))
        return rebuilt(value, wrap_all(node))

    return transformed(fun, call)
