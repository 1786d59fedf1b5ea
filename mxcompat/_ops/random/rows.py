"""Batches of random draws.

A draw has one key. Thus a small batch becomes separate nodes, one for each element. A larger batch becomes one node
that draws all rows, in a loop over the rows for some ops. A permutation of many arrays by one key remains one draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array.array import wrap
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import COST, HOST, QUICK
from mxcompat._jax import jax
from mxcompat._native import native

from ..define import TABLE, op

__all__ = ["one_by_one", "takes_several_keys"]


def _rows_lowered(*inputs: Any, name: str, given: tuple, flags: tuple[bool, ...], size: int) -> Any:
    one = TABLE[name]
    return jax.vmap(lambda *xs: one.lower(given, xs), [0 if on else None for on in flags])(*inputs)


def _infer_rows(*inputs: Aval, name: str, given: tuple, flags: tuple[bool, ...], size: int) -> Aval:
    rows = [aval(a.shape[1:], a.dtype) if on else a for a, on in zip(inputs, flags, strict=True)]
    out = TABLE[name].infer((given, *rows))
    return aval((size, *out.shape), out.dtype)


OF_EACH: set[str] = set()
"""The ops whose NumPy rules also take several keys, an array of shape (count, 2). Then `count` is the first axis of the
result, and of the other inputs, which have as many axes as the result."""


def takes_several_keys(*ops: Op) -> None:
    """Record that the NumPy rules of these ops also take several keys."""
    OF_EACH.update(op.name for op in ops)
    if native is not None:
        QUICK.update(ops)


_ROWS = op("random_rows", _rows_lowered, _infer_rows, ("name", "given", "flags", "size"), draws=True)


def _is_at_once(name: str, flags: tuple[bool, ...]) -> bool:
    """Return True if each row has its own key and all rows are drawn together.

    Batched logits are excluded, since their axes differ from those of the result.
    """
    return name in OF_EACH and flags[0] and not (name == "random_categorical" and flags[1])


def _with_dimensions(x: Any, ndim: int) -> Any:
    """Return an array with `ndim` axes. New axes of size 1 come after the first axis."""
    return x.reshape(x.shape[0], *[1] * (ndim - x.ndim), *x.shape[1:])


@HOST.of(_ROWS)
def _rows(out: Aval, params: tuple, *inputs: Any) -> Any:
    name, given, flags, size = params
    rule, one = HOST[TABLE[name]], aval(out.shape[1:], out.dtype)
    if _is_at_once(name, flags):
        ndim = len(out.shape)
        return rule(
            out,
            given,
            inputs[0],
            *[_with_dimensions(x, ndim) if on else x for x, on in zip(inputs[1:], flags[1:], strict=True)],
        )
    result = np.empty(out.shape, out.dtype._numpy)
    for k in range(size):
        row = rule(one, given, *[x[k] if on else x for x, on in zip(inputs, flags, strict=True)])
        if row is None:
            return None
        result[k] = row
    return result


@COST.of(_ROWS)
def _rows_cost(out: Aval, params: tuple, *inputs: Aval) -> float:
    name, _, flags, size = params
    draws = 1 if _is_at_once(name, flags) else size
    return draws * 10 * policy.OP_SECONDS + 20 * policy.BYTE_SECONDS * out.nbytes


def one_by_one(op: Op, params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> Node | None:
    if not 0 < size <= policy.FEW_ELEMENTS:
        return None
    if size > policy.DRAWS_AT_ONCE:
        return apply(_ROWS, tuple(inputs), (op.name, params, tuple(batched), size))
    draws = []
    for k in range(size):
        row = [wrap(n)[k]._node if on else n for n, on in zip(inputs, batched, strict=True)]
        draws.append(apply(op, tuple(row), params))
    return apply(TABLE["stack"], tuple(draws), (0,))
