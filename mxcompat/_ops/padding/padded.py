"""Arrays that grow by a few entries at every step, padded to the room of the buffer they are read from.

XLA's shapes are static, so whatever is read as `buffer[..., :n, :]` would be compiled again for every n. Such a read
has a *padded node*: the buffer itself, of which the first n entries count and the rest is anything. A rule per op
(`rules`) says how a padded node follows from those of the inputs, and at a *contraction*, where the axis is summed
over, the rest is blanked out: the result is that of the read, and n a number that may vary without compiling.

Contractions are noted when they are called (`pad_contraction`) and rewritten all at once before the next evaluation, so
that they share their padded nodes. Bodies of transforms keep their exact shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import TRACED, Node, tracers
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import CONTRACTION, HOST, PADDING
from mxcompat._graph.run.evaluate import pre_eval_hooks
from mxcompat._jax import jnp, lax

from ..define import op
from ..indexing.gather import SLICE
from ..indexing.plan import place

__all__ = ["Exact", "Padding", "Paddings", "again", "axis_read", "build", "pad_contraction"]


class Exact(Exception):
    """There is no padded node: what asked for it keeps its exact shape."""


class Padding:
    """The padded nodes of arrays with an axis of n entries.

    Called with a node and an axis (counted from the front) of extent n, it gives the padded node, which has `room`
    entries there instead. Raises Exact where there is none.

    Args:
        n: how many entries count; more than 1, as an axis of size 1 may be broadcast.
        room: how many there are.
    """

    def __init__(self, n: int, room: int) -> None:
        self.n = n
        self.room = room
        self.length = place(n)
        self._padded: dict[tuple[Node, int], Node] = {}
        self._depth = 0

    def __call__(self, node: Node, axis: int) -> Node:
        padded = self._padded.get((node, axis))
        if padded is None:
            rule = PADDING.get(node.op)  # type: ignore[arg-type]
            if rule is None or self._depth == policy.PADDED_DEPTH:
                raise Exact
            self._depth += 1
            try:
                padded = self._padded[node, axis] = rule(node, axis, self)
            finally:
                self._depth -= 1
            assert padded.aval.shape == self.shape(node, axis), f"{node.op}: {padded.aval} for {node.aval}"
        return padded

    def shape(self, node: Node, axis: int) -> tuple[int, ...]:
        """The shape of the padded node."""
        shape = node.aval.shape
        return (*shape[:axis], self.room, *shape[axis + 1 :])

    def blank(self, node: Node, axis: int, value: float) -> Node:
        """The padded node with a value for the entries that do not count."""
        return build(BLANK, (self(node, axis), self.length), (axis, value), node.where)


class Paddings(dict[tuple[int, int], Padding]):
    """The Padding for each extent and room, shared by all contractions that are rewritten at the same time."""

    def __missing__(self, key: tuple[int, int]) -> Padding:
        self[key] = made = Padding(*key)
        return made

    def reading(self, node: Node, axis: int) -> Padding:
        """The one for an axis that comes from the first entries of a buffer. Raises Exact if it does not."""
        n = node.aval.shape[axis]
        buffer = _buffer(node, n)
        if n < 2 or not buffer:
            raise Exact
        # Of a long buffer a power of two of entries are read, so that its empty rest costs nothing.
        return self[n, min(buffer, max(policy.PADDED_ROOM, 1 << (n - 1).bit_length()))]


def _buffer(node: Node, n: int) -> int:
    """The size of the axis of which a node, or what it was made of, is a read of the first n; 0 if none is near."""
    for _ in range(policy.PADDED_NEAR):
        if node.op is SLICE:
            plan = node.params[0]
            found = [axis_read(plan, k) for k, entry in enumerate(plan) if entry == (n, 1, 0)]
            return node.inputs[0].aval.shape[found[0]] if found else 0
        if node.op not in PADDING or not node.inputs:
            return 0
        node = node.inputs[0]
    return 0


def axis_read(plan: Sequence[Any], k: int) -> int:
    """The axis that entry k of a plan without arrays is for."""
    return k - sum(entry == "+" for entry in plan[:k])


def build(op: Op, inputs: tuple[Node, ...], params: tuple, where: Any) -> Node:
    """A new node outside any transform, made at the place that `where` says."""
    key = (params, *[i.aval for i in inputs])
    return Node(op, params, inputs, op.memo.get(key) or op.infer(key), 0, None, where)


def again(node: Node, inputs: tuple[Node, ...], params: tuple | None = None) -> Node:
    """The node's op on other inputs."""
    return build(node.op, inputs, node.params if params is None else params, node.where)  # type: ignore[arg-type]


def _blank(x: Any, n: Any, *, axis: int, value: float) -> Any:
    place = lax.broadcasted_iota(np.int32, (x.shape[axis], *[1] * (x.ndim - axis - 1)), 0)
    return jnp.where(place < n, x, jnp.asarray(value, x.dtype))


def _blank_aval(x: Aval, n: Aval, *, axis: int, value: float) -> Aval:
    return x


BLANK = op("blank", _blank, _blank_aval, ("axis", "value"))
"""The first n entries along an axis, and a value in the place of the others. Inputs: the array, n."""


@HOST.of(BLANK)
def _blank_on_host(out: Aval, params: tuple, x: Any, n: Any) -> Any:
    axis, value = params
    filled = x.copy()
    filled[(slice(None),) * axis + (slice(int(n), None),)] = value
    return filled


_noted: list[ref[Node]] = []
"""What nobody holds any more is never evaluated."""


def pad_contraction(node: Node) -> None:
    """Have a contraction rewritten before it is evaluated, if it can be and is not part of a transform's body."""
    if not node.trace:
        _noted.append(ref(node))
        if not len(_noted) % policy.NOTED:
            _noted[:] = [noted for noted in _noted if noted() is not None]
        if not pre_eval_hooks:
            pre_eval_hooks.append(_rewrite)


def _rewrite() -> None:
    """Rewrite the contractions that were noted."""
    noted = _noted[:]
    del _noted[: len(noted)]
    nodes = [node for node in (found() for found in noted) if node is not None]
    nodes = [node for node in nodes if node.value is None and node.op in CONTRACTION]
    if tracers and _any_traced(nodes):
        return  # JAX may differentiate it: what does not count would have to be finite
    paddings = Paddings()
    for node in nodes:
        try:
            inputs, params = CONTRACTION[node.op](node, paddings)  # type: ignore[index]
        except Exact:
            continue
        assert again(node, inputs, params).aval is node.aval
        node.become(node.op, params, inputs)  # type: ignore[arg-type]


def _any_traced(nodes: list[Node]) -> bool:
    """Whether there is a JAX tracer among what the nodes are made of."""
    seen: set[Node] = set()
    found = [*nodes]
    while found:
        node = found.pop()
        if node.op is TRACED:
            return True
        if node.value is None and node not in seen:
            seen.add(node)
            found += node.inputs
    return False
