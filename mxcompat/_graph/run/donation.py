"""Donation: choose the input buffers that a program may overwrite, because they are unreachable after its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from .. import policy
from ..ir.analyses import analysis
from ..ir.linearize import Subgraph
from ..ir.liveness import unreachable_leaves
from ..ir.node import SCALAR, Node
from ..ir.program import Program
from ..ir.rules import CALLS, OVERWRITE
from .allocation import nbytes
from .endless import may_not_end, never_ends
from .failures import fails, may_fail
from .platform import is_cpu
from .values import sole

__all__ = ["donated", "free", "large", "split_fallible", "written"]


def donated(subgraph: Subgraph, program: Program) -> tuple[int, ...]:
    """Return the positions, among the inputs that are not scalars, of buffers that are unreachable after the run and
    that fit an output."""
    candidates = _worth_donating(program)
    if not candidates:
        return ()
    free = set(unreachable_leaves(subgraph, candidates))
    return _fitting(subgraph, program, lambda k, node: k in free and sole(node))


def _fitting(subgraph: Subgraph, program: Program, fits: Callable[[int, Node], bool]) -> tuple[int, ...]:
    """Return the leaves for which `fits` is true, as positions among the inputs that are not scalars. For each aval,
    return at most as many as the Program has outputs of this aval."""
    if _may_stop(program):  # the inputs are needed again then
        return ()
    places = Counter(program.out_avals)
    positions = []
    position = 0
    for k, node in enumerate(subgraph.leaves):
        if node.op is SCALAR:
            continue
        if places[node.aval] and fits(k, node):
            places[node.aval] -= 1
            positions.append(position)
        position += 1
    return tuple(positions)


def free(subgraph: Subgraph, program: Program) -> list[int]:
    """Return the positions, among all inputs, of large inputs that are unreachable after the run. NumPy may overwrite
    them if nothing else refers to their memory."""
    candidates = large(program)
    return unreachable_leaves(subgraph, candidates) if candidates else []


def written(subgraph: Subgraph, program: Program) -> tuple[int, ...]:
    """Return the positions of large buffers that an op overwrites and that fit an output, even if they are still
    reachable. This depends on the structure alone."""
    over = _large_written(program)
    return _fitting(subgraph, program, lambda k, node: k in over) if over else ()


def _may_stop(program: Program) -> bool:
    """Return True if a run may end without results: by a failure, or by a signal during a loop that does not end."""
    return may_fail(program) or may_not_end(program)


def split_fallible(subgraph: Subgraph, program: Program, roots: Sequence[Node]) -> list[list[Node]]:
    """Return the roots of two segments for a subgraph that overwrites a large buffer and may fail or not end. The first
    segment computes the ops that may fail or not end. Return [] for other subgraphs."""
    if not _large_written(program) or not _may_stop(program):
        return []
    failing = [n for n in subgraph.order if fails(n.op, n.params) or never_ends(n.op, n.params)]  # type: ignore[arg-type]
    return [] if {*roots}.issubset(failing) else [failing, list(roots)]


@analysis
def large(program: Program) -> tuple[int, ...]:
    """Return the positions of the inputs that are large enough to be overwritten."""
    return tuple([k for k, a in enumerate(program.in_avals) if nbytes(a) >= policy.SMALL_BYTES])


def _large_written(program: Program) -> list[int]:
    written = program.code.written
    return [k for k in large(program) if k in written] if written else []


def _worth_donating(program: Program) -> Sequence[int]:
    """Return the large inputs that should be donated: on a CPU, only those that XLA overwrites without a copy.

    On a CPU, XLA first copies a donated input that it still has to read, which made a train step a fifth slower. On an
    accelerator, the saved memory is worth the copy.
    """
    candidates = large(program)
    if not candidates or not is_cpu():
        return candidates
    return [*{*_large_written(program), *_updated(program)}]


@analysis
def _updated(program: Program) -> tuple[int, ...]:
    """Return the inputs of at least `policy.LARGE_BYTES` bytes that are read by elementwise ops alone, each with a
    result of the same shape: an optimizer's state, for example."""
    large_on_cpu = [k for k, a in enumerate(program.in_avals) if nbytes(a) >= policy.LARGE_BYTES]
    return tuple([k for k in large_on_cpu if _is_only_updated(program, k)])


def _is_only_updated(program: Program, k: int) -> bool:
    """Return True if all consumers of an input are elementwise ops with a result of its shape. A call counts as the ops
    in it."""
    shape = program.in_avals[k].shape
    for (op, params, slots), out in zip(program.instructions, program.avals, strict=True):
        if ~k not in slots:
            continue
        if op in CALLS:
            body = params[0]
            if not all(j < len(body.in_avals) and _is_only_updated(body, j) for j, s in enumerate(slots) if s == ~k):
                return False
        elif op not in OVERWRITE or out.shape != shape:
            return False
    return True
