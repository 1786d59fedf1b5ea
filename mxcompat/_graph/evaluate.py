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
from jax.core import Tracer

from . import executables
from .capture import oldest_trace
from .liveness import shown, unreachable_leaves
from .node import ITEM, SCALAR, Node, location
from .program import Linear, Program, alone, intern, linearise

__all__ = ["evaluate", "evaluated", "lock", "wait"]

_PIECE = 2000
"""The number of nodes compiled together at most: XLA's compile time is superlinear."""

_DONATE_BYTES = 1 << 16
"""Buffers below this size are not worth donating."""

lock = threading.RLock()
"""Held while the graph is walked for an evaluation; who rewrites pending nodes that others may see holds it too."""


def evaluate(roots: Sequence[Node]) -> None:
    """Compute the roots. Returns when the work is under way, not when it is done; see `wait`."""
    pending = [n for n in roots if n.value is None]
    if not pending:
        return
    with lock:
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
        with jax.enable_x64(True):
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
    if not order:
        return  # the roots have got their values on the way
    out_slots: tuple[int, ...] = (0,)
    if len(order) > 1:
        wanted = {*shown(linear), *[slots[n] for n in roots]}
        out_slots = tuple(sorted([k for k in wanted if k >= 0]))
    program = intern(linear, out_slots)
    outputs = [order[k] for k in out_slots]
    if traced_leaves and any(isinstance(n.value, Tracer) for n in leaves):
        with jax.enable_x64(True):
            values = program.replay([_constant(n) if n.op is SCALAR else n.value for n in leaves])
    elif program.executables is None and len(order) > 1 and _run_singly(program, linear, outputs):
        return
    else:
        donated = _donated(linear, outputs)
        arrays = [n.value for n in leaves if n.op is not SCALAR]
        values = _execute(program, linear, arrays, donated, outputs)
    _store(outputs, values)


def _execute(
    program: Program, linear: Linear, arrays: Sequence[Any], donated: tuple[int, ...], outputs: Sequence[Node]
) -> list[Any]:
    """Run a Program's executable; say in an error which op it came from, and which line of the user's called that."""
    try:
        scalars = tuple([linear.leaves[k].value for k in program.scalars])
        return executables.find(program, scalars, donated, outputs)(arrays, scalars)
    except Exception as error:
        slot = getattr(error, "mxcompat_slot", None)
        if slot is not None:
            node = linear.order[slot]
            error.add_note(f"In the evaluation of [{node.op}], called at {location(node) or 'an unknown place'}.")
        raise


def _store(nodes: Sequence[Node], values: Sequence[Any]) -> None:
    """Give nodes their values. They forget how they were made, unless a capture under way may want to know."""
    oldest = oldest_trace()
    for node, value in zip(nodes, values, strict=True):
        node.value = value
        if node.trace < oldest:
            node.op = None
            node.params = node.inputs = ()


def _constant(node: Node) -> Any:
    return node.aval.dtype.numpy.type(node.value)


_MISSING = 2
"""A new structure runs op by op if no more than this many of its ops have yet to be compiled on their own."""


def _run_singly(program: Program, linear: Linear, outputs: Sequence[Node]) -> bool:
    """Run a structure seen for the first time op by op, if nearly all of its ops have been compiled before.

    It may never return, and then compiling it would have been most of the work.
    """
    computed = [n for n in linear.order if n.op is not ITEM]
    stretches = [alone(n) for n in computed]
    programs = [intern(s, (0,)) for s in stretches]
    missing = {p for p in programs if not p.executables}
    if len(missing) > _MISSING or any(p.is_nested for p in missing):
        return False
    executables.note(program, tuple([linear.leaves[k].value for k in program.scalars]))
    kept = set(outputs)
    uses = list(linear.uses)
    values: dict[Node, Any] = {}
    following = zip(stretches, programs, strict=True)
    for node in linear.order:
        if node.op is ITEM:
            values[node] = values[node.inputs[0]][node.params[0]]
        else:
            stretch, single = next(following)
            arrays = [values.get(n, n.value) for n in stretch.leaves if n.op is not SCALAR]
            (values[node],) = _execute(single, stretch, arrays, (), [node])
        for i in node.inputs:
            slot = linear.slots[i]
            if slot >= 0:
                uses[slot] -= 1
                if not uses[slot] and i not in kept:
                    values.pop(i, None)
    _store(outputs, [values[n] for n in outputs])
    return True


traced_leaves: list[bool] = []
"""Not empty once an array was made of a JAX tracer: from then on leaves are looked at before a program is run."""


def _donated(linear: Linear, outputs: Sequence[Node]) -> tuple[int, ...]:
    """The positions, among the inputs that are not scalars, of buffers that nobody can reach once this has run, and
    that fit an output."""
    candidates = _worth_donating(linear)
    if not candidates:
        return ()
    leaves = linear.leaves
    places = Counter(n.aval for n in outputs)
    free = set(unreachable_leaves(linear))
    donated = []
    position = 0
    for k, node in enumerate(leaves):
        if node.op is SCALAR:
            continue
        if k in free and k in candidates and places[node.aval] and _sole(node):
            places[node.aval] -= 1
            donated.append(position)
        position += 1
    return tuple(donated)


def _worth_donating(linear: Linear) -> set[int]:
    """The leaves that are large enough, and, on a CPU, that an op can write over.

    Where XLA merely reuses a donated buffer, it has to copy first what it still reads, which made a train step on a
    CPU a fifth slower. On an accelerator memory is worth that.
    """
    large = {k for k, n in enumerate(linear.leaves) if n.aval.nbytes >= _DONATE_BYTES}
    if large and jax.default_backend() == "cpu":
        slots = {linear.slots[n.inputs[0]] for n in linear.order if n.op.in_place}  # type: ignore[union-attr]
        large &= {~s for s in slots}
    return large


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
