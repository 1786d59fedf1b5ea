"""Debugging tools: run op by op, find the first NaN, show the compilations and their reasons.

Arrays are lazy, so an error, a NaN or a slow step shows up at an evaluation, not at the line that caused it. These
tools turn laziness off, or report its decisions.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import numpy as np

from mxcompat._compat.python import caller_of
from mxcompat._graph import policy
from mxcompat._graph.ir.capture import ALIAS, PLACEHOLDER, PROMISE
from mxcompat._graph.ir.linearize import clear_seen
from mxcompat._graph.ir.node import ITEM, PACKAGE, SCALAR, TRACED, Node, created
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.structure import bytes_held, clear_structures, forget_the_oldest, structure_count
from mxcompat._graph.ir.trace_stack import readable
from mxcompat._graph.run import background, budget, events, jax_traces, single
from mxcompat._graph.run.evaluate import evaluate
from mxcompat._jax import jax
from mxcompat._ops.fast.metal import METAL_KERNEL, check_bounds
from mxcompat._transforms.compiling import compile_disabled

__all__ = [
    "CacheInfo", "bounds_check", "cache_info", "cache_limit", "cache_size", "clear_cache", "compiles", "eager",
    "explain", "host_disabled", "nan_check",
]  # fmt: skip


def compiles() -> int:
    """Return the number of programs compiled so far, after waiting for running compilations. Recompilations for speed
    and executables loaded from disk do not count.

    Example:
        >>> before = mx.ext.debug.compiles()
        >>> for step in range(100):
        ...     mx.eval(mx.sin(mx.ones((3, 5)) * step))
        >>> mx.ext.debug.compiles() - before < 10  # not a hundred
        True
    """
    background.settle()
    return events.stats.compiles


def cache_size() -> int:
    """Return the number of cached program structures. Their memory is bounded.

    Returns:
        An int.

    Example:
        >>> mx.ext.debug.clear_cache()
        >>> mx.eval(mx.ones(3) + 1)
        >>> mx.ext.debug.cache_size() > 0
        True
    """
    return structure_count()


class CacheInfo(NamedTuple):
    """The contents of the program caches, with estimates of their memory in bytes.

    Args:
        structures, structure_bytes: structures of graphs, which are Python objects.
        executables, executable_bytes: programs compiled by XLA.
        traces, trace_bytes: jitted functions with the shapes that JAX has seen, including the user's own.
        limit: the most bytes that the three may take together.

    Example:
        >>> mx.ext.debug.cache_info()._fields
        ('structures', 'structure_bytes', 'executables', 'executable_bytes', 'traces', 'trace_bytes', 'limit')
    """

    structures: int
    structure_bytes: int
    executables: int
    executable_bytes: int
    traces: int
    trace_bytes: int
    limit: int


def cache_info() -> CacheInfo:
    """Return the contents of the program caches. The bytes are estimated from the number of instructions and the size
    of the machine code.

    Example:
        >>> info = mx.ext.debug.cache_info()
        >>> info.structure_bytes + info.executable_bytes + info.trace_bytes <= info.limit
        True
    """
    return CacheInfo(
        structure_count(), bytes_held(), budget.count(), budget.held(), jax_traces.count(), jax_traces.held(),
        policy.CACHE_BYTES,
    )  # fmt: skip


def cache_limit(limit: int | None = None) -> int:
    """Set and return the memory limit of the program caches. The least recently used programs are evicted first.

    The default is a quarter of a gigabyte, or 2 % of the memory of a machine with less than 12.5 GB. If an evicted
    program must be compiled again, the limit rises, up to four times the default. A limit that is set here, or by the
    environment variable `MXCOMPAT_CACHE_LIMIT`, does not change.

    Args:
        limit: the new limit in bytes; None for no change.

    Returns:
        The previous limit, in bytes.

    Raises:
        ValueError: if the limit is not positive.

    Example:
        >>> before = mx.ext.debug.cache_limit(1 << 30)
        >>> mx.ext.debug.cache_limit(before)
        1073741824
    """
    before = policy.CACHE_BYTES
    if limit is not None:
        if limit <= 0:
            raise ValueError(f"[cache_limit] Expected a positive number of bytes, got {limit}.")
        policy.set_limit(int(limit))
        if forget_the_oldest():
            clear_seen()
        budget.make_room()
    return before


def clear_cache() -> None:
    """Remove all cached programs and their compiled code, and return the memory to the system. Arrays are unaffected.

    Example:
        >>> mx.ext.debug.clear_cache()
        >>> mx.ext.debug.cache_size()
        0
    """
    background.settle()
    clear_structures()
    clear_seen()
    single.clear()
    budget.clear()


@contextmanager
def eager() -> Iterator[None]:
    """Run every op at once within this context, so that errors and time show up at their line.

    Functions of `mx.compile` run as plain Python. Functions under `vmap` stay lazy, because their arrays have no value.

    Example:
        >>> with mx.ext.debug.eager():
        ...     y = mx.exp(mx.zeros(2))  # has run
    """
    with _after_each_op(lambda node: None):
        yield


@contextmanager
def nan_check() -> Iterator[None]:
    """Run every op at once, as `eager` does, and raise at the first op whose result has a NaN.

    Raises:
        FloatingPointError: names the op, the line that called it, and whether its inputs had NaNs already.

    Example:
        >>> with mx.ext.debug.nan_check():
        ...     y = mx.log(mx.array(-1.0)) + 1
        Traceback (most recent call last):
            ...
        FloatingPointError: ...log...
    """

    def check(node: Node) -> None:
        if _has_nan(node.value):
            came_in = " Its inputs have NaNs." if any(_has_nan(i.value) for i in inputs[0]) else ""
            raise FloatingPointError(f"[{inputs[1]}] made a NaN, called at {_place()}.{came_in}")

    inputs: list[Any] = [(), None]

    def remember(node: Node) -> None:
        inputs[:] = [node.inputs, node.op]

    with _after_each_op(check, remember):
        yield


@contextmanager
def bounds_check() -> Iterator[None]:
    """Run every op at once, as `eager` does, and raise if a thread of a Metal kernel reads or writes out of bounds.

    Without it, such a read gives zero, and such a write is dropped. Each kernel is run once more, in NumPy.

    Raises:
        IndexError: names the kernel, the line, the thread and the index.

    Example:
        >>> shift = mx.fast.metal_kernel(
        ...     name="shift", input_names=["x"], output_names=["y"],
        ...     source="uint i = thread_position_in_grid.x; y[i] = x[i + 1];",
        ... )
        >>> with mx.ext.debug.bounds_check():
        ...     shift(inputs=[mx.ones(4)], output_shapes=[(4,)], output_dtypes=[mx.float32], grid=(4, 1, 1),
        ...           threadgroup=(4, 1, 1))
        Traceback (most recent call last):
            ...
        IndexError: [metal_kernel] shift: source line 1: thread (3, 0, 0) reads x[4], which has 4 elements.
    """

    def check(node: Node) -> None:
        if node.op is METAL_KERNEL:
            check_bounds(node)

    with _after_each_op(lambda node: None, check):
        yield


def _has_nan(value: Any) -> bool:
    return any(
        jax.numpy.issubdtype(np.asarray(v).dtype, np.inexact) and bool(np.isnan(np.asarray(v)).any())
        for v in jax.tree.leaves(value)
    )


@contextmanager
def _after_each_op(check: Any, before: Any = lambda node: None) -> Iterator[None]:
    thread = threading.get_ident()

    def run(node: Node) -> None:
        leaf = node.op in (None, SCALAR, TRACED, ITEM, ALIAS, PLACEHOLDER, PROMISE) or node.value is not None
        if leaf or threading.get_ident() != thread or not readable():
            return
        before(node)
        evaluate([node])
        check(node)

    created.append(run)
    try:
        with compile_disabled():
            yield
    finally:
        created.remove(run)


def _place() -> str:
    """Return the user's line that is being executed."""
    frame = caller_of(1)
    if frame is None:
        return "an unknown place"
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_TELLING = {"compile": "compile", "load": "loaded from disk"}
"""The word for each event with which a message of `explain` begins."""


