"""The fast path for a single node whose inputs have values. It does not linearize.

A loop that calls an op and reads its result at once takes this path. Small arrays are computed in NumPy. For others, an
executable of this op is looked up by op, params and avals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import policy
from ..ir.aval import Aval, number
from ..ir.node import ITEM, SCALAR, TRACED, Node
from ..ir.op import Op
from ..ir.outputs import try_resolve_item
from ..ir.program import Code, Program
from ..ir.rules import COST, HOST, SUPPORTS
from . import budget
from .cache import compile_now
from .compile import Executable
from .placement import any_spread
from .values import as_node_value, jax_value

__all__ = ["clear", "executable", "remember", "value_of"]

_executables: dict[tuple, Executable] = {}


def value_of(node: Node) -> Any:
    """Return the value of a node whose inputs have values, or None if it needs a plan."""
    op = node.op
    if policy.HOST and op in HOST and op not in SUPPORTS and not policy.REPRODUCIBLE:
        value = _on_host(op, node)
        if value is not None:
            return value
    key: list[Any] = [op, node.params]
    values = []
    for i in node.inputs:
        if i.value is None or i.op is SCALAR or i.op is TRACED:
            return None
        key.append(i.aval)
        values.append(i)
    executable = _executables.get(tuple(key))
    if executable is None or executable.needs or any_spread(values):
        return None
    return executable([jax_value(i) for i in values], ())[0]


def _on_host(op: Op, node: Node) -> Any:
    """Compute the value by the op's host rule, if inputs and result are small NumPy arrays; otherwise return None."""
    out = node.aval
    if type(out) is not Aval or out.nbytes > policy.CALL_BYTES:
        return None
    arguments = []
    for i in node.inputs:
        value = i.value
        if value is None and i.op is ITEM and try_resolve_item(i):
            value = i.value
        if type(value) is not np.ndarray:
            if i.op is not SCALAR:
                return None
            value = number(value, i.aval.dtype)
        if value.nbytes > policy.CALL_BYTES:
            return None
        arguments.append(value)
    if op in COST and COST[op](out, node.params, *[i.aval for i in node.inputs]) > policy.WAKE_SECONDS:
        return None
    with np.errstate(all="ignore"):
        value = HOST[op](out, node.params, *arguments)
    return None if value is None else as_node_value(value, out)


def executable(op: Op, params: tuple, avals: Sequence[Aval]) -> Executable:
    """Return the executable of one op, and compile it if necessary."""
    key = (op, params, *avals)
    compiled = _executables.get(key)
    if compiled is None:
        out = op.memo.get((params, *avals)) or op.infer((params, *avals))
        slots = tuple([~k for k in range(len(avals))])
        program = Program(Code(((op, params, slots),), (None,) * len(avals)), tuple(avals), (0,), [out])
        compiled = compile_now(program, (), ())
        remember(op, params, avals, compiled)
    return compiled


def remember(op: Op, params: tuple, avals: Sequence[Aval], compiled: Executable) -> None:
    """Store the executable for nodes with this op, these params and these avals."""
    if len(_executables) >= policy.MOST_ENTRIES:
        _executables.clear()
    _executables[op, params, *avals] = compiled


def _forget(evicted: set[Executable]) -> None:
    for key, compiled in list(_executables.items()):
        if compiled in evicted:
            _executables.pop(key, None)


budget.forgotten.append(_forget)


def clear() -> None:
    """Remove all executables of single ops from this cache."""
    _executables.clear()
