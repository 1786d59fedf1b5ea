"""NumPy rules of writes. A write copies the array first, unless the buffer belongs to this write alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, OVERWRITE, Rule

__all__ = ["writes"]


def writes(op: Op) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the host rule of `op`, both in place and out of place.

    The function overwrites its first input. The rule that may not overwrite passes it a copy.
    """

    def register(rule: Rule) -> Rule:
        OVERWRITE[op] = lambda out, params, place, *inputs: rule(out, params, *inputs)
        HOST[op] = lambda out, params, x, *inputs: rule(out, params, np.array(x, order="C"), *inputs)
        return rule

    return register
