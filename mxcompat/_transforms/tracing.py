"""One trace of a compiled function: the Program that its Python built, its captured nodes, and the tree of its results.

`compiling` makes a trace for each kind of arguments, and stores it for later calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mxcompat._array.array import array, handles
from mxcompat._graph.ir.aval import aval, number
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, apply, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.trace_stack import modes_of
from mxcompat._ops.creation.filled import FULL

from .calls import CALL
from .programs.dependence import read_by
from .programs.reshaping import reshaped
from .trees import Snapshot, Substitution, TreeSlots, nodes_in, rebuilt, structure

__all__ = ["CONSTANT", "Trace", "for_shapes", "freeze", "reaches", "trace", "valued"]


class Trace(NamedTuple):
    """The result of one trace.

    Args:
        program: its first inputs are the arguments' arrays, then the arrays of `inputs`.
        captured: the other nodes that it reads, which are its last inputs.
        value: the structure of the returned tree.
        returned: the number of arrays in the returned tree.
        unread: the inputs that no output depends on.
    """

    program: Program
    captured: list[Node]
    value: Any
    returned: int
    unread: tuple[int, ...]


def trace(
    fun: Callable[..., Any], args: tuple, kwargs: dict, leaves: Sequence[array], inputs: Any, outputs: Any,
    nodes: Sequence[Node], shapeless: bool,
) -> Trace | None:  # fmt: skip
    """Trace the function. Return None if it reads arrays of an enclosing transform: then it must run as part of that
    transform."""
    snapshot = Snapshot([inputs, outputs])
    try:
        with Capture([n.aval for n in nodes], any_shape=shapeless) as capture:
            inner_leaves = handles(capture.placeholders)
            inner_args, inner_kwargs = rebuilt((args, kwargs), inner_leaves)
            with Substitution(TreeSlots.of(inputs), inner_leaves[len(leaves) :]):
                value = fun(*inner_args, **inner_kwargs)
                shape = structure(value)
                returned = nodes_in(value)
                written = nodes_in(outputs)
            body = capture.close([*returned, *written])
        if reaches(body.captured, nodes):
            raise ValueError("[compile] Attempting to compile a function with uncaptured inputs is not allowed.")
    except BaseException:
        snapshot.put_back()
        raise
    if modes_of(body.captured):
        snapshot.put_back()
        return None
    read = _read_for(body.program, range(len(body.program.out_slots)))
    captured = [n if k in read else valued(n) for k, n in enumerate(body.captured, len(nodes))]
    unread = tuple([k for k in range(len(nodes)) if k not in read])
    return Trace(body.program, captured, shape, len(returned), unread)


def valued(node: Node) -> Node:
    """Return the node, or zeros for a placeholder without a value.

    The caller must pass only nodes that no output depends on. A placeholder occurs here if an earlier trace left it in
    a state that `outputs` does not list.
    """
    if not node.trace or node.value is not None:
        return node
    return apply(FULL, (scalar(0, aval((), node.aval.dtype)),), (node.aval.shape,))


def reaches(nodes: Sequence[Node], others: Sequence[Node], most: float = math.inf) -> bool:
    """Return True if a pending node in `nodes` depends on one of `others`, or is one. The search stops after about
    `most` nodes."""
    sought, stack = set(others), list(nodes)
    seen = set(stack)
    while stack and len(seen) <= most + len(nodes):
        node = stack.pop()
        if node in sought:
            return True
        if node.value is None:
            more = [n for n in read_by(node) if n not in seen]
            seen.update(more)
            stack += more
    return False


def _read_for(program: Program, outputs: Iterable[int]) -> set[int]:
    """Return the inputs of a Program that the given outputs depend on; calls are analyzed, too."""
    needed = {program.out_slots[k] for k in outputs}
    parts: dict[int, set[int]] = {}  # for each call, the outputs that are needed
    for slot in reversed(range(len(program.instructions))):
        op, params, slots = program.instructions[slot]
        if slot in parts and op is CALL:
            needed.update([slots[k] for k in _read_for(params[0], parts[slot])])
        elif slot not in needed and slot not in parts:
            continue
        elif op is ITEM:
            parts.setdefault(slots[0], set()).add(params[0])
        else:
            needed.update(slots)
    return {~s for s in needed if s < 0}


def for_shapes(traced: Trace, avals: Sequence[Any]) -> Trace:
    """Rebuild a trace's Program for inputs of other shapes."""
    program, captured = reshaped(traced.program, avals, traced.captured, fused=True)
    return traced._replace(program=program, captured=captured)


CONSTANT = Op("constant", number, lambda value, dtype: aval((), dtype), ("value", "dtype"))
"""The op of a Python number that is a constant of a Program."""


def freeze(traced: Trace, avals: Sequence[Any]) -> Trace:
    """Turn the captured numbers of a trace into constants of its Program."""
    with Capture(avals) as capture:
        captured = [
            Node(CONSTANT, (n.value, n.aval.dtype), (), n.aval, capture.id) if n.op is SCALAR else n
            for n in traced.captured
        ]
        results = traced.program.rebuild([*capture.placeholders, *captured])
        body = capture.close(results)
    return traced._replace(program=body.program, captured=body.captured)
