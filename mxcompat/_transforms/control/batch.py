"""Rules of control flow for `vmap` in NumPy, and for inputs of other shapes."""

from __future__ import annotations

from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.rules import BATCH
from mxcompat._ops.batching import all_batched
from mxcompat._ops.define import TABLE

from ..programs.batching import batched
from ..programs.reshaping import ADAPTED, respecialize
from .ops import COND, SCAN, WHILE

__all__: list[str] = []


def _swapped(node: Node) -> Node:
    """Swap the first two axes, the steps and the batch."""
    order = (1, 0, *range(2, node.aval.ndim))
    return apply(TABLE["transpose"], (node,), (order,))


@BATCH.of(SCAN)
def _scan(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    """Batch a scan. All of the carry gets the batch axis, because a step may introduce it."""
    program, carry, sequences, *others = params
    body = batched(program, (*[True] * carry, *flags[carry:]), size)
    if body is None:
        return None
    end = carry + sequences
    init = all_batched(inputs[:carry], flags[:carry], size)
    along = [_swapped(n) if on else n for n, on in zip(inputs[carry:end], flags[carry:end], strict=True)]
    outs = items(apply(op, (*init, *along, *inputs[end:], *body.captured), (body.program, carry, sequences, *others)))
    return apply(TUPLE, (*outs[:carry], *map(_swapped, outs[carry:])))


@BATCH.of(COND)
def _cond(op: Op, params: tuple, inputs: tuple[Node, ...], flags: tuple[bool, ...], size: int) -> Node | None:
    """Batch a `cond` whose index is not batched. Otherwise return None: XLA computes all branches and selects."""
    branches, reads = params
    over = [tuple([flags[k + 1] for k in places]) for places in reads]
    if flags[0] or not all(map(any, over)):
        return None
    bodies = [batched(program, on, size) for program, on in zip(branches, over, strict=True)]
    operands = list(inputs)
    places = []
    for body, read in zip(bodies, reads, strict=True):
        if body is None:
            return None
        places.append((*read, *range(len(operands) - 1, len(operands) - 1 + len(body.captured))))
        operands += body.captured
    return apply(op, tuple(operands), (tuple([body.program for body in bodies if body is not None]), tuple(places)))


def _scan_respecialized(params: tuple, inputs: tuple[Node, ...]) -> tuple[tuple, tuple[Node, ...]]:
    program, carry, sequences, length, reverse = params
    avals = [n.aval for n in inputs]
    along = range(carry, carry + sequences)
    lengths = {avals[k].shape[0] for k in along} or {length}
    if len(lengths) > 1:
        raise ValueError(f"[scan] Arrays of {' and '.join(map(str, sorted(lengths)))} steps are scanned over together.")
    for k in along:
        avals[k] = aval(avals[k].shape[1:], avals[k].dtype)
    inner, more = respecialize(program, avals)
    _check_carry("scan", inner.out_avals[:carry], avals)
    return (inner, carry, sequences, lengths.pop(), reverse), (*inputs, *more)


def _while_respecialized(params: tuple, inputs: tuple[Node, ...]) -> tuple[tuple, tuple[Node, ...]]:
    program, test, carry = params
    count = len(program.in_avals)
    avals = [n.aval for n in inputs]
    inner, more = respecialize(program, avals[:count])
    tested, others = respecialize(test, [*avals[:carry], *avals[count:]])
    _check_carry("while_loop", inner.out_avals, avals)
    return (inner, tested, carry), (*inputs[:count], *more, *inputs[count:], *others)


def _cond_respecialized(params: tuple, operands: tuple[Node, ...]) -> tuple[tuple, tuple[Node, ...]]:
    inputs, branches, reads = list(operands), [], []
    for program, places in zip(*params, strict=True):
        inner, more = respecialize(program, [operands[k + 1].aval for k in places])
        branches.append(inner)
        reads.append((*places, *range(len(inputs) - 1, len(inputs) - 1 + len(more))))
        inputs += more
    if len({program.out_avals for program in branches}) > 1:
        raise ValueError("[cond] Branches return arrays of other shapes for inputs of other shapes.")
    return (tuple(branches), tuple(reads)), tuple(inputs)


def _check_carry(name: str, outs: tuple, inits: list) -> None:
    for k, (out, init) in enumerate(zip(outs, inits, strict=False)):
        if out is not init:
            raise ValueError(f"[{name}] Array {k} of the carry is {init}, but {out} after a step.")


ADAPTED.update({SCAN: _scan_respecialized, WHILE: _while_respecialized, COND: _cond_respecialized})
