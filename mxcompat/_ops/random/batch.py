"""Draws over an axis more. A draw has one key, so a few of them are drawn one by one; only a permutation of many arrays
by one key is one draw."""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._array.array import wrap
from mxcompat._graph import policy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..define import TABLE
from . import continuous, discrete, state  # noqa: F401  they define the ops

__all__: list[str] = []

_ONE_BY_ONE = (
    "split", "link", "uniform", "normal", "multivariate_normal", "truncated_normal", "gumbel", "laplace", "randint",
    "bernoulli", "categorical", "categorical_line", "permutation",
)  # fmt: skip


def _one_by_one(op: Op, params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> Node | None:
    if not 0 < size <= policy.SINGLE_DRAWS:
        return None
    draws = []
    for k in range(size):
        given = [wrap(n)[k]._node if on else n for n, on in zip(inputs, batched, strict=True)]
        draws.append(apply(op, tuple(given), params))
    return apply(TABLE["stack"], tuple(draws), (0,))


@BATCH.of(TABLE["random_permute"])
def _permute(op: Op, params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> Node | None:
    if batched[0]:
        return _one_by_one(op, params, inputs, batched, size)
    return apply(op, tuple(inputs), (params[0] + 1,))


BATCH.of(*[TABLE[f"random_{name}"] for name in _ONE_BY_ONE])(_one_by_one)
