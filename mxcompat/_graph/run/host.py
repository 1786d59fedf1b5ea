"""Host: run a subgraph in NumPy, op by op.

This module also decides whether NumPy can run a subgraph, and estimates the time. It converts the values of nodes on
the way in and out. An op without a host rule runs as a separate executable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from mxcompat._compat.aligned_memory import with_aligned_memory

from .. import policy
from ..ir.analyses import analysis
from ..ir.aval import Aval, aval, from_numpy
from ..ir.linearize import Subgraph
from ..ir.node import ITEM, SCALAR, Node
from ..ir.op import Op
from ..ir.outputs import TUPLE
from ..ir.program import Code, Program, programs_in
from ..ir.rules import CONSTANT, COST, HOST, QUICK, SUPPORTS
from . import single
from .allocation import nbytes, require
from .blas import one_thread
from .compile_time import compile_seconds
from .interpret import CallFrame, counts, environment, run_instructions
from .platform import on_cpu
from .values import as_node_value, numpy_value, to_jax

__all__ = [
    "constants", "estimated_seconds", "first_states", "has_products", "has_rules", "is_long", "is_quick",
    "is_repeated", "keep", "note_nested", "on_host", "run", "small_slots",
]  # fmt: skip


def on_host(leaves: Sequence[Node]) -> bool:
    """Return True if NumPy can read these leaves, because their values are in this process's memory. JAX's back-end is
    started only if the answer depends on it."""
    if not policy.HOST:
        return False
    for n in leaves:
        if type(n.value) is not np.ndarray and n.op is not SCALAR:
            return on_cpu()
    return True


def has_rules(program: Program) -> bool:
    """Return True if NumPy has rules for nearly all instructions, and for all that hold a Program (cached). The few
    others are compiled on their own."""
    return _has_rules(program.code)


@analysis
def _has_rules(code: Code) -> bool:
    missing = 0
    nested = code.is_nested
    for op, params, _ in code.instructions:
        if nested and programs_in(params):
            supports = SUPPORTS.get(op)
            if supports is None or not supports(HOST, params, ()):
                return False
        elif op not in HOST and op is not ITEM:
            missing += 1
    count = len(code.instructions)
    return missing <= 1 + count // policy.MISSING_SHARE and missing < count


def has_products(program: Program) -> bool:
    """Return True if the Program, or a nested one, may have a matrix product for which BLAS would use several threads:
    an op with a cost rule that is not computed without BLAS."""
    return _has_products(program.code) and estimated_seconds(program) > policy.THREADED_SECONDS


@analysis
def _has_products(code: Code) -> bool:
    return any(
        any(_has_products(p.code) for p in inner) if (inner := programs_in(params)) else _uses_blas(op)
        for op, params, _ in code.instructions
    )


def _uses_blas(op: Op) -> bool:
    return op in COST and op not in QUICK


@analysis
def _by_cost_rule(code: Code) -> tuple[list[int], list[int]]:
    """Return the slots of instructions that have a cost rule, and of those that have none."""
    slots: tuple[list[int], list[int]] = ([], [])
    for k, (op, _, _) in enumerate(code.instructions):
        slots[op not in COST].append(k)
    return slots


def is_long(program: Program) -> bool:
    """Return True if the first run, in a quickly compiled program, would take longer than a compile for speed."""
    return estimated_seconds(program) > policy.LONG_RUN * compile_seconds(program)


@analysis
def is_quick(program: Program) -> bool:
    """Return True if ops in which XLA is no faster write most of the bytes."""
    written = [nbytes(a) for a in program.avals]
    quick = [n for n, (op, _, _) in zip(written, program.instructions, strict=True) if op in QUICK]
    return 2 * sum(quick) > sum(written)


def note_nested(program: Program) -> None:
    """Count a new structure for each Program that is nested in it, such as that of a derivative or a call."""
    if program.code.is_nested:
        for inner in _nested(program):
            inner.structures += 1


def is_repeated(program: Program) -> bool:
    """Return True if the longest nested Program of a new structure has run in exactly one other structure.

    An example is the second step of a training. Its structure differs from that of the first step, in which the
    optimizer makes its state, but the derivative is the same. After a third structure, further ones are likely, and a
    compile would not be worth it.
    """
    inner = max(_nested(program), key=estimated_seconds, default=None) if program.code.is_nested else None
    return inner is not None and inner.structures == 1


def _nested(program: Program) -> list[Program]:
    return [inner for _, params, _ in program.instructions for inner in programs_in(params)]


@analysis
def estimated_seconds(program: Program) -> float:
    """Return the estimated seconds of a run in NumPy."""
    avals = program.avals
    priced, others = _by_cost_rule(program.code)
    total = 0.0
    for slot in priced:
        op, params, slots = program.instructions[slot]
        total += COST[op](avals[slot], params, *[avals[s] if s >= 0 else program.in_avals[~s] for s in slots])
    written = sum(nbytes(avals[k]) for k in others)
    return total + policy.OP_SECONDS * len(others) + policy.BYTE_SECONDS * written


def run(
    program: Program, leaves: Sequence[Node], env: list[Any], products: bool = False, free: Sequence[int] | None = None
) -> list[Any]:
    """Run a Program on the values of these leaves, and return its outputs.

    Args:
        env: an empty list, which becomes the environment, so that the caller has the values after a failure.
        products: True if there are large matrix products; BLAS then uses one thread.
        free: the positions of leaves whose values may be overwritten; temporaries may be, too. With None, nothing is
            overwritten, or dropped before the end.
    """
    if products:
        with one_thread():
            return run(program, leaves, env, False, free)
    with np.errstate(all="ignore"), with_aligned_memory() if counts(program) else nullcontext():
        env += environment(program, [numpy_value(n) for n in leaves])
        run_instructions(program, env, _fallback, None if free is None else {id(leaves[k].value) for k in free})
        return [as_node_value(env[s], program.avals[s]) for s in program.out_slots]


def keep(subgraph: Subgraph, env: Sequence[Any]) -> None:
    """After a failed run, store the results so far in their nodes, because their operands may have been overwritten."""
    kept: list[Node] = []
    _keep(subgraph.order, env, kept)
    for node in kept:
        try:
            node.value = as_node_value(node.value, node.aval)
        except MemoryError:  # the values then stay views, whose bases use more memory
            return


def _keep(nodes: Sequence[Node], env: Sequence[Any], kept: list[Node]) -> None:
    """Give these nodes their values. If the run failed within the call of a Program, expand the node of the call into
    the Program's nodes, and give these their values, too."""
    for node, value in zip(nodes, env, strict=False):
        if node.value is not None or value is None:
            continue
        if isinstance(value, CallFrame):
            input_values = [value.env[~k] for k in range(len(value.program.in_avals))]
            _keep(node.inputs, input_values, kept)
            inner_nodes = value.program.rebuild_all(node.inputs)
            for inner in inner_nodes:
                inner.where = node.where
            _keep(inner_nodes, value.env, kept)
            outputs = [inner_nodes[s] if s >= 0 else node.inputs[~s] for s in value.program.out_slots]
            node.rewrite(TUPLE, (), tuple(outputs))
        else:
            node.value = value
            kept.append(node)


