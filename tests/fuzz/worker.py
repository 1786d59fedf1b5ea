"""Run calls in worker processes, because real MLX crashes on some of them.

    python -m tests.fuzz.worker ours 0 1000

prints the start and the outcome of each call, as lines of JSON. A call that takes too long ends the process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.mutations import Call, call

SECONDS = 10.0
"""Seconds of CPU time that a call may use."""

PATIENCE = 120.0
"""Seconds after which a call counts as deadlocked."""

MEMORY = 1 << 28
"""Bytes of available memory that the library is told. Larger requests are refused, so no test machine needs them."""


def _limit(side: str) -> None:
    """End the process by a signal if a call takes too long, and limit its address space."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = (8 << 30) if side == "ours" else (4 << 30)
    if "ASAN_OPTIONS" not in os.environ:  # the address sanitizer reserves more address space
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if side == "ours":
        from mxcompat._graph import policy
        from mxcompat._graph.run import allocation

        policy.LARGE_ALLOCATION = 1 << 24
        allocation._available = lambda: MEMORY


def _made(side: str, call: Call) -> list[Any]:
    """Return the outcome of a call: its result, or the type and message of its exception."""
    from mxcompat.ext.debug import host_disabled
    from tests.oracle import ours, real
    from tests.sweep.ways import environment, prepared

    mx = ours if side == "ours" else real
    values = [g.values(call.dtype, call.case.seed + k) for k, g in enumerate(call.case.operands)]
    arrays = prepared(mx, values, [g.dtype or call.dtype for g in call.case.operands])
    mx.random.seed(7)
    names = environment(mx, call.dtype) | dict(zip("xyz", arrays, strict=False))

    def run() -> Any:
        out = eval(call.expression, names)
        mx.eval(out)
        return out

    try:
        if call.compiled and side == "ours":
            with host_disabled():
                return ["value", type(run()).__name__]
        return ["value", type(run()).__name__]
    except Exception as error:
        return ["error", type(error).__name__, str(error)[:400], str(error.__cause__ or "")[:200]]


def _timed(make: Callable[[], list[Any]]) -> list[Any]:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        return make()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def main(side: str, first: str, last: str) -> None:
    """Run the calls from `first` to before `last`."""
    from tests.oracle import real

    real.disable_compile()  # real MLX calls a C++ compiler for every program
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # this redirects the call's own output
    warnings.simplefilter("error", RuntimeWarning)
    np.seterr(all="warn")
    _limit(side)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(int(first), int(last)):
            out.write(json.dumps(["begin", number]) + "\n")
            out.flush()
            ended = _timed(lambda number=number: _made(side, call(number)))
            out.write(json.dumps(["end", number, *ended]) + "\n")
    out.write(json.dumps(["done"]) + "\n")
    out.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
