"""Host: what runs in NumPy, op by op.

Whether a subgraph can, and what that is likely to take; and the values of nodes on their way in and out. An op
without a host rule runs as an executable of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import policy
from ..ir.aval import Aval, aval, from_numpy
from ..ir.linearize import Subgraph
from ..ir.node import ITEM, SCALAR, Node
from ..ir.op import Op
from ..ir.outputs import TUPLE
from ..ir.program import Code, Program, programs_in
from ..ir.rules import COST, COVERED, HOST, QUICK
from . import single
from .allocation import nbytes
from .blas import one_thread
from .interpret import Within, environment, run_instructions
from .platform import on_cpu
from .values import numpy_value, settled, to_jax

__all__ = ["estimated_seconds", "has_products", "has_rules", "is_quick", "keep", "on_host", "run", "small_slots"]


def on_host(leaves: Sequence[Node]) -> bool:
    """Whether NumPy may run what reads these: all the values are in this process's memory. JAX's back-end is started
    only if that depends on it: what NumPy does alone need not wait for that."""
    if not policy.HOST:
        return False
    for n in leaves:
        if type(n.value) is not np.ndarray and n.op is not SCALAR:
            return on_cpu()
    return True


def has_rules(program: Program) -> bool:
    """Whether NumPy can run nearly all of the instructions: few of the others are compiled on their own, none of those
    that run a Program. Known from the first time on."""
    facts = program.code.facts
    if "has rules" not in facts:
        facts["has rules"] = _has_rules(program.code)
    return facts["has rules"]


def _has_rules(code: Code) -> bool:
    missing = 0
    nested = code.is_nested
    for op, params, _ in code.instructions:
        if nested and programs_in(params):
            covered = COVERED.get(op)
            if covered is None or not covered(HOST, params, ()):
                return False
        elif op not in HOST and op is not ITEM:
            missing += 1
    count = len(code.instructions)
    return missing <= max(policy.MISSING, count // policy.MISSING_SHARE) and missing < count


def has_products(program: Program) -> bool:
    """Whether one of the instructions, or of the programs that they run, may be a product of matrices that is worth
    more than one thread to BLAS: whether it has a price."""
    return _has_products(program.code) and estimated_seconds(program) > policy.THREADED_SECONDS


def _has_products(code: Code) -> bool:
    if "has products" not in code.facts:
        code.facts["has products"] = any(
            any(_has_products(p.code) for p in inner) if (inner := programs_in(params)) else op in COST
            for op, params, _ in code.instructions
        )
    return code.facts["has products"]


def _by_price(code: Code) -> tuple[list[int], list[int]]:
    """The slots of the instructions that have a price, and of those that cost what all do."""
    if "by price" not in code.facts:
        slots: tuple[list[int], list[int]] = ([], [])
        for k, (op, _, _) in enumerate(code.instructions):
            slots[op not in COST].append(k)
        code.facts["by price"] = slots
    return code.facts["by price"]


def estimated_seconds(program: Program) -> float:
    """What NumPy is likely to take for the instructions; known from the first time on."""
    if "seconds" not in program.facts:
        program.facts["seconds"] = _estimate(program)
    return program.facts["seconds"]


def is_quick(program: Program) -> bool:
    """Whether most of what NumPy writes for the instructions comes from ops that XLA is no faster at."""
    if "quick" not in program.facts:
        written = [nbytes(a) for a in program.avals]
        quick = [n for n, (op, _, _) in zip(written, program.instructions, strict=True) if op in QUICK]
        program.facts["quick"] = 2 * sum(quick) > sum(written)
    return program.facts["quick"]


def _estimate(program: Program) -> float:
    avals = program.avals
    priced, others = _by_price(program.code)
    total = 0.0
    for slot in priced:
        op, params, slots = program.instructions[slot]
        total += COST[op](avals[slot], params, *[avals[s] if s >= 0 else program.in_avals[~s] for s in slots])
    written = sum(nbytes(avals[k]) for k in others)
    return total + policy.OP_SECONDS * len(others) + policy.BYTE_SECONDS * written


def run(
    program: Program, leaves: Sequence[Node], env: list[Any], products: bool = False, free: Sequence[int] | None = None
) -> list[Any]:
    """The outputs of a Program whose inputs are the values of these leaves.

    Args:
        env: an empty list, which becomes the environment: whoever calls has it if something fails.
        products: whether there are products of matrices on the way.
        free: the positions of leaves whose values may be written over, as what only the ops read then may; None, that
            nothing is, nor dropped before the end.
    """
    if products:
        with one_thread():
            return run(program, leaves, env, False, free)
    with np.errstate(all="ignore"):
        env += environment(program, [numpy_value(n) for n in leaves])
        run_instructions(program, env, _fallback, None if free is None else {id(leaves[k].value) for k in free})
        return [settled(env[s], program.avals[s]) for s in program.out_slots]


def keep(subgraph: Subgraph, env: Sequence[Any]) -> None:
    """Make what there is, after a run that failed, the values of its nodes: what they were made of may have been
    written over."""
    kept: list[Node] = []
    _keep(subgraph.order, env, kept)
    for node in kept:
        try:
            node.value = settled(node.value, node.aval)
        except MemoryError:  # then it stays as it is, in more memory than it needs
            return


def _keep(nodes: Sequence[Node], env: Sequence[Any], kept: list[Node]) -> None:
    """Give these nodes their values, those within a call that was under way too: the node of that becomes them."""
    for node, value in zip(nodes, env, strict=False):
        if node.value is not None or value is None:
            continue
        if isinstance(value, Within):
            given = [value.env[~k] for k in range(len(value.program.in_avals))]
            _keep(node.inputs, given, kept)
            made = value.program.rebuild_all(node.inputs)
            for within in made:
                within.where = node.where
            _keep(made, value.env, kept)
            outputs = [made[s] if s >= 0 else node.inputs[~s] for s in value.program.out_slots]
            node.become(TUPLE, (), tuple(outputs))
        else:
            node.value = value
            kept.append(node)


def _fallback(op: Op, out: Any, params: tuple, inputs: Sequence[Any]) -> Any:
    """Run one op as an executable of its own, on the host's values."""
    avals = [aval(x.shape, from_numpy(x.dtype)) for x in inputs]  # type: ignore[arg-type]
    executable = single.executable(op, params, avals)
    (value,) = executable([to_jax(x) for x in inputs], ())
    return tuple([np.asarray(v) for v in value]) if isinstance(out, tuple) else np.asarray(value)


def small_slots(subgraph: Subgraph) -> list[int]:
    """The slots that NumPy can make from small data that is there."""
    structure, _, _, leaves = subgraph
    small = {~k for k, n in enumerate(leaves) if isinstance(n.aval, Aval) and n.aval.nbytes <= policy.SMALL_BYTES}
    found = []
    for slot, (op, _, slots) in enumerate(structure.code.instructions):
        out = structure.avals[slot]
        if op in HOST and isinstance(out, Aval) and out.nbytes <= policy.SMALL_BYTES and small.issuperset(slots):
            small.add(slot)
            found.append(slot)
    return found
