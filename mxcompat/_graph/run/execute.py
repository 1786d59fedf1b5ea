"""Execute: carry out a plan that computes a subgraph, and store the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter, thread_time
from typing import Any, NoReturn

import numpy as np

from mxcompat._jax import jax

from .. import policy
from ..ir import buffers
from ..ir.aval import number
from ..ir.fields import arrays_of
from ..ir.linearize import Subgraph, linearize, single_node
from ..ir.liveness import leaves_late
from ..ir.node import ITEM, SCALAR, Node, location
from ..ir.node import store as _store
from ..ir.outputs import resolve_outputs
from ..ir.rules import CONSTANT
from ..ir.trace_stack import oldest_trace
from . import allocation, cache, donation, heap, host, single
from .autotune import time_both
from .compile import Executable
from .events import span, stats, timers
from .interpret import counts
from .interrupts import uninterrupted
from .kernel_time import seconds_in_kernels
from .plan import Call, HostFirst, Inline, OpByOp
from .values import jax_value
from .waiting import until_ready

__all__ = ["execute", "fail", "store"]


def execute(plan: Call | Inline | HostFirst | OpByOp, subgraph: Subgraph) -> None:
    """Carry out a plan on this subgraph."""
    carry_out = _EXECUTE[type(plan)]
    if not timers:
        carry_out(plan, subgraph)
        return
    with span(plan.tier):
        carry_out(plan, subgraph)


def _call(plan: Call, subgraph: Subgraph) -> None:
    program, executable, scalars = plan.program, plan.executable, plan.scalars
    order, leaves = subgraph.order, subgraph.leaves
    # the last condition is false if an input got its value after the graph was ordered
    alone = len(order) == 1 and not scalars and leaves == [*order[0].inputs]
    if alone and program.placement is None and not donation.large(program):
        node = order[0]
        single.remember(node.op, node.params, [i.aval for i in node.inputs], executable)  # type: ignore[arg-type]
    outputs = [*map(order.__getitem__, program.out_slots)]
    if executable.donated:
        uninterrupted(lambda: _run_and_store(plan, subgraph, outputs))
    else:
        _run_and_store(plan, subgraph, outputs)


def _run_and_store(plan: Call, subgraph: Subgraph, outputs: Sequence[Node]) -> None:
    program, executable, scalars, counts, timed, copied = plan
    start = perf_counter() if timed else 0.0
    values = _run(executable, subgraph, scalars, counts, copied)
    if timed:
        until_ready(values, executable.should_spin)
        record = program.record
        record.xla_runs += 1
        record.xla_best = min(record.xla_best, perf_counter() - start)
    try:
        store(outputs, values)
    # Store again after an interruption, for example by a signal handler: inputs may be overwritten already.
    except BaseException:
        store(outputs, values)
        raise


def _run(
    executable: Executable, subgraph: Subgraph, scalars: tuple, counts: bool, copied: tuple[int, ...]
) -> list[Any]:
    """Run an executable on the leaves. An error names the op that failed and the user's line that called it."""
    stats.executions += 1
    took_over = False
    try:
        arrays = arrays_of(subgraph.leaves)
        if executable.program.placement is None and not _HELD_BY_NUMPY.isdisjoint(map(type, arrays)):
            arrays.clear()  # each NumPy array is freed once XLA has its copy
            donated, nodes = {*executable.donated}, [n for n in subgraph.leaves if n.op is not SCALAR]
            arrays += [jax_value(n, k in donated) for k, n in enumerate(nodes)]
            took_over = sum([x.nbytes for x in arrays]) >= policy.FREED_BYTES
        if took_over or executable.seconds >= policy.TRIMMED_SECONDS:
            heap.give_back()
        for k in copied:
            arrays[k] = arrays[k].copy()
        values = _called(executable, arrays, scalars, counts)
    except Exception as error:
        fail(error, subgraph)
    for k in executable.donated:
        buffers.untrack(arrays[k])
    return values


def _called(executable: Executable, arrays: list[Any], scalars: tuple, counts: bool) -> list[Any]:
    """Call an executable. If it needs much memory, check that first and wait for the results, so that a failed run
    stores no value."""
    if not executable.needs:
        return executable(arrays, scalars, counts)
    allocation.require(executable.needs)
    return jax.block_until_ready(executable(arrays, scalars, counts))


_HELD_BY_NUMPY = {np.ndarray, tuple}
"""The types of values that may come from NumPy; several outputs are in a tuple."""


def fail(error: Exception, subgraph: Subgraph) -> NoReturn:
    """Raise the error of an evaluation, with a note that names the op and the user's line that called it. If memory ran
    out, raise MLX's error, and name the op with the largest result."""
    slot, memory = getattr(error, "mxcompat_slot", None), allocation.out_of_memory(error)
    if memory is not None and slot is None:
        slot = max(range(len(subgraph.order)), key=lambda k: allocation.largest([subgraph.structure.avals[k]]))
    if slot is not None:
        node = subgraph.order[slot]
        place = location(node) or "an unknown place"
        (memory or error).add_note(f"In the evaluation of [{node.op}], called at {place}.")
    try:
        raise memory or error
    finally:
        del error, memory  # otherwise the frame and the tracebacks form a reference cycle


