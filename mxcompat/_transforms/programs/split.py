"""Large derivatives, computed in segments to limit XLA's compile time.

The compile time grows faster than the size of a program, above all for derivatives: an unrolled loop of 150 steps takes
XLA minutes. So the Program of a large `vjp` is cut into segments. A forward pass runs all segments. A backward pass
then differentiates each at its recorded inputs, from the last to the first. The segments of an unrolled loop are the
same Program, which is compiled once. The price is that the forward pass is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, Node, apply, items, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import FAILURE, LOWERING, SEGMENTS
from mxcompat._graph.run.failures import beside
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import cast_node

from ..calls import CALL, run
from ..derivative_dtypes.integers import passes_integers
from ..transform_ops import VJP

__all__ = ["PULL", "Segment", "cotangent_like", "segments", "zeros"]


class Segment(NamedTuple):
    """A segment of a Program.

    Args:
        program: the instructions of the segment.
        inputs: the slots of the whole Program that the segment reads; the first `primals` of them have gradients.
        outputs: the slots that later segments or the caller read; the first `cotangents` of them have cotangents.
        captured: constants, which are the segment's last inputs.
    """

    program: Program
    inputs: tuple[int, ...]
    primals: int
    outputs: tuple[int, ...]
    cotangents: int
    captured: list[Node]


def _pull(*inputs: Any, program: Program, primals: int, outputs: int) -> tuple:
    return LOWERING[VJP](*inputs, program=program, primals=primals, outputs=outputs)[len(program.out_slots) :]


PULL = Op(
    "pull",
    _pull,
    lambda *_, program, primals, outputs: program.in_avals[:primals],
    ("program", "primals", "outputs"),
)
"""The gradients of `vjp`, without the outputs."""

FAILURE[PULL] = beside(PULL)


def _in_segments(node: Node) -> list[Node] | None:
    """Return the outputs of a `vjp` node, computed by nodes of its segments. Return None if it should run as a
    whole."""
    program, primals, outputs = node.params
    parts = _cut(program, primals, outputs)
    if parts is None:
        return None
    env = {~k: n for k, n in enumerate(node.inputs[: len(program.in_avals)])}
    for segment in parts:
        results = items(run(segment.program, tuple([env[s] for s in segment.inputs])))
        env.update(zip(segment.outputs, results, strict=True))
    cotangents: dict[int, Node] = {}

    def add(slot: int, cotangent: Node) -> None:
        known = cotangents.get(slot)
        cotangents[slot] = cotangent if known is None else apply(TABLE["add"], (known, cotangent))

    for slot, seed in zip(program.out_slots, node.inputs[len(program.in_avals) :], strict=False):
        if env[slot].aval.dtype._kind in "fc":
            add(slot, cotangent_like(seed, env[slot].aval))
    for segment in reversed(parts):
        known = [cotangents.pop(s, None) for s in segment.outputs[: segment.cotangents]]
        if any(known):
            inputs = [env[s] for s in segment.inputs]
            seeds = [zeros(env[s].aval) if c is None else c for c, s in zip(known, segment.outputs, strict=False)]
            pulled = apply(PULL, (*inputs, *seeds), (segment.program, segment.primals, segment.cotangents))
            for slot, gradient in zip(segment.inputs, items(pulled), strict=False):
                add(slot, gradient)
    gradients = [cotangents.get(~k) or zeros(program.in_avals[k]) for k in range(primals)]
    return [*[env[s] for s in program.out_slots], *gradients]


def cotangent_like(cotangent: Node, like: Aval) -> Node:
    """Cast and broadcast a cotangent to this aval."""
    cast = cast_node(cotangent, like.dtype)
    return cast if cast.aval is like else apply(TABLE["broadcast_to"], (cast,), (like.shape,))


def zeros(like: Aval) -> Node:
    """Return zeros of this aval."""
    return apply(TABLE["broadcast_to"], (scalar(0, aval((), like.dtype)),), (like.shape,))


@analysis
def _cut(program: Program, primals: int, outputs: int) -> list[Segment] | None:
    instructions = program.instructions
    if len(instructions) < policy.LARGE_PROGRAM or any(a.dtype._kind not in "fc" for a in program.in_avals[:primals]):
        return None
    if passes_integers(program, primals, outputs):
        return None
    active = {~k for k in range(primals)}
    for k, (_, _, slots) in enumerate(instructions):
        if not active.isdisjoint(slots):
            active.add(k)

    def moves(slot: int) -> bool:
        return slot in active and program.aval(slot).dtype._kind in "fc"

    parts = segments(program, _parts(program), moves)
    return None if parts is None or any(s.captured for s in parts) else parts


def segments(
    program: Program, parts: Sequence[Sequence[int]], moves: Callable[[int], bool], mode: str = "call"
) -> list[Segment] | None:
    """Cut a Program into segments.

    Args:
        parts: the slots of each segment, in an order of execution.
        moves: returns True for a slot that has a derivative.
        mode: the mode in which the segments are captured, see `Capture`.

    Returns:
        The segments, or None if a segment would read or return the tuple of all results of an op.
    """
    instructions = program.instructions
    place = {s: k for k, part in enumerate(parts) for s in part}
    read_later = set(program.out_slots)
    reversed_segments: list[Segment] = []
    for k in reversed(range(len(parts))):
        part = parts[k]
        reads = dict.fromkeys(s for j in part for s in instructions[j][2] if place.get(s) != k)
        handed_on = [s for s in part if s in read_later]
        read_later.update(reads)
        if any(isinstance(program.aval(s), tuple) for s in (*reads, *handed_on)):
            return None
        inputs = sorted(reads, key=lambda s: not moves(s))
        results = sorted(handed_on, key=lambda s: not moves(s))
        with Capture([program.aval(s) for s in inputs], mode=mode) as capture:
            env: dict[int, Node] = dict(zip(inputs, capture.placeholders, strict=True))
            for j in part:
                op, params, slots = instructions[j]
                env[j] = apply(op, tuple([env[s] for s in slots]), params)
            body = capture.close([env[s] for s in results])
        active, moving = sum(map(moves, inputs)), sum(map(moves, results))
        reversed_segments.append(Segment(body.program, tuple(inputs), active, tuple(results), moving, body.captured))
    return reversed_segments[::-1]


def _parts(program: Program) -> list[list[int]]:
    """Return the slots of each segment in execution order. Segments of a program that repeats itself are equal."""
    following: dict[int, list[int]] = {}  # an op with several results shares a segment with its ITEMs
    for k, (op, _, slots) in enumerate(program.instructions):
        if op is ITEM and slots[0] >= 0:
            following.setdefault(slots[0], []).append(k)
    moved = {k for ks in following.values() for k in ks}
    order = [j for k in range(len(program.instructions)) if k not in moved for j in (k, *following.get(k, ()))]
    kinds: dict[Any, int] = {}
    sequence = np.array([kinds.setdefault(program.instructions[k][:2], len(kinds)) for k in order])
    period, start = _period(sequence)
    size = period * max(1, policy.SEGMENT_SIZE // period) if period else policy.SEGMENT_SIZE
    cuts = [0, *range(start or size, len(order) - size // 2, size), len(order)]
    parts = [order[a:b] for a, b in pairwise(cuts)]
    for earlier, later in pairwise(parts):
        while later and later[0] in moved:
            earlier.append(later.pop(0))
    return [part for part in parts if part]


def _period(sequence: np.ndarray) -> tuple[int, int]:
    """Return the number of instructions after which a program mostly repeats itself, and the start; zeros if it does
    not."""
    for period in range(2, min(len(sequence) // 3, policy.LARGE_PROGRAM)):
        same = sequence[period:] == sequence[:-period]
        if same.mean() > policy.PERIODIC_SHARE:
            runs = np.flatnonzero(np.convolve(same, np.ones(period), "valid") == period)
            return period, int(runs[0]) if len(runs) else 0
    return 0, 0


def _inlined(node: Node) -> Sequence[Node]:
    """Inline a call: return its outputs, computed by the nodes of its instructions."""
    return node.params[0].rebuild(node.inputs)


SEGMENTS[VJP] = _in_segments
SEGMENTS[CALL] = _inlined
