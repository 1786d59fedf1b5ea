"""Arrays that grow by a few entries at every step, padded to the size of the buffer that they are read from.

XLA's shapes are static, so a read such as `buffer[..., :n, :]` would be compiled again for every n. Instead, such a
read gets a *padded node*: the whole buffer, whose first n entries are valid. The other entries may hold anything. A
PADDING rule for each op derives its padded node from those of the inputs. At a *contraction*, where the axis
is summed over, the invalid entries are replaced by a neutral value. The result is that of the exact read, and n is a
runtime number that does not cause a compilation.

Contractions are recorded when they are called (`pad_contraction`) and rewritten together before the next evaluation, so
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
from mxcompat._graph.ir.rules import CONTRACTION, PADDING
from mxcompat._graph.run.evaluate import pre_eval_hooks
from mxcompat._jax import jnp, lax

from ..define import op
from ..indexing.gather import SLICE
from ..indexing.plan import place
from ..indexing.room import PREFIX, padded_size

__all__ = [
    "BLANK", "Exact", "Padding", "Paddings", "again", "axis_read", "build", "check_matrices", "check_rows",
    "pad_contraction", "stretched",
]  # fmt: skip


class Exact(Exception):
    """Raised if an array has no padded node, so that the caller must use the exact shape."""


class Padding:
    """The padded nodes of arrays with an axis of n entries.

    A call with a node and an axis (counted from the front) of size n returns the padded node, whose axis has `room`
    entries. It raises Exact if there is none.

    Args:
        n: the number of valid entries; more than 1, as an axis of size 1 may be broadcast.
        room: the number of all entries.
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
            if rule is None or self._depth == policy.FEW_INSTRUCTIONS:
                raise Exact
            self._depth += 1
            try:
                padded = self._padded[node, axis] = rule(node, axis, self)
            finally:
                self._depth -= 1
            assert padded.aval.shape == self.shape(node, axis), f"{node.op}: {padded.aval} for {node.aval}"
        return padded

    def shape(self, node: Node, axis: int) -> tuple[int, ...]:
        """Return the shape of the padded node."""
        shape = node.aval.shape
        return (*shape[:axis], self.room, *shape[axis + 1 :])

    def blank(self, node: Node, axis: int, value: float) -> Node:
        """Return the padded node with `value` in the invalid entries."""
        return build(BLANK, (self(node, axis), self.length), (axis, value), node.where)


class Paddings(dict[tuple[int, int], Padding]):
    """The `Padding` for each size and room, shared by all contractions that are rewritten together."""

    def __missing__(self, key: tuple[int, int]) -> Padding:
        self[key] = padding = Padding(*key)
        return padding

    def reading(self, node: Node, axis: int) -> Padding:
        """Return the `Padding` of an axis that comes from the first entries of a buffer. Raises Exact if it does
        not."""
        n = node.aval.shape[axis]
        buffer = _buffer(node, n)
        if n < 2 or not buffer:
            raise Exact
        # Read only the first entries of a long buffer, so that its empty rest costs little.
        return self[n, min(buffer, padded_size(n, node.aval, axis))]


def _buffer(node: Node, n: int) -> int:
    """Return the size of the buffer axis whose first n entries a node reads.

    The read may be the node itself, or among the first inputs above it. Return 0 if no such read is near.
    """
    for _ in range(policy.PADDED_NEAR):
        if node.op is PREFIX:
            axis, size = node.params
            return node.inputs[0].aval.shape[axis] if size == n else 0
        if node.op is SLICE:
            plan = node.params[0]
            axes = [axis_read(plan, k) for k, entry in enumerate(plan) if entry == (n, 1, 0)]
            return node.inputs[0].aval.shape[axes[0]] if axes else 0
        if node.op not in PADDING or not node.inputs:
            return 0
        node = node.inputs[0]
    return 0


def axis_read(plan: Sequence[Any], k: int) -> int:
    """Return the axis to which entry k of a plan without index arrays applies."""
    return k - sum(entry == "+" for entry in plan[:k])


def build(op: Op, inputs: tuple[Node, ...], params: tuple, where: Any) -> Node:
    """Return a new node outside any transform. `where` is its source location."""
    key = (params, *[i.aval for i in inputs])
    return Node(op, params, inputs, op.memo.get(key) or op.infer(key), 0, None, where)


def again(node: Node, inputs: tuple[Node, ...], params: tuple | None = None) -> Node:
    """Return a node with the same op for other inputs."""
    return build(node.op, inputs, node.params if params is None else params, node.where)  # type: ignore[arg-type]


def stretched(node: Node, axis: int, pad: Padding) -> Node:
    """Return an operand that is broadcast, padded along an axis counted from the end."""
    k = axis + node.aval.ndim
    return node if k < 0 or node.aval.shape[k] == 1 else pad(node, k)


def check_matrices(*nodes: Node) -> None:
    """Raise Exact for products that have no padded node: of vectors, and of a matrix and several quantized
    matrices."""
    if any(node.aval.ndim < 2 for node in nodes) or nodes[0].aval.ndim == 2 < nodes[-1].aval.ndim:
        raise Exact


def check_rows(queries: Node, pad: Padding) -> None:
    """Raise Exact if there are as many queries as keys: this is a whole prompt, and the next prompt has another shape
    anyway."""
    if queries.aval.shape[-2] == pad.n:
        raise Exact


def _blank(x: Any, n: Any, *, axis: int, value: float) -> Any:
    place = lax.broadcasted_iota(np.int32, (x.shape[axis], *[1] * (x.ndim - axis - 1)), 0)
    return jnp.where(place < n, x, jnp.asarray(value, x.dtype))


def _blank_aval(x: Aval, n: Aval, *, axis: int, value: float) -> Aval:
    return x


BLANK = op("blank", _blank, _blank_aval, ("axis", "value"))
"""The first n entries along an axis, with a value in place of the others. Inputs: the array, n."""


_noted: list[ref[Node]] = []
"""Weak references to recorded contractions: a contraction without other references is never evaluated."""


def pad_contraction(node: Node) -> None:
    """Record a contraction, to be rewritten before its evaluation. One in a transform's body is ignored."""
    if not node.trace:
        _noted.append(ref(node))
        if not len(_noted) % policy.MOST_ENTRIES:
            _noted[:] = [noted for noted in _noted if noted() is not None]
        if not pre_eval_hooks:
            pre_eval_hooks.append(_rewrite)


def _rewrite() -> None:
    """Rewrite the recorded contractions."""
    noted = _noted[:]
    del _noted[: len(noted)]
    nodes = [node for node in (reference() for reference in noted) if node is not None]
    nodes = [node for node in nodes if node.value is None and node.op in CONTRACTION]
    if tracers and _any_traced(nodes):
        return  # JAX may differentiate a traced result, and then even invalid entries would have to be finite
    paddings = Paddings()
    for node in nodes:
        try:
            inputs, params = CONTRACTION[node.op](node, paddings)  # type: ignore[index]
        except Exact:
            continue
        assert again(node, inputs, params).aval is node.aval
        node.rewrite(node.op, params, inputs)  # type: ignore[arg-type]


def _any_traced(nodes: list[Node]) -> bool:
    """Return whether the graph of the nodes contains a JAX tracer."""
    seen: set[Node] = set()
    pending = [*nodes]
    while pending:
        node = pending.pop()
        if node.op is TRACED:
            return True
        if node.value is None and node not in seen:
            seen.add(node)
            pending += node.inputs
    return False
