"""Make each allocation fail in turn, in every case.

`python -m tests.native.allocations [MEMBER ...]` prints a line of JSON before and after each case. The last line
names the case that ended the process, or describes the faults. It needs CPython's `_testcapi`.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

import mxcompat.core as mx
from mxcompat._graph.ir.node import Node

from .cases import Case, watched
from .references import counted
from .table import CASES, SHARED

__all__ = ["faults"]

IN_ORDER = 20
"""Number of consecutive calls without a visible failure after which all allocations count as tried."""

MOST_POINTS = 5000
SOME_POINTS = 100  # limit for recursions of thousands of levels, each with allocations
SWEEPS = 20


def described(x: Any, levels: int = 6) -> Any:
    """Return a description that is equal for equal results."""
    if not levels:
        return type(x)
    if isinstance(x, mx.array):
        return "array", described(x._node, levels - 1)
    if isinstance(x, Node):
        fields = (getattr(x, name, "nothing") for name in ("op", "params", "inputs", "aval", "trace", "value"))
        return "node", *(described(field, levels - 1) for field in fields)
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, x.tobytes()
    if isinstance(x, dict):
        return type(x), [(described(key, levels - 1), described(value, levels - 1)) for key, value in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x), [described(item, levels - 1) for item in (list.copy(x) if isinstance(x, list) else x)]
    return x if isinstance(x, (int, float, str, bytes, bool, type)) or x is None else type(x)


def _ended(case: Case, start: int, stop: int) -> Any:
    """Return the result or exception of a call in which the allocations from `start` to before `stop` fail (0: all
    from `start`)."""
    from _testcapi import remove_mem_hooks, set_nomemory

    arguments, function = case.arguments(), case.function
    case.before()
    gc.collect()  # this also empties the free lists
    try:
        if start >= 0:
            set_nomemory(start, stop)
        try:
            return function(*arguments)
        finally:
            remove_mem_hooks()
    except BaseException as error:
        return error.with_traceback(None)
    finally:
        case.after()


def _is_of_python(error: Any) -> bool:
    """Return True for CPython's own error: it lacked memory for the traceback of a Python function and lost the
    exception."""
    lost = "<function ", "error return without exception set"  # C functions have another message
    return isinstance(error, SystemError) and str(error).startswith(lost)


@cache
def _keeps_tuples() -> bool:
    """Return True if CPython leaks a reference to a tuple when the allocation of a list from it fails, as 3.11 does."""
    items = (1, 2, 3)
    case = Case("", "", list, (items,))
    before = sys.getrefcount(items)
    for _ in range(50):
        for point in range(5):
            _ended(case, point, point + 1)
    return sys.getrefcount(items) >= before + 50


def _points(case: Case, one: bool) -> tuple[int, list[str]]:
    """Return the number of allocations, and the faults if one of them fails, or if all from there on fail."""
    expected = described(_ended(case, -1, 0))
    wrong, right = [], 0
    most = SOME_POINTS if case.raises is RecursionError else MOST_POINTS
    for point in range(most):
        result = _ended(case, point, point + 1 if one else 0)
        if isinstance(result, MemoryError) or _is_of_python(result):
            right = 0
            continue
        right += 1
        if described(result) != expected or (case.raises is None) == isinstance(result, BaseException):
            wrong.append(f"{'only' if one else 'from'} {point}: {result!r}"[:200])
        if right == IN_ORDER:
            return point - IN_ORDER + 1, wrong
    return most, wrong if most == SOME_POINTS else [*wrong, "there is no end of it"]


def faults(case: Case) -> tuple[int, list[str]]:
    """Return the number of allocations tried in a case, and its faults, leaks included."""
    points, wrong = 0, []
    for one in (True, False):
        count, some = _points(case, one)
        points += count
        wrong += some

        def sweep(count: int = count, one: bool = one) -> None:
            for point in range(count):
                _ended(case, point, point + 1 if one else 0)

        if case.keeps:
            continue
        sweep()
        watch = [x for x in (*SHARED, *watched(case.arguments())) if type(x) is not tuple or not _keeps_tuples()]
        lost = counted(sweep, SWEEPS, watch, 0.8 * SWEEPS)
        if lost:
            wrong.append(f"{'only' if one else 'from'} each: lost {lost}")
    return points, wrong


def main(names: Iterable[str]) -> None:
    chosen = {*names}
    gc.collect()
    gc.freeze()
    for case in CASES:
        if str(case) in chosen or (not case.ends and (not chosen or case.member in chosen)):
            print(json.dumps({"case": str(case)}), flush=True)
            points, wrong = faults(case)
            print(json.dumps({"points": points, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