def _inline(plan: Inline, subgraph: Subgraph) -> None:
    inputs = [number(n.value, n.aval.dtype) if n.op is SCALAR else n.value for n in subgraph.leaves]
    with jax.enable_x64(True):
        values = plan.program.replay(inputs)
    store([subgraph.order[k] for k in plan.program.out_slots], values)


def _op_by_op(plan: OpByOp, subgraph: Subgraph) -> None:
    if plan.compiles:
        cache.compile_soon(plan.program, plan.scalars, plan.donated)
    record = cache.record_of(plan.program, plan.scalars)  # also notes which scalars vary
    start = perf_counter()
    if plan.on_host:
        _in_numpy(plan, subgraph, record)
    else:
        slots = plan.program.out_slots
        store([subgraph.order[k] for k in slots], _with_executables(subgraph, slots))
    if perf_counter() - start >= policy.TRIMMED_SECONDS:
        heap.give_back()


def _in_numpy(plan: OpByOp, subgraph: Subgraph, record: cache.Record) -> None:
    program = plan.program
    products = host.has_products(program)
    free: list[int] | None = [] if plan.autotune else donation.free(subgraph, program)
    if not free and plan.light and not counts(program):
        free = None
    env: list[Any] = []
    before, in_kernels = 0.0 if plan.light else thread_time(), seconds_in_kernels()
    start = perf_counter()
    try:
        if not plan.light:
            allocation.require(allocation.largest_result(program))
        run = partial(host.run, program, subgraph.leaves, env, products, free)
        values = uninterrupted(run) if free and plan.light else run()
        taken = perf_counter() - start
        record.host_runs += 1
        in_kernels = seconds_in_kernels() - in_kernels
        seconds = taken if plan.light else thread_time() - before - in_kernels
        record.host_seconds += seconds
        record.kernel_seconds += in_kernels
        stats.host_seconds += seconds
        record.host_best = min(record.host_best, taken)
        if record.host_runs == 1 and not plan.light:
            host.note_nested(program)
        if plan.autotune is not None:
            time_both(plan.autotune, plan, subgraph, record, products)
        store([subgraph.order[k] for k in program.out_slots], values)
    except BaseException as error:
        try:
            if isinstance(error, Exception):
                fail(error, subgraph)
            raise
        finally:
            if free:
                uninterrupted(lambda: host.keep(subgraph, env))


def _with_executables(subgraph: Subgraph, out_slots: Sequence[int]) -> list[Any]:
    """Compute the values of these slots, with one executable per op."""
    kept = set(out_slots)
    code = subgraph.structure.code
    uses = list(code.uses)
    values: dict[Node, Any] = {}
    for slot in leaves_late(code.instructions):
        node, slots = subgraph.order[slot], code.instructions[slot][2]
        if node.op is ITEM:
            values[node] = values[node.inputs[0]][node.params[0]]
        else:
            one = single_node(node)
            program = one.structure.program((0,))
            scalars = tuple([one.leaves[k].value for k in program.scalars])
            stats.executions += 1
            try:
                executable = cache.find(program, scalars, ()) or cache.compile_now(program, scalars, ())
                arrays = [values[n] if n in values else jax_value(n) for n in one.leaves if n.op is not SCALAR]
                (values[node],) = _called(executable, arrays, scalars, False)
            except Exception as error:
                error.mxcompat_slot = slot  # type: ignore[attr-defined]
                fail(error, subgraph)
        for s in slots:
            if s >= 0:
                uses[s] -= 1
                if not uses[s] and s not in kept:
                    values.pop(subgraph.order[s], None)
    return [values[subgraph.order[k]] for k in out_slots]


def _host_first(plan: HostFirst, subgraph: Subgraph) -> None:
    """Compute some nodes in NumPy. They are leaves of the rest of the graph then."""
    nodes = [subgraph.order[k] for k in plan.slots]
    constant = CONSTANT.issuperset([n.op for n in nodes])
    first = subgraph if constant else linearize(nodes)
    try:
        values = host.constants(nodes) if constant else host.run(first.structure.program(first.roots), first.leaves, [])
    except Exception as error:
        fail(error, first)
    store(nodes, values)


def store(nodes: Sequence[Node], values: Iterable[Any]) -> None:
    """Give nodes their values, and count their memory."""
    if waiting := _store(nodes, values, oldest_trace()):
        resolve_outputs(waiting)


_EXECUTE: dict[type, Callable[[Any, Subgraph], None]] = {
    Call: _call,
    Inline: _inline,
    HostFirst: _host_first,
    OpByOp: _op_by_op,
}
