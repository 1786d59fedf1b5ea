"""Donation: which buffers a program may write over, because nobody can reach them once it has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from .. import policy
from ..ir.linearize import Subgraph
from ..ir.liveness import unreachable_leaves
from ..ir.node import SCALAR, Node
from ..ir.program import Program
from .failures import fails, may_fail
from .platform import has_started, is_cpu
from .values import sole

__all__ = ["any_large", "apart", "donated", "free", "written"]


def donated(subgraph: Subgraph, program: Program) -> tuple[int, ...]:
    """The positions, among the inputs that are not scalars, of buffers that nobody can reach once this has run, and
    that fit an output."""
    candidates = _worth_donating(subgraph)
    if not candidates:
        return ()
    free = set(unreachable_leaves(subgraph))
    return _fitting(subgraph, program, lambda k, node: k in free and k in candidates and sole(node))


def _fitting(subgraph: Subgraph, program: Program, wanted: Callable[[int, Node], bool]) -> tuple[int, ...]:
    """The positions, among the inputs that are not scalars, of wanted leaves, no more of an aval than outputs have."""
    if may_fail(program):  # and then they are needed again
        return ()
    places = Counter(program.out_avals)
    found = []
    position = 0
    for k, node in enumerate(subgraph.leaves):
        if node.op is SCALAR:
            continue
        if places[node.aval] and wanted(k, node):
            places[node.aval] -= 1
            found.append(position)
        position += 1
    return tuple(found)


def free(subgraph: Subgraph) -> list[int]:
    """The positions, among all inputs, of large ones that nobody can reach once this has run: NumPy may write over them
    where nothing else holds their memory."""
    if not any_large(subgraph.leaves):
        return []
    return [k for k in unreachable_leaves(subgraph) if subgraph.leaves[k].aval.nbytes >= policy.DONATED_BYTES]


def written(subgraph: Subgraph, program: Program) -> tuple[int, ...]:
    """The positions of large buffers that an op writes over, and that fit an output, whoever can still reach them: what
    the structure says of donation."""
    large = _large_written(subgraph)
    return _fitting(subgraph, program, lambda k, node: k in large) if large else ()


def apart(subgraph: Subgraph, program: Program, roots: Sequence[Node]) -> list[list[Node]]:
    """The segments, by their roots, of a subgraph that writes over something large if nothing fails: what may fail, and
    then the rest; none if there is no such need."""
    if not may_fail(program) or not _large_written(subgraph):
        return []
    failing = [n for n in subgraph.order if fails(n.op, n.params)]  # type: ignore[arg-type]
    return [] if {*roots}.issubset(failing) else [failing, list(roots)]


def any_large(leaves: Sequence[Node]) -> bool:
    """Whether one of the leaves may be worth donating."""
    return any(n.aval.nbytes >= policy.DONATED_BYTES for n in leaves)


def _large_written(subgraph: Subgraph) -> set[int]:
    return {k for k in subgraph.structure.code.written if subgraph.leaves[k].aval.nbytes >= policy.DONATED_BYTES}


def _worth_donating(subgraph: Subgraph) -> set[int]:
    """The leaves that are large enough, and, on a CPU, that an op can write over.

    Where XLA merely reuses a donated buffer, it has to copy first what it still reads, which made a train step on a
    CPU a fifth slower. On an accelerator memory is worth that.
    """
    written, leaves = subgraph.structure.code.written, subgraph.leaves
    if not has_started() and not any_large(leaves):
        return set()
    worth = written if is_cpu() else range(len(leaves))
    return {k for k in worth if leaves[k].aval.nbytes >= policy.DONATED_BYTES}
