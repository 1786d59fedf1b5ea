"""Schedule: choose a plan for a subgraph, from its structure and the statistics of earlier runs.

Nothing runs here: `execute` carries the plan out, and takes no decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mxcompat._jax import is_imported

from .. import policy
from ..ir.capture import PROMISE
from ..ir.fields import unevaluated
from ..ir.linearize import Subgraph, linearize, single_node
from ..ir.liveness import live_out
from ..ir.node import ITEM, Node
from ..ir.program import Program
from ..ir.rules import SEGMENTS
from . import background, cache, donation, effects, events, host
from .compile_time import compile_seconds
from .interrupts import uninterrupted
from .placement import placed
from .plan import Autotune, Call, Compile, Find, HostFirst, Inline, OpByOp, Plan, RunEffect, Segments, Split
from .segments import even_segments, is_heavy_node, is_huge, segments_of

__all__ = ["schedule"]


def schedule(subgraph: Subgraph, roots: Sequence[Node], temporary: bool | None) -> Plan:
    """Return the plan for a subgraph.

    Args:
        roots: the nodes that were asked for.
        temporary: True if the subgraph is a segment only until the whole is compiled, False if it always is a segment,
            and None if it is the whole.
    """
    structure, slots, order, leaves = subgraph
    code = structure.code
    if code.has_effects and not code.traced:
        return _plan_effects(subgraph, roots)
    if len(order) > policy.LARGE_GRAPH and not code.traced:
        return Segments(even_segments(subgraph, policy.REPRODUCIBLE or not host.on_host(leaves)), False, None)
    program = structure.program((0,)) if len(order) == 1 else structure.program_for(live_out(subgraph), slots)
    if code.traced:
        return Inline(program)
    program = placed(program, subgraph)
    if segments := donation.split_fallible(subgraph, program, roots):
        return Segments(segments, False, None)
    scalars = tuple([leaves[k].value for k in program.scalars]) if program.scalars else ()
    if policy.REPRODUCIBLE or program.placement is not None:
        plan = _segmented_plan(subgraph, roots, temporary, program)
        if plan is not None:
            return plan
    if policy.REPRODUCIBLE:
        return _reproducible(subgraph, program, scalars)
    donated = donation.donated(subgraph, program)
    executable = cache.find(program, scalars, donated)
    if executable is not None:
        record = program.record
        if record.prefer_xla or not (record.host_runs and host.on_host(leaves)):
            return Call(program, executable, scalars, not temporary, False)
        light, timed = record.host_best < policy.LIGHT_SECONDS, _is_timed(program)
        may_stay, large = record.host_best < policy.AUTOTUNED_SECONDS, _is_large(program)
        alone = timed and not ((may_stay or large) and background.is_busy())  # a background job would compete for CPUs
        # results come from NumPy while XLA is timed, so their bits stay the same if NumPy wins
        if timed and may_stay and not donated:
            runs = policy.AUTOTUNE_RUNS, policy.AUTOTUNE_MIN_RUNS
            autotune = Autotune(executable, *runs, policy.AUTOTUNE_SECONDS) if alone else None
            return OpByOp(program, scalars, donated, True, light, False, "while XLA is timed", autotune)
        enough = (policy.LARGE_MARGIN if large else policy.MARGIN) * (record.xla_best + policy.RESULT_SECONDS)
        if timed or not record.xla_runs or record.host_best >= enough:
            record.prefer_xla = not timed
            return Call(program, executable, scalars, not temporary, alone)
        return OpByOp(program, scalars, donated, True, light, False, "which takes less time than XLA")
    if program.placement is not None:
        return Compile(program, scalars, donated)
    return _without_executable(subgraph, roots, temporary, program, scalars, donated)


def _is_timed(program: Program) -> bool:
    """Return True if the executable must be timed, because the faster of NumPy and XLA is not known yet."""
    record = program.record
    if _is_large(program):
        return record.xla_runs < policy.AUTOTUNE_MIN_RUNS and record.xla_best > record.host_best
    if record.xla_runs and record.xla_best > max(policy.AUTOTUNE_SECONDS, policy.CLEARLY_SLOWER * record.host_best):
        return False
    return record.xla_runs < policy.AUTOTUNE_MIN_RUNS or (
        record.xla_runs < policy.AUTOTUNE_RUNS and record.xla_runs * record.xla_best < policy.AUTOTUNE_SECONDS
    )


def _is_large(program: Program) -> bool:
    """Return True if a program is so large that XLA is expected to be faster, because it fuses ops."""
    return program.record.host_best >= policy.AUTOTUNED_SECONDS and program.weight > policy.FEW_INSTRUCTIONS


def _plan_effects(subgraph: Subgraph, roots: Sequence[Node]) -> RunEffect | Segments:
    """Return the plan for a subgraph with effects (nodes that run alone). Earlier pending effects run first."""
    sequence = effects.sequence(subgraph)
    if sequence == subgraph.order and len(sequence) == 1:
        return RunEffect(sequence[0])
    return Segments(effects.segments(linearize(unevaluated([*sequence, *roots])), sequence, roots), False, None)


def _without_executable(
    subgraph: Subgraph, roots: Sequence[Node], temporary: bool | None, program: Program, scalars: tuple,
    donated: tuple[int, ...],
) -> Plan:  # fmt: skip
    structure, order = subgraph.structure, subgraph.order
    if structure.code.specialized and any(op.uncacheable for op, _, _ in structure.code.instructions):
        return _each_its_own(order, roots, temporary)
    known = program.record is not None
    structure.times_seen += 1
    if host.on_host(subgraph.leaves):
        takes = host.estimated_seconds(program) if host.has_rules(program) else math.inf
        first = takes > policy.LIGHT_SECONDS and not known and temporary is None
        plan = _host_first(subgraph, roots) if first else None
        plan = plan or _on_host(subgraph, program, scalars, donated, temporary, takes)
        if plan is not None:
            return plan
        if not temporary and not is_huge(subgraph.structure.code) and host.is_long(program):
            slots = host.first_states(program)
            return HostFirst(slots) if slots else Compile(program, scalars, donated, hurry=False)
    returned = known or structure.times_seen > 1  # without runs in NumPy there is no record before the first compile
    compiles = returned and not temporary and not is_huge(subgraph.structure.code)
    if len(order) > 1:
        if _mostly_compiled(subgraph):
            return OpByOp(program, scalars, donated, False, False, compiles, "as nearly all have been compiled")
        if segments := segments_of(subgraph, roots) if temporary is None else []:
            return Segments(
                segments, not is_huge(subgraph.structure.code), (program, scalars, donated) if compiles else None
            )
    elif order[0].op in SEGMENTS and is_heavy_node(order[0]):
        results = SEGMENTS[order[0].op](order[0])  # type: ignore[index]
        if results is not None:
            return Split(order[0], results, temporary)
    return Compile(program, scalars, donated)


def _segmented_plan(subgraph: Subgraph, roots: Sequence[Node], temporary: bool | None, program: Program) -> Plan | None:
    """Return a plan in segments for a subgraph that cannot be one executable, because of its structure or of the
    placement of its data. Return None for other subgraphs."""
    code = subgraph.structure.code
    if program.placement is not None and len(program.placement.meshes) > 1:
        return Segments([[root] for root in roots], False, None)
    if code.specialized and any(op.uncacheable for op, _, _ in code.instructions):
        return _each_its_own(subgraph.order, roots, temporary)
    if is_huge(code):
        return _in_segments(subgraph, roots, temporary)
    return None


def _reproducible(subgraph: Subgraph, program: Program, scalars: tuple) -> Plan:
    """Return the plan for reproducible runs: call the Program's one executable. The plan depends on the structure
    alone, not on statistics or on references to buffers."""
    written = donation.written(subgraph, program)
    executable = cache.only(program)
    if executable is None:
        return Compile(program, scalars, written, True)
    copied = tuple({*written}.difference(donation.donated(subgraph, program))) if written else ()
    return Call(program, executable, scalars, False, False, copied)


def _in_segments(subgraph: Subgraph, roots: Sequence[Node], temporary: bool | None) -> Segments | Split | None:
    """Return the plan for a huge subgraph: it is always computed in segments. Return None if it cannot be cut."""
    order = subgraph.order
    if len(order) > 1:
        segments = segments_of(subgraph, roots) if temporary is None else []
        return Segments(segments, False, None) if segments else None
    results = SEGMENTS[order[0].op](order[0])  # type: ignore[index]
    return Split(order[0], results, temporary) if results is not None else None


def _each_its_own(order: Sequence[Node], roots: Sequence[Node], temporary: bool | None) -> Plan:
    """Return the plan for a subgraph with uncacheable nodes: each of them is rewritten before it is computed."""
    if promises := [n for n in order if n.op is PROMISE]:
        return Find(promises)
    if len(order) == 1:
        return Split(order[0], SEGMENTS[order[0].op](order[0]), temporary)  # type: ignore[index]
    segments = [nodes for n in order if n.op.uncacheable for nodes in (unevaluated(n.inputs), [n])]  # type: ignore[union-attr]
    return Segments([*segments, list(roots)], False, None)


def _host_first(subgraph: Subgraph, roots: Sequence[Node]) -> HostFirst | None:
    """Return the plan to run the ops on small data in NumPy first, if the structure of the rest is known then.

    A graph may be new at each step only because a small array in it grows, for example the list of tokens. The rest of
    the graph is the same at each step.
    """
    slots = host.small_slots(subgraph)
    if not slots or len(slots) == len(subgraph.order):
        return None
    nodes = [subgraph.order[k] for k in slots]
    rest = uninterrupted(lambda: _linearize_without(nodes, roots))  # an interrupt would leave nodes with () as value
    if rest.structure.times_seen < policy.KNOWN_MIN_RUNS:
        rest.structure.times_seen += 1
        return None
    return HostFirst(slots)


def _linearize_without(nodes: Sequence[Node], roots: Sequence[Node]) -> Subgraph:
    """Return the subgraph of `roots` as it will be once these nodes have values."""
    try:
        for node in nodes:
            node.value = ()
        return linearize(unevaluated(roots))
    finally:
        for node in nodes:
            node.value = None


def _on_host(
    subgraph: Subgraph, program: Program, scalars: tuple, donated: tuple[int, ...], temporary: bool | None, takes: float
) -> OpByOp | None:
    """Return the plan to run a subgraph in NumPy, or None if that takes too long. `takes` is the estimated time in
    seconds."""
    record = program.record or cache.record_of(program, scalars)  # an existing record notes the scalars when it runs
    light = takes < policy.LIGHT_SECONDS
    if light and not record.host_runs and not host.is_repeated(program):
        return OpByOp(program, scalars, donated, True, True, False, record.age)  # however long its compile would take
    compiling = compile_seconds(program)
    importing = 0.0 if is_imported() else policy.IMPORT_SECONDS
    known = min(takes, record.host_best)
    if known == math.inf or (known > policy.HOPELESS * compiling + importing and donated not in record.pending):
        return None  # an op without a host rule would be compiled separately
    taken = record.host_seconds or (takes if host.is_repeated(program) else 0.0)
    heavy = record.is_heavy(compiling) and not host.is_quick(program)
    share, of_import = (policy.HEAVY_SHARE, policy.HEAVY_IMPORT_SHARE) if heavy else (policy.HOT_SHARE, policy.HOPELESS)
    hot = taken > share * compiling and events.stats.host_seconds >= of_import * importing
    if hot and is_huge(subgraph.structure.code):
        return None
    return OpByOp(program, scalars, donated, True, light, hot and not temporary, record.age)


def _mostly_compiled(subgraph: Subgraph) -> bool:
    """Return True if nearly all ops of a subgraph have a separate executable."""
    missing: set[Any] = set()
    most = 1 + len(subgraph.order) // policy.MISSING_SHARE
    for node in subgraph.order:
        if node.op is ITEM:
            continue
        program = single_node(node).structure.program((0,))
        if program.record is None or not program.record.compiled:
            missing.add(program)
            if len(missing) > most or program.is_nested:
                return False
    return True
