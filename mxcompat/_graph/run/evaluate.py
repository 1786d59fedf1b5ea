"""Evaluate: give pending nodes their values.

The pending graph is linearized, `schedule` chooses a plan, and `execute` carries it out. Plans that need a compile or
further evaluations are carried out here, without the lock, so that other threads can continue.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from mxcompat._jax import jax

from ..ir.capture import PROMISE, keep_promise
from ..ir.fields import unevaluated
from ..ir.linearize import linearize
from ..ir.node import SCALAR, Node
from . import allocation, cache, effects, single
from .compile import Executable
from .events import notify, span, stats
from .execute import execute, fail, store
from .plan import Call, Compile, Find, OpByOp, RunEffect, Segments, Split
from .schedule import schedule
from .segments import nested_apart
from .values import jax_value, numpy_value
from .waiting import until_ready

__all__ = ["evaluate", "evaluated", "evaluated_on_host", "here", "lock", "pre_eval_hooks", "wait"]

pre_eval_hooks: list[Callable[[], None]] = []
"""Callbacks that run once, before the next evaluation: rewrites of pending nodes that should see all of them."""


class _PerThread(threading.local):
    """Settings for the evaluations of this thread.

    Args:
        refused: the message of the error if this thread may not evaluate; otherwise None.
    """

    refused: str | None = None


here = _PerThread()

lock = threading.RLock()
"""Held while an evaluation walks the graph, and while pending nodes that other threads can see are rewritten."""

if hasattr(os, "register_at_fork"):  # a fork waits for a running evaluation, so a child never sees half of one
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def evaluate(roots: Sequence[Node]) -> tuple[Sequence[Node], Executable | None]:
    """Compute the roots. Return when the work has been started, not when it is done.

    Returns:
        The arguments of `wait`: nodes, and the executable that was run last, if any. One node stands for all results of
        an executable, because these are ready together.

    Raises:
        RuntimeError: if this thread may not evaluate.
    """
    pending = unevaluated(roots)
    if not pending:
        return roots, None
    if here.refused is not None:
        raise RuntimeError(here.refused)
    before = stats.executions
    if pre_eval_hooks:
        with lock:
            while pre_eval_hooks:
                pre_eval_hooks.pop()()
    with span("evaluate"):
        executable = _compute(pending, None)
    if stats.executions != before + 1:
        return roots, executable
    if len(pending) == len(roots):
        return pending[:1], executable
    computed = {*pending}
    return [pending[0], *[n for n in roots if n not in computed]], executable


def _compute(roots: Sequence[Node], temporary: bool | None) -> Executable | None:
    """Compute the roots (`temporary`: see `schedule`). Return the executable that was run last, if any."""
    executable = None
    while True:
        with lock:
            pending = unevaluated(roots)
            if not pending:
                return executable
            if len(pending) == 1 and not temporary:
                value = single.value_of(pending[0])
                if value is not None:
                    store(pending, (value,))
                    return executable
            subgraph = linearize(pending)
            if not subgraph.order:
                continue  # the roots were outputs of a node that already has its values
            plan = schedule(subgraph, pending, temporary)
            notify("plan", plan)
            if type(plan) is Call:
                execute(plan, subgraph)
                executable = plan.executable
                after = executable.wait_if_hot
            elif type(plan) is Compile:
                after = _compiling(plan, pending)
            elif type(plan) is Segments or type(plan) is Split:
                after = _in_segments(plan)
            elif type(plan) is RunEffect:
                after = _running(plan)
            elif type(plan) is Find:
                after = _finding(plan)
            else:
                execute(plan, subgraph)  # type: ignore[arg-type]
                after = _waiting(plan) if type(plan) is OpByOp else None
            del subgraph  # its references would make every node look live
        if after is not None:
            after()
        del plan, pending


def _compiling(plan: Compile, pending: Sequence[Node]) -> Callable[[], None]:
    def compile() -> None:
        try:
            cache.compile_now(*plan)
        except Exception as error:
            fail(error, linearize(pending))

    return compile


def _running(plan: RunEffect) -> Callable[[], None]:
    def run() -> None:
        with effects.lock:  # not the graph's lock: the effect may need values that another thread evaluates
            if plan.node.value is None:
                values = effects.run_effect(plan.node)
                with lock:
                    store([plan.node], [values])

    return run


def _finding(plan: Find) -> Callable[[], None]:
    def find() -> None:
        with lock:
            for node in plan.placeholders:
                if node.op is PROMISE:  # another thread may have resolved it
                    keep_promise(node)

    return find


def _waiting(plan: OpByOp) -> Callable[[], None] | None:
    return (lambda: cache.wait_if_hot(plan.program, plan.donated)) if plan.compiles else None


def _in_segments(plan: Segments | Split) -> Callable[[], None]:
    """Return a function that computes the segments of a plan in order."""
    if isinstance(plan, Split):
        return lambda: _split(plan)
    segments, temporary, compiles = plan
    if compiles is not None:
        cache.compile_soon(*compiles)

    def run() -> None:
        for segment in segments:
            _compute(segment, temporary)
        if compiles is not None:
            cache.wait_if_hot(compiles[0], compiles[2])

    return run


def _split(plan: Split) -> None:
    node, results, temporary = plan
    with lock:
        segments = nested_apart(linearize(unevaluated(results)), results)
    for segment in segments:
        _compute(segment, temporary)
    store([node], [tuple([evaluated(n) for n in results])])


def evaluated(node: Node) -> Any:
    """Return the value of a node as a JAX array, and compute it if necessary."""
    if node.value is None:
        evaluate([node])
    if node.op is SCALAR:
        with jax.enable_x64(True):
            return jax.numpy.asarray(node.value, dtype=node.aval.dtype._numpy)
    return jax_value(node)


def evaluated_on_host(node: Node) -> np.ndarray:
    """Return the value of a node as a NumPy array, and compute it if necessary. The array shares the value's memory if
    that belongs to this process."""
    under_way = evaluate([node]) if node.value is None else None
    value = node.value
    if type(value) is np.ndarray:
        return value
    if under_way is not None:
        wait(*under_way)
    try:
        if node.op is SCALAR:
            with np.errstate(all="ignore"):
                return np.asarray(numpy_value(node))
        return numpy_value(node)
    except Exception as error:
        raise allocation.out_of_memory(error) or effects.explained(error)  # noqa: B904  it has its cause already


def wait(nodes: Sequence[Node], executable: Executable | None) -> None:
    """Block until the values are ready; the arguments are the result of `evaluate`."""
    # NumPy arrays and tracers lack this method
    values = [n.value for n in nodes if hasattr(n.value, "block_until_ready")]
    if values:
        try:
            with span("wait"):
                until_ready(values, executable is None or executable.should_spin)
                if executable is not None:
                    executable.seconds = perf_counter() - executable.started
        except Exception as error:
            raise allocation.out_of_memory(error) or effects.explained(error)  # noqa: B904  it has its cause already
