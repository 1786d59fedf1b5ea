"""The pushforward of linear ops: they move tangents in the same way as values.

Their pullbacks move a cotangent back, and sum it if an element was moved to several places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, PUSHFORWARD, READS_NOTHING, RESIDUALS

__all__ = ["linear", "register_linear"]


def register_linear(*ops: Op) -> None:
    """Register the pushforward and the residuals of ops that are linear in all inputs."""
    for op in ops:
        PUSHFORWARD[op] = linear(op)
        RESIDUALS[op] = READS_NOTHING


def linear(op: Op, count: int | None = None) -> Callable[..., Any]:
    """Return the pushforward of an op that is linear in its first `count` inputs, or in all inputs for None.

    The pushforward applies the op to the tangents.
    """
    rule = HOST[op]

    def push(tangents: Any, y: Any, params: tuple, *inputs: Any) -> Any:
        moved = [np.zeros(x.shape, x.dtype) if t is None else t for t, x in zip(tangents, inputs[:count], strict=False)]
        return rule(_aval(y), params, *moved, *inputs[len(moved) :])

    return push


def _aval(y: Any) -> Aval | tuple[Aval, ...]:
    if isinstance(y, tuple):
        return tuple([_aval(one) for one in y])  # type: ignore[misc]
    return aval(y.shape, from_numpy(y.dtype))  # type: ignore[arg-type]
