"""Batching rules of random draws.

A draw has one key. So a small batch becomes separate nodes, one for each element. A larger batch becomes one node that
draws all rows. For some ops, it loops over the rows. A permutation of many arrays by one key remains one draw.
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
from mxcompat._graph.ir.rules import BATCH, COST, HOST
from mxcompat._jax import jax

from ..define import TABLE, op
from . import continuous, discrete, state  # noqa: F401  they define the ops
from .host import OF_EACH

__all__: list[str] = []

_ONE_BY_ONE = (
    "split", "link", "uniform", "normal", "multivariate_normal", "truncated_normal", "gumbel", "laplace", "randint",
    "bernoulli", "categorical", "categorical_line", "permutation",
)  # fmt: skip


def _rows_lowered(*inputs: Any, name: str, given: tuple, flags: tuple[bool, ...], size: int) -> Any:
    one = TABLE[name]
    return jax.vmap(lambda *xs: one.lower(given, xs), [0 if on else None for on in flags])(*inputs)


def _infer_rows(*inputs: Aval, name: str, given: tuple, flags: tuple[bool, ...], size: int) -> Aval:
    rows = [aval(a.shape[1:], a.dtype) if on else a for a, on in zip(inputs, flags, strict=True)]
    out = TABLE[name].infer((given, *rows))
    return aval((size, *out.shape), out.dtype)


_ROWS = op("random_rows", _rows_lowered, _infer_rows, ("name", "given", "flags", "size"), draws=True)


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


def _is_at_once(name: str, flags: tuple[bool, ...]) -> bool:
    """Return True if each row has its own key and all rows are drawn together.

    Batched logits are excluded, since their axes differ from those of the result.
    """
    return name in OF_EACH and flags[0] and not (name == "random_categorical" and flags[1])


def _with_dimensions(x: Any, ndim: int) -> Any:
    """Return an array with `ndim` axes. New axes of size 1 come after the first axis."""
    return x.reshape(x.shape[0], *[1] * (ndim - x.ndim), *x.shape[1:])


@COST.of(_ROWS)
def _rows_cost(out: Aval, params: tuple, *inputs: Aval) -> float:
    name, _, flags, size = params
    draws = 1 if _is_at_once(name, flags) else size
    return draws * policy.DRAW_SECONDS + 20 * policy.BYTE_SECONDS * out.nbytes


def _one_by_one(op: Op, params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> Node | None:
    if not 0 < size <= policy.LOOPED_DRAWS:
        return None
    if size > policy.SINGLE_DRAWS:
        return apply(_ROWS, tuple(inputs), (op.name, params, tuple(batched), size))
    draws = []
    for k in range(size):
        row = [wrap(n)[k]._node if on else n for n, on in zip(inputs, batched, strict=True)]
        draws.append(apply(op, tuple(row), params))
    return apply(TABLE["stack"], tuple(draws), (0,))


@BATCH.of(TABLE["random_permute"])
def _permute(op: Op, params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> Node | None:
    if batched[0]:
        return _one_by_one(op, params, inputs, batched, size)
    return apply(op, tuple(inputs), (params[0] + 1,))


BATCH.of(*[TABLE[f"random_{name}"] for name in _ONE_BY_ONE])(_one_by_one)
