"""Evaluate: give pending nodes their values.

The pending graph becomes a Program, the Program's executable runs, its outputs are what was asked for and every
intermediate that something still shows. Very large graphs run in pieces.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import jax

from . import executables
from .capture import oldest_trace
from .liveness import shown, unreachable_leaves
from .node import SCALAR, Node
from .program import Linear, intern, linearise

__all__ = ["evaluate", "evaluated", "wait"]

_PIECE = 2000
"""The number of nodes compiled together at most: XLA's compile time is superlinear."""

_DONATE_BYTES = 1 << 16
"""Buffers below this size are not worth donating."""

_lock = threading.RLock()


def evaluate(roots: Sequence[Node]) -> None:
    """Compute the roots. Returns when the work is under way, not when it is done; see `wait`."""
    pending = [n for n in roots if n.value is None]
    if not pending:
        return
    with _lock:
        linear = linearise(pending)
        if len(linear.order) <= _PIECE:
            _run(linear, pending)
            return
        pieces = _cut(linear, pending)
        del linear  # it would make every node look shown
        for piece in pieces:
            _run(linearise(piece), piece)


def evaluated(node: Node) -> Any:
    """The value of a node, computed if need be: a JAX array."""
    if node.value is None:
        evaluate([node])
    if node.op is SCALAR:
        return jax.numpy.asarray(node.value, dtype=node.aval.dtype.numpy)
    return node.value


def wait(nodes: Sequence[Node]) -> None:
    """Block until the values of the nodes, which must have been evaluated, are there."""
    for node in nodes:
        value = node.value
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()


def _run(linear: Linear, roots: Sequence[Node]) -> None:
    """Compute a stretch of graph: the roots, and what else in it is shown."""
    order, leaves, slots = linear.order, linear.leaves, linear.slots
    wanted = set(shown(linear))
    for node in roots:
        slot = slots[node]
        if slot >= 0:
            wanted.add(slot)
    if not wanted:
        return
    out_slots = tuple(sorted(wanted))
    program = intern(linear, out_slots)
    outputs = [order[k] for k in out_slots]
    scalars = tuple([leaves[k].value for k in program.scalars])
    if traced_leaves and any(isinstance(n.value, jax.core.Tracer) for n in leaves):
        values = program.replay(
            [n.aval.dtype.numpy.type(n.value) if n.op is SCALAR else n.value for n in leaves]
        )
    else:
        donated = _donated(linear, outputs)
        arrays = [n.value for n in leaves if n.op is not SCALAR]
        executable = executables.find(program, scalars, donated, outputs)
        values = executable(arrays, scalars)
    oldest = oldest_trace()
    for node, value in zip(outputs, values, strict=True):
        node.value = value
        if node.trace < oldest:
            node.op = None
            node.params = node.inputs = ()


traced_leaves: list[bool] = []
"""Not empty once an array was made of a JAX tracer: from then on leaves are looked at before a program is run."""


def _donated(linear: Linear, outputs: Sequence[Node]) -> tuple[int, ...]:
    """The positions, among the inputs that are not scalars, of buffers that nobody can reach once this has run, and
    that fit an output."""
    leaves = linear.leaves
    if not any(type(n.aval) is not tuple and n.aval.nbytes >= _DONATE_BYTES for n in leaves):
        return ()
    places = Counter(n.aval for n in outputs)
    free = set(unreachable_leaves(linear))
    donated = []
    position = 0
    for k, node in enumerate(leaves):
        if node.op is SCALAR:
            continue
        if k in free and places[node.aval] and node.aval.nbytes >= _DONATE_BYTES and _sole(node):
            places[node.aval] -= 1
            donated.append(position)
        position += 1
    return tuple(donated)


def _sole(node: Node) -> bool:
    """Whether the node alone refers to its value."""
    return getrefcount(node.value) == _SOLE


_SOLE = (lambda node: getrefcount(node.value))(Node(None, (), (), None, 0, object()))


def _cut(linear: Linear, roots: Sequence[Node]) -> list[list[Node]]:
    """The nodes at which to evaluate a large graph one after the other: for each piece, those that later ones read."""
    order, slots = linear.order, linear.slots
    pieces: list[dict[Node, None]] = [{} for _ in range(0, len(order), _PIECE)]
    for k, node in enumerate(order):
        here = k // _PIECE
        for i in node.inputs:
            slot = slots[i]
            if slot >= 0 and slot // _PIECE < here:
                pieces[slot // _PIECE][i] = None
    for node in roots:
        if slots[node] >= 0:
            pieces[slots[node] // _PIECE][node] = None
    return [list(piece) for piece in pieces]