@contextmanager
def explain(file: TextIO | None = None) -> Iterator[list[str]]:
    """Report within this context how each evaluation is carried out, and why.

    The messages name each program that is compiled, or loaded from disk because an earlier process compiled it, and the
    difference from the last time. They name the line that caused the evaluation. For a program over several devices
    (`mx.ext.sharding`), they list the communication that XLA inserted, with the bytes for each device. An evaluation
    that goes as before is not reported again.

    Args:
        file: the file to write to; standard error by default.

    Returns:
        The list of messages, as the value of `with`.

    Example:
        >>> with mx.ext.debug.explain() as messages:
        ...     mx.eval(mx.exp(mx.ones((7, 64))) * 2)
        >>> print(messages[0])
        plan: 3 ops one by one in NumPy, seen for the first time, evaluated at ...
    """
    messages: list[str] = []
    plans: dict[str, str] = {}
    programs: dict[str, Program] = {}
    out = file or sys.stderr

    def say(text: str) -> None:
        messages.append(text)
        out.write(text + "\n")

    def observe(event: str, subject: Any, reason: str) -> None:
        if event == "plan":
            place, text = _place(), str(subject)
            if plans.get(place) != text:
                plans[place] = text
                say(f"plan: {text}, evaluated at {place}")
        elif event in _TELLING:
            place = _place()
            text = f"{_TELLING[event]}: {len(subject.instructions)} ops, {reason}, evaluated at {place}"
            previous = programs.get(place)
            if previous is not None and previous is not subject:
                text += ": " + _difference(previous, subject)
            programs[place] = subject
            say(text)
        elif event == "partition":
            over = " and ".join(str(dict(mesh.shape)) for mesh in subject.placement.meshes)
            say(f"partitioned: {len(subject.instructions)} ops over {over}: {reason}, evaluated at {_place()}")

    events.observers.append(observe)
    try:
        yield messages
    finally:
        events.observers.remove(observe)


@contextmanager
def host_disabled() -> Iterator[None]:
    """Compile new programs at once within this context, rather than running them in NumPy first. Use it to find out
    if NumPy's tier causes an error. It holds in all threads.

    The environment variable `MXCOMPAT_HOST=0` has the same effect for a whole process.

    Example:
        >>> with mx.ext.debug.host_disabled():
        ...     mx.eval(mx.ones((2,)) + 1)
    """
    before, policy.HOST = policy.HOST, False
    try:
        yield
    finally:
        policy.HOST = before


def _difference(old: Program, new: Program) -> str:
    """Describe the first difference between two programs in a few words."""
    if len(old.in_avals) == len(new.in_avals):
        for k, (a, b) in enumerate(zip(old.in_avals, new.in_avals, strict=True)):
            if a is not b:
                return f"input {k} is {b}, was {a}"
    for k, (a, b) in enumerate(zip(old.instructions, new.instructions, strict=False)):
        if a != b:
            return f"op {k} is {b[0]}{list(b[1]) or ''}, was {a[0]}{list(a[1]) or ''}"
    if len(old.instructions) != len(new.instructions):
        return f"{len(new.instructions)} ops, were {len(old.instructions)}"
    return "other intermediates are still in use"
