"""Capture: run the user's Python on placeholders and close what it built into a Program.

Every transform starts here. `Capture` is a context: within it, nodes that depend on the placeholders carry its trace
id; `close` makes the Program; leaving it, also by an exception, forgets the trace.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from .liveness import shown
from .node import ITEM, PLACEHOLDER, Node, new_trace
from .op import Op
from .program import Program, intern, linearise

__all__ = ["ALIAS", "Capture", "oldest_trace", "redirect"]

ALIAS = Op("alias", lambda x: x, lambda a: a)
"""The op of a placeholder that stands for a real array and may be evaluated (`grad`, `vjp`, `jvp`, `checkpoint`)."""

_NO_TRACE = 1 << 62


class _Traces(threading.local):
    def __init__(self) -> None:
        self.live: list[int] = []


_traces = _Traces()


def oldest_trace() -> int:
    """The id of the outermost capture under way in this thread; larger than any id where there is none."""
    live = _traces.live
    return live[0] if live else _NO_TRACE


class Capture:
    """A capture under way.

    Args:
        reals: one node for each argument of the function.
        avals: what the placeholders look like; by default like `reals`.
        valued: whether placeholders are aliases of `reals`, which can be evaluated, or have no value.
    """

    def __init__(self, reals: Sequence[Node], avals: Sequence[Any] | None = None, *, valued: bool) -> None:
        self.id = new_trace()
        if valued:
            self.placeholders = [Node(ALIAS, (), (n,), n.aval, self.id, n.value) for n in reals]
        else:
            shapes = avals if avals is not None else [n.aval for n in reals]
            self.placeholders = [Node(PLACEHOLDER, (), (), a, self.id) for a in shapes]

    def __enter__(self) -> Capture:
        _traces.live.append(self.id)
        return self

    def __exit__(self, *exc: object) -> None:
        _traces.live.remove(self.id)

    def close(self, outputs: Sequence[Node]) -> tuple[Program, list[Node]]:
        """The Program from the placeholders, then the captured nodes, to `outputs`; and the captured nodes."""
        linear = linearise(outputs, self.id, self.placeholders)
        program = intern(linear, tuple([linear.slots[n] for n in outputs]))
        return program, linear.leaves[len(self.placeholders) :]

    def close_keeping(self, outputs: list[Node]) -> tuple[Program, list[Node], list[Node]]:
        """Like `close`, with the body nodes that something outside still shows as further outputs.

        The caller must hold no reference to a body node but through `outputs`, and must `redirect` the kept nodes
        to the node it makes.
        """
        linear = linearise(outputs, self.id, self.placeholders)
        known = {linear.slots[n] for n in outputs}
        kept = [linear.order[k] for k in shown(linear) if k not in known and linear.order[k].value is None]
        roots = [*outputs, *kept]
        program = intern(linear, tuple([linear.slots[n] for n in roots]))
        return program, linear.leaves[len(self.placeholders) :], kept


def redirect(kept: Sequence[Node], node: Node, first: int) -> None:
    """Let each kept node be an output of `node` from now on, starting at output `first`."""
    for k, old in enumerate(kept):
        old.op = ITEM
        old.params = (first + k,)
        old.inputs = (node,)
        old.trace = node.trace
