"""Donation: which buffers a program may write over, because nobody can reach them once it has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from .. import policy
from ..ir.linearize import Subgraph
from ..ir.liveness import unreachable_leaves
from ..ir.node import SCALAR, Node
from ..ir.program import Program
from .allocation import nbytes
from .failures import fails, may_fail
from .platform import is_cpu
from .values import sole

__all__ = ["apart", "donated", "free", "large", "written"]


def donated(subgraph: Subgraph, program: Program) -> tuple[int, ...]:
    """The positions, among the inputs that are not scalars, of buffers that nobody can reach once this has run, and
    that fit an output."""
    candidates = _worth_donating(program)
    if not candidates:
        return ()
    free = set(unreachable_leaves(subgraph, candidates))
    return _fitting(subgraph, program, lambda k, node: k in free and sole(node))


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


def free(subgraph: Subgraph, program: Program) -> list[int]:
    """The positions, among all inputs, of large ones that nobody can reach once this has run: NumPy may write over them
    where nothing else holds their memory."""
    candidates = large(program)
    return unreachable_leaves(subgraph, candidates) if candidates else []


def written(subgraph: Subgraph, program: Program) -> tuple[int, ...]:
    """The positions of large buffers that an op writes over, and that fit an output, whoever can still reach them: what
    the structure says of donation."""
    over = _large_written(program)
    return _fitting(subgraph, program, lambda k, node: k in over) if over else ()


def apart(subgraph: Subgraph, program: Program, roots: Sequence[Node]) -> list[list[Node]]:
    """The segments, by their roots, of a subgraph that writes over something large if nothing fails: what may fail, and
    then the rest; none if there is no such need."""
    if not _large_written(program) or not may_fail(program):
        return []
    failing = [n for n in subgraph.order if fails(n.op, n.params)]  # type: ignore[arg-type]
    return [] if {*roots}.issubset(failing) else [failing, list(roots)]


def large(program: Program) -> tuple[int, ...]:
    """The positions, among all inputs, of those that are large enough to be written over; known from the first time
    on."""
    found = program.facts.get("large inputs")
    if found is None:
        sizes = enumerate(program.in_avals)
        found = program.facts["large inputs"] = tuple([k for k, a in sizes if nbytes(a) >= policy.DONATED_BYTES])
    return found


def _large_written(program: Program) -> list[int]:
    written = program.code.written
    return [k for k in large(program) if k in written] if written else []


def _worth_donating(program: Program) -> Sequence[int]:
    """The inputs that are large enough, and, on a CPU, that an op can write over.

    Where XLA merely reuses a donated buffer, it has to copy first what it still reads, which made a train step on a
    CPU a fifth slower. On an accelerator memory is worth that.
    """
    found = large(program)
    return _large_written(program) if found and is_cpu() else found
