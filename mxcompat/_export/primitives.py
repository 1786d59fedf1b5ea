"""MLX's primitives behind our ops, with their arguments: one op may be several, as a sum and the axis taken out of it.

Each op of the tables says how it is made of MLX's ops (`chain`). What is not in them is one primitive, named after the
op, with the op's parameters as its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mxcompat._array import construct, nest
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.op import Op
from mxcompat._ops.define import TABLE

from .chain import Chain, Group, Member, Source, Step
from .composed_elementwise import ELEMENTWISE
from .composed_fast import FAST
from .composed_indexing import INDEXING
from .composed_linalg import LINALG
from .composed_movement import MOVEMENT
from .composed_products import PRODUCTS
from .composed_random import RANDOM
from .composed_reductions import REDUCTIONS

__all__ = ["Made", "is_known", "made_of"]

_NAMES = {
    "block_masked_mm": "BlockMaskedMM", "conv": "Convolution", "from_fp8": "FromFP8", "linalg_cholesky": "Cholesky",
    "linalg_lu": "LUF", "linalg_qr": "QRF", "qqmm": "QQMatmul", "segmented_mm": "SegmentedMM", "to_fp8": "ToFP8",
}  # fmt: skip
"""MLX's names of the primitives behind ops, where they are not the op's own name in capitals."""

_RULES: dict[Op, Callable[..., Any]] = {
    {op.name: op for op in (construct.CAST, construct.COPY, nest.NEST)}.get(name) or TABLE[name]: rule
    for table in (ELEMENTWISE, FAST, INDEXING, LINALG, MOVEMENT, PRODUCTS, RANDOM, REDUCTIONS)
    for name, rule in table.items()
}
"""`rule(chain, **params)` lays down the primitives of an op and returns what gives its result, or the list of
what gives its results; None if they are not known."""


class Made(NamedTuple):
    """The primitives of an op, and which of what they return (or it was given) are its results."""

    steps: list[Step]
    results: Sequence[Source | Group | Member]


def made_of(
    op: Op, params: dict[str, Any], given: Sequence[Aval], wanted: Sequence[Aval], numbers: Sequence[Any],
    any_shape: bool = False,
) -> Made:  # fmt: skip
    """What MLX makes of an op.

    Args:
        given: the avals of its inputs, `numbers` their values where they are Python numbers.
        wanted: the avals of its results.
        any_shape: whether arrays of other shapes are to be welcome.
    """
    chain = Chain(given, numbers, wanted, any_shape)
    found = _RULES[op](chain, **params) if op in _RULES else None
    if found is None:
        chain.steps.clear()
        arguments = [list(p) if isinstance(p, tuple) else p for p in params.values()]
        found = chain.several(_primitive_name(op.name), range(len(given)), wanted, *arguments)
    return Made(chain.steps, found if isinstance(found, list) else [found])


def _primitive_name(name: str) -> str:
    """The name that MLX gives the primitive of an op that is one."""
    return _NAMES.get(name) or "".join(part.capitalize() for part in name.split("_"))


def is_known(op: Op, params: tuple) -> bool:
    """Whether an op is told as MLX tells it."""
    return op in _RULES or (op in TABLE.values() and not params)
