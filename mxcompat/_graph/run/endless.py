"""Endless loops: a signal stops XLA's loops whose length only the data tell.

Python runs signal handlers in the main thread, which waits for XLA then. So a loop asks C every few steps if a signal
has arrived (`_native/interrupts.c`), and ends early if so. The results of that run are dropped, and Python runs the
handler. If the handler raises no exception, the program runs again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mxcompat._compat.jax_internals import is_for_one_device
from mxcompat._jax import jax, jnp, lax, mlir
from mxcompat._native import native

from .. import policy
from ..ir.analyses import analysis
from ..ir.op import Op
from ..ir.program import Code, Program, programs_in
from ..ir.rules import ENDLESS
from .foreign import STOP, register
from .platform import on_cpu

__all__ = ["may_not_end", "never_ends", "stoppable", "while_loop"]


def may_not_end(program: Program) -> bool:
    """Return True if a Program has a loop that the data may keep from ending, also in a nested Program."""
    return _may_not_end(program.code)


@analysis
def _may_not_end(code: Code) -> bool:
    return any(never_ends(op, params) for op, params, _ in code.instructions)


def never_ends(op: Op, params: tuple) -> bool:
    """Return True if an instruction, or one in a nested Program, has a loop that may not end."""
    return (op in ENDLESS and ENDLESS[op](params)) or any(map(may_not_end, programs_in(params)))


def stoppable(program: Program, call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Wrap the call of an executable, so that signals stop the loops of a Program that may not end."""
    if native is None or not on_cpu() or not may_not_end(program):
        return call

    def calling(*arguments: Any) -> list[Any]:
        watches = threading.current_thread() is threading.main_thread()
        while True:
            stops = native.stops()
            try:
                if watches:
                    native.watch_signals()
                values = jax.block_until_ready(call(*arguments))
            finally:
                if watches:
                    native.unwatch_signals()
            if native.stops() == stops and stops % 2 == 0:
                return values
            watches = False  # the handler has returned, and would return again

    return calling


def while_loop(test: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """Trace a loop as `lax.while_loop` does, which signals can stop. The Program must be one that `may_not_end`."""

    def steps(outer: tuple[Any, Any]) -> tuple[Any, Any]:
        goes_on, state = outer
        goes_on, _, state = lax.while_loop(
            lambda inner: inner[0] & (inner[1] < policy.STEPS_BETWEEN_CHECKS), one_step, (goes_on, np.int32(0), state)
        )
        return goes_on & ~_stop().bind(), state

    def one_step(inner: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        _, count, state = inner
        state = step(state)
        return test(state), count + 1, state

    return lax.while_loop(lambda outer: outer[0], steps, (test(state), state))[1]


@cache
def _stop() -> Any:
    """Return the primitive that tells if a signal asks loops to stop. Where C cannot be called, it is always False."""
    from jax.extend.core import Primitive  # here, since it imports JAX

    stop = Primitive("stop")
    stop.def_abstract_eval(lambda: jax.core.ShapedArray((), np.bool_))
    never = mlir.lower_fun(lambda: jnp.bool_(False), multiple_results=False)
    ask = mlir.lower_fun(
        lambda: jax.ffi.ffi_call(STOP, jax.ShapeDtypeStruct((), np.bool_), has_side_effect=True)(
            numbers=np.zeros(1, np.int64)
        ),
        multiple_results=False,
    )  # XLA neither hoists nor merges calls with a side effect
    mlir.register_lowering(stop, never)
    mlir.register_lowering(stop, lambda ctx: (ask if is_for_one_device(ctx) and register() else never)(ctx), "cpu")
    return stop