def _fallback(op: Op, out: Any, params: tuple, inputs: Sequence[Any]) -> Any:
    """Run one op as a separate executable, on NumPy arrays."""
    avals = [aval(x.shape, from_numpy(x.dtype)) for x in inputs]  # type: ignore[arg-type]
    executable = single.executable(op, params, avals)
    (value,) = executable([to_jax(x) for x in inputs], ())
    return tuple([np.asarray(v) for v in value]) if isinstance(out, tuple) else np.asarray(value)


@analysis
def first_states(program: Program) -> list[int]:
    """Return the slots of constants with the shape and dtype of an output. In the first step of a training, these may
    be an optimizer's state, which the second step reads."""
    outputs = {*program.out_avals}
    slots = range(len(program.instructions))
    return [k for k in slots if program.instructions[k][0] in CONSTANT and program.avals[k] in outputs]


def constants(nodes: Sequence[Node]) -> list[Any]:
    """Return the values of nodes with CONSTANT ops, whose inputs need no values."""
    require(sum([nbytes(n.aval) for n in nodes]))
    return [as_node_value(HOST[n.op](n.aval, n.params), n.aval) for n in nodes]  # type: ignore[index]


def small_slots(subgraph: Subgraph) -> list[int]:
    """Return the slots with small results that NumPy can compute from small leaves."""
    structure, _, _, leaves = subgraph
    small = {~k for k, n in enumerate(leaves) if isinstance(n.aval, Aval) and n.aval.nbytes <= policy.SMALL_BYTES}
    computable = []
    for slot, (op, _, slots) in enumerate(structure.code.instructions):
        out = structure.avals[slot]
        if op in HOST and isinstance(out, Aval) and out.nbytes <= policy.SMALL_BYTES and small.issuperset(slots):
            small.add(slot)
            computable.append(slot)
    return computable
