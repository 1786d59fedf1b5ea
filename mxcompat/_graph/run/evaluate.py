"""Evaluate: give pending nodes their values.

The pending graph becomes a Program, the Program's executable runs, its outputs are what was asked for and every
intermediate that something still shows. Very large graphs run in pieces.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from time import perf_counter, sleep
from typing import Any

import jax
from jax.core import Tracer

from ..ir.aval import number
from ..ir.capture import oldest_trace
from ..ir.liveness import shown, unreachable_leaves
from ..ir.node import ITEM, SCALAR, Node, location
from ..ir.program import Program
from ..ir.rules import SEGMENTS
from ..ir.structure import LARGE, Subgraph, alone, linearize
from . import cache as executables
from .host import WORTH_A_LOOK, moved
from .segments import cut, is_heavy, is_huge, stops_of, unevaluated, weight

__all__ = ["before", "evaluate", "evaluated", "forget", "lock", "wait"]

_DONATE_BYTES = 1 << 16
"""Buffers below this size are not worth donating."""

before: list[Callable[[], None]] = []
"""What is called, once, before the next evaluation: for rewrites of pending nodes that had better see all of them."""

lock = threading.RLock()
"""Held while the graph is walked for an evaluation; who rewrites pending nodes that others may see holds it too."""


def evaluate(roots: Sequence[Node]) -> Sequence[Node]:
    """Compute the roots. Returns when the work is under way, not when it is done.

    Returns those to `wait` for: one stands for all if a single executable computes them, since its results are there
    together.
    """
    pending = unevaluated(roots)
    if not pending:
        return roots
    known = [n for n in roots if n.value is not None]
    with lock:
        until_now = _executions
        while before:
            before.pop()()
        if len(pending) == 1 and _run_again(pending[0]):
            return roots
        subgraph = linearize(pending)
        if subgraph.structure.met < WORTH_A_LOOK and len(subgraph.order) <= LARGE:
            values = moved(subgraph, pending)
            if values:
                _store(values.keys(), values.values())
                del subgraph, values  # they would make every node look shown
                evaluate(pending)
                return roots
        if len(subgraph.order) <= LARGE:
            stops = _run(subgraph, pending)
            temporary = not (stops and is_huge(subgraph))
        else:
            stops = cut(subgraph)
            temporary = False
        if stops:
            del subgraph  # it would make every node look shown
            _run_parts(stops, temporary)
        return [pending[0], *known] if _executions == until_now + 1 else roots


_executions = 0
"""How many executables have run."""

_alone: dict[tuple, executables.Executable] = {}
"""The executables of single ops on small arrays, by op, params and avals."""

_ALONE_LIMIT = 4096


def _run_again(node: Node) -> bool:
    """Run a node whose inputs are all there, if its op has been run on such before: the shortest road there is."""
    key = [node.op, node.params]
    values = []
    for i in node.inputs:
        if i.value is None or i.op is SCALAR:
            return False
        key.append(i.aval)
        values.append(i.value)
    executable = _alone.get(tuple(key))
    if executable is None or traced_leaves:
        return False
    _store((node,), executable(values, ()))
    return True


def forget() -> None:
    """Drop the executables of single ops."""
    _alone.clear()


def evaluated(node: Node) -> Any:
    """The value of a node, computed if need be: a JAX array."""
    if node.value is None:
        evaluate([node])
    if node.op is SCALAR:
        with jax.enable_x64(True):
            return jax.numpy.asarray(node.value, dtype=node.aval.dtype.numpy)
    return node.value


def wait(nodes: Sequence[Node]) -> None:
    """Block until the values of the nodes that `evaluate` returned are there."""
    looking = True
    for node in nodes:
        if node.op is not SCALAR:
            value = node.value
            block = getattr(value, "block_until_ready", None)  # a JAX tracer has none
            if block is not None:
                if looking:
                    _look(value)
                    looking = False
                block()


_LOOK = 8e-5
"""For how many seconds to look for a result before going to sleep: being woken takes longer than many programs run."""

_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: sleep(0))
"""Lets other threads run."""


def _look(value: jax.Array) -> None:
    end = perf_counter() + _LOOK
    while not value.is_ready() and perf_counter() < end:
        _yield()


def _run(subgraph: Subgraph, roots: Sequence[Node], temporary: bool | None = None) -> list[list[Node]]:
    """Compute a stretch of graph: the roots, and what else in it is shown.

    `temporary` says whether it is a part that will not be one any more once the whole has been compiled; None, that it
    is a whole. Returns the nodes at which to stop one after the other, if a whole had better run in parts.
    """
    structure, slots, order, leaves = subgraph
    if not order:
        return []  # the roots have got their values on the way
    program = structure.program((0,)) if len(order) == 1 else structure.program_for(shown(subgraph), slots)
    outputs = [order[k] for k in program.out_slots]
    if traced_leaves and any(isinstance(n.value, Tracer) for n in leaves):
        with jax.enable_x64(True):
            values = program.replay([number(n.value, n.aval.dtype) if n.op is SCALAR else n.value for n in leaves])
        _store(outputs, values)
        return []
    scalars = tuple([leaves[k].value for k in program.scalars]) if program.scalars else ()
    donated = _donated(subgraph, outputs)
    executable = executables.find(program, scalars, donated)
    if executable is None and len(order) > 1:
        returning = program.versions is not None
        singles = _singles(subgraph)
        stops = stops_of(subgraph, roots) if singles is None and temporary is None else []
        if singles is not None or stops:
            executables.remember(program, scalars)
            if returning and not temporary and not is_huge(subgraph):
                executables.compile_soon(program, scalars, donated)
            if singles is not None:
                _run_singly(singles, subgraph, outputs)
            return stops
    if executable is None and len(order) == 1 and order[0].op in SEGMENTS and is_heavy(order[0]):  # type: ignore[union-attr]
        parts = SEGMENTS[order[0].op](order[0])  # type: ignore[union-attr, misc]
        if parts is not None:
            _run_one_by_one(parts, temporary)
            _store(order, [tuple([evaluated(n) for n in parts])])
            return []
    arrays = [n.value for n in leaves if n.op is not SCALAR]
    if len(order) == 1 and executable is not None and not scalars and not _any_large(leaves):
        node = order[0]
        if len(leaves) == len(node.inputs):
            if len(_alone) >= _ALONE_LIMIT:
                _alone.clear()
            _alone[node.op, node.params, *[i.aval for i in node.inputs]] = executable
    _store(outputs, _execute(executable, program, subgraph, arrays, scalars, donated, not temporary))
    return []


def _execute(
    executable: executables.Executable | None, program: Program, subgraph: Subgraph, arrays: Sequence[Any],
    scalars: tuple, donated: tuple[int, ...], counts: bool,
) -> list[Any]:  # fmt: skip
    """Run a Program's executable; say in an error which op it came from, and which line of the user's called that."""
    global _executions
    _executions += 1
    try:
        if executable is None:
            executable = executables.compile_now(program, scalars, donated)
        return executable(arrays, scalars, counts)
    except Exception as error:
        slot = getattr(error, "mxcompat_slot", None)
        if slot is not None:
            node = subgraph.order[slot]
            error.add_note(f"In the evaluation of [{node.op}], called at {location(node) or 'an unknown place'}.")
        raise


def _run_one_by_one(roots: Sequence[Node], temporary: bool | None) -> None:
    """Run a stretch such that each node with a program of its own runs alone."""
    order = linearize(unevaluated(roots)).order
    nested = [n for n in order if weight(n.params)]
    _run_parts([*[part for n in nested for part in (unevaluated(n.inputs), [n])], roots], temporary)


def _run_parts(parts: Sequence[Sequence[Node]], temporary: bool | None) -> None:
    """Compute some nodes, then others, and so on."""
    for part in parts:
        pending = unevaluated(part)
        if pending:
            _run(linearize(pending), pending, temporary)


def _store(nodes: Iterable[Node], values: Iterable[Any]) -> None:
    """Give nodes their values. They forget how they were made, unless a capture under way may want to know."""
    oldest = oldest_trace()
    for node, value in zip(nodes, values):  # noqa: B905  this runs for every array that is computed
        if node.trace < oldest:
            node.hold(value)
        else:
            node.value = value


_MISSING = 2
"""A new structure runs op by op if no more than this many of its ops, or a sixth, have yet to be compiled on their own.
"""


def _singles(subgraph: Subgraph) -> list[tuple[Subgraph, Program]] | None:
    """Each op of a stretch as a program of its own, if nearly all of them have been compiled before.

    A structure seen for the first time may never return, and then compiling it would have been most of the work.
    """
    found = []
    missing = set()
    for node in subgraph.order:
        if node.op is not ITEM:
            stretch = alone(node)
            program = stretch.structure.program((0,))
            if program.versions is None or not program.versions.compiled:
                missing.add(program)
                if len(missing) > max(_MISSING, len(subgraph.order) // 6) or program.is_nested:
                    return None
            found.append((stretch, program))
    return found


def _run_singly(singles: Sequence[tuple[Subgraph, Program]], subgraph: Subgraph, outputs: Sequence[Node]) -> None:
    """Run a stretch op by op."""
    kept = set(outputs)
    uses = list(subgraph.structure.uses)
    values: dict[Node, Any] = {}
    following = iter(singles)
    for node, (_, _, slots) in zip(subgraph.order, subgraph.structure.instructions, strict=True):
        if node.op is ITEM:
            values[node] = values[node.inputs[0]][node.params[0]]
        else:
            stretch, program = next(following)
            arrays = [values.get(n, n.value) for n in stretch.leaves if n.op is not SCALAR]
            scalars = tuple([stretch.leaves[k].value for k in program.scalars])
            executable = executables.find(program, scalars, ())
            (values[node],) = _execute(executable, program, stretch, arrays, scalars, (), False)
        for slot in slots:
            if slot >= 0:
                uses[slot] -= 1
                if not uses[slot] and subgraph.order[slot] not in kept:
                    values.pop(subgraph.order[slot], None)
    _store(outputs, [values[n] for n in outputs])


traced_leaves: list[bool] = []
"""Not empty once an array was made of a JAX tracer: from then on leaves are looked at before a program is run."""


def _donated(subgraph: Subgraph, outputs: Sequence[Node]) -> tuple[int, ...]:
    """The positions, among the inputs that are not scalars, of buffers that nobody can reach once this has run, and
    that fit an output."""
    leaves = subgraph.leaves
    candidates = _worth_donating(subgraph)
    if not candidates:
        return ()
    places = Counter(n.aval for n in outputs)
    free = set(unreachable_leaves(subgraph))
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


def _any_large(leaves: Sequence[Node]) -> bool:
    return any(n.aval.nbytes >= _DONATE_BYTES for n in leaves)


def _worth_donating(subgraph: Subgraph) -> set[int]:
    """The leaves that are large enough, and, on a CPU, that an op can write over.

    Where XLA merely reuses a donated buffer, it has to copy first what it still reads, which made a train step on a
    CPU a fifth slower. On an accelerator memory is worth that.
    """
    worth = subgraph.structure.written if jax.default_backend() == "cpu" else range(len(subgraph.leaves))
    return {k for k in worth if subgraph.leaves[k].aval.nbytes >= _DONATE_BYTES}


def _sole(node: Node) -> bool:
    """Whether the node alone refers to its value."""
    return getrefcount(node.value) == _SOLE


_SOLE = (lambda node: getrefcount(node.value))(Node(None, (), (), None, 0, object()))
